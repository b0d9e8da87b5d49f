"""Questions about one gang that every transition asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from policy.cluster.actions import Effect, RefuseBind, Released
from policy.cluster.gang import Gang
from policy.cluster.lifecycle import Move, next_state
from policy.cluster.model import WORKER, Job, Node, Phase, Pod, Slot
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Draft, Rules


def rules_of(draft: Draft) -> Rules:
    """The settings in force."""
    rules: Rules = draft.base.rules
    return rules


def job_of(draft: Draft, uid: str) -> Job | None:
    """The job of that uid as the draft has it."""
    job: Job | None = draft.read("jobs").get(uid)
    return job


def pod_in(draft: Draft, job_uid: str, slot: Slot) -> Pod | None:
    """The pod in the slot."""
    uid = draft.read("members").get(job_uid, {}).get(slot)
    pod: Pod | None = draft.read("pods").get(uid)
    return pod


def bound_slots(draft: Draft, job_uid: str) -> set[Slot]:
    """Slots whose pod sits on a node that exists and is not going, or has succeeded."""
    pods, nodes = draft.read("pods"), draft.read("nodes")
    members = draft.read("members").get(job_uid, {})
    return {slot for slot, uid in members.items() if _stays(pods[uid], nodes)}


def _stays(pod: Pod, nodes: Mapping[str, Node]) -> bool:
    return pod.phase is Phase.SUCCEEDED or (pod.holds_room and not pod.terminating and pod.node in nodes)


def holding_pods(draft: Draft, job_uid: str) -> list[Pod]:
    """The job's pods that hold room, going or not; also those whose slot a successor has taken."""
    return [pod for pod in draft.read("pods").values() if pod.job_uid == job_uid and pod.holds_room]


def complete(job: Job, slots: set[Slot]) -> bool:
    """Whether the slots hold the gang's minimum, role by role: every rigid member, and the minimum of workers."""
    rigid = all(slot in slots for slot in job.slots(0))
    return rigid and sum(1 for slot in slots if slot.role == WORKER) >= job.min_workers


def move(draft: Draft, gang: Gang, how: Move, **changes: object) -> Gang:
    """Take the gang along an edge of the lifecycle table and store it."""
    moved: Gang = replace(gang, state=next_state(gang.state, how), **changes)  # type: ignore[arg-type]
    draft.put_gang(moved)
    return moved


def refuse_held(gang: Gang, reason: Reason) -> list[Effect]:
    """Answers for every bind that the gang holds."""
    return [RefuseBind(uid, reason) for uid in sorted(gang.held)]


def give_up(draft: Draft, gang: Gang, now: float, reason: Reason, *, back_off: bool = True) -> list[Effect]:
    """Drop the plan: back to the queue where nothing is bound, else release the bound members first."""
    effects: list[Effect] = [*refuse_held(gang, reason), Released(gang.job_uid, gang.plan, reason)]
    rules = rules_of(draft)
    if back_off:
        attempts = gang.attempts + 1
        gang = replace(gang, attempts=attempts, not_before=now + _pause(rules, attempts))
    if holding_pods(draft, gang.job_uid) or gang.in_flight:
        release(draft, gang, now)
    else:
        move(draft, cleared(gang), Move.GIVE_UP)
    return effects


def release(draft: Draft, gang: Gang, now: float) -> Gang:
    """Begin to release the gang whole; bindings without a known outcome keep their room until they must be known."""
    pods = draft.read("pods")
    flying = {pods[uid].slot for uid in gang.in_flight if uid in pods}
    nodes = {slot: node for slot, node in gang.nodes.items() if slot in flying}
    deadline = now + 2 * rules_of(draft).binding_seconds
    return move(draft, cleared(gang), Move.RELEASE, nodes=nodes, in_flight=gang.in_flight, deadline=deadline)


def cleared(gang: Gang) -> Gang:
    """The gang without its plan; what it has tried and when it may try again stay."""
    return Gang(gang.job_uid, gang.state, attempts=gang.attempts, misses=gang.misses, not_before=gang.not_before)


def _pause(rules: Rules, attempts: int) -> float:
    return min(rules.backoff_max_seconds, rules.backoff_initial_seconds * 2.0 ** min(attempts - 1, 16))
