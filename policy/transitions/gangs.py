"""Functions on one gang that several transitions share: questions about it, and changes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from policy.cluster.actions import Bind, Effect, RefuseBind
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State, Tries
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.lifecycle import Awaits, Move, next_state
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.reasons import Reason
from policy.transitions.deadlines.patience import until

TURNS_KEPT = 4
RESIZED = (State.RUNNING, State.REPAIRING, State.MIGRATING)  # A resize is reported only if the gang is in one of these.


def bound_slots(draft: Draft, job_uid: str) -> set[Slot]:
    """Return the slots of the job that count as bound.

    The pod of such a slot is bound to a node that exists and is not terminating, or it has succeeded; or no pod will
    come for the slot again.
    """
    pods, nodes = draft.now.pods, draft.now.nodes
    members, job = draft.now.members.get(job_uid, {}), draft.now.jobs.get(job_uid)
    there = {slot for slot, uid in members.items() if pods[uid].phase is Phase.SUCCEEDED or stays(pods[uid], nodes)}
    return there.union(job.over) if job is not None and job.over else there


def stays(pod: Pod, nodes: Mapping[str, Node]) -> bool:
    """Tell whether the pod is bound to a node that exists, and has neither ended nor is terminating."""
    return pod.holds_room and not pod.terminating and pod.node in nodes


def pods_of(draft: Draft, job_uid: str) -> Iterator[Pod]:
    """Yield every pod of the job: its members, then its replaced pods."""
    pods = draft.now.pods
    yield from (pods[uid] for uid in draft.now.members.get(job_uid, {}).values())
    yield from (pods[uid] for uid in sorted(draft.now.strays.get(job_uid, ())))


def any_holds_room(draft: Draft, job_uid: str) -> bool:
    """Tell whether a pod of the job holds room, terminating or not."""
    return any(pod.holds_room for pod in pods_of(draft, job_uid))


def any_bound(draft: Draft, job_uid: str) -> bool:
    """Tell whether a pod of the job holds room and is not terminating, so that a release has to delete it."""
    return any(pod.holds_room and not pod.terminating for pod in pods_of(draft, job_uid))


def any_goes(draft: Draft, job_uid: str) -> bool:
    """Tell whether a member is terminating on a ready node, whose kubelet can still report its end."""
    pods, nodes = draft.now.pods, draft.now.nodes
    members = (pods[uid] for uid in draft.now.members.get(job_uid, {}).values())
    going = (pod for pod in members if pod.terminating and pod.holds_room)
    return any(pod.node in nodes and nodes[pod.node].ready for pod in going)


def none_made(draft: Draft, gang: Gang) -> bool:
    """Tell whether all bindings that were sent for the gang have failed, so that no member is bound.

    The members must then be held at the barrier again, so that they are bound together or not at all.
    """
    return gang.state is State.BINDING and gang.whole and not gang.in_flight and not any_bound(draft, gang.job_uid)


def any_stays(draft: Draft, job_uid: str) -> bool:
    """Tell whether the job has a pod that is bound to a node that exists, and has neither ended nor is terminating."""
    nodes = draft.now.nodes
    return any(stays(pod, nodes) for pod in pods_of(draft, job_uid))


def complete(job: Job, slots: Collection[Slot], workers: int, servers: int | None = None) -> bool:
    """Tell whether ``slots`` has every rigid member and at least ``workers`` workers.

    servers: how many ps are needed; None means as many as the job object asks for.
    """
    rigid = all(slot in slots for slot in job.slots(0, servers))
    return rigid and sum(1 for slot in slots if slot.role == WORKER) >= workers


def least_workers(job: Job, gang: Gang) -> int:
    """Return the minimum of workers that the gang must keep.

    If the user raises the minimum of a bound gang, the old minimum counts until as many workers as the new minimum are
    bound.
    """
    settled = gang.state in (State.BINDING, State.RUNNING, State.MIGRATING, State.REPAIRING)
    return min(gang.least, job.min_workers) if settled else job.min_workers


def move(draft: Draft, gang: Gang, how: Move, **changes: object) -> Gang:
    """Move the gang to its next state by the lifecycle table, store it with ``changes`` to its fields, and return it.

    Raises InvalidMoveError if the table has no such move. A gang that stops running awaits no workers any more, and the
    failures of its growth are forgotten.
    """
    state = next_state(gang.state, how)
    if gang.state is State.RUNNING:
        changes = {"awaited": 0, "tries": Tries(misses=gang.tries.misses), **changes}
    moved: Gang = replace(gang, state=state, **changes)  # type: ignore[arg-type]
    draft.put_gang(moved)
    return moved


def plan_name(draft: Draft, now: float) -> str:
    """Return the name for plans that are made in this step; no other step uses the same name, even after a restart."""
    return f"{draft.base.generation}-{int(now * 1000)}"


def bind(pod: Pod, slot: Slot, gang: Gang) -> Bind:
    """Return the instruction to bind the pod to its planned node; for a bound pod, to the node where it is."""
    return Bind(pod.uid, pod.namespace, pod.name, pod.node or gang.nodes[slot], pod.plan or gang.plan, slot)


def refuse_held(gang: Gang, reason: Reason) -> list[Effect]:
    """Return a refusal, with this reason, for every bind of the gang that is held at the barrier."""
    return [RefuseBind(uid, reason) for uid in sorted(gang.held)]


def let_go(draft: Draft, gang: Gang, uid: str) -> Gang:
    """Remove one pod's held bind from the barrier; when it was the last one, the barrier's window ends."""
    held = {other: slot for other, slot in gang.held.items() if other != uid}
    gang = replace(gang, barrier=replace(gang.barrier, slots=held) if gang.barrier is not None and held else None)
    draft.put_gang(gang)
    return gang


def forget(draft: Draft, gang: Gang, slots: Collection[Slot]) -> tuple[Gang, list[Effect]]:
    """Remove the slots from the plan, and return the gang with refusals for the binds that are held for these slots.

    A held bind counts only for the old node, because kube-scheduler has checked the pod for that node.
    """
    stale = sorted(uid for uid, slot in gang.held.items() if slot in slots)
    for uid in stale:
        gang = let_go(draft, gang, uid)
    kept = {slot: node for slot, node in gang.nodes.items() if slot not in slots}
    if len(kept) != len(gang.nodes):
        gang = replace(gang, nodes=kept)
        draft.put_gang(gang)
    return gang, [RefuseBind(uid, Reason.PLAN_CHANGED) for uid in stale]


def retarget(
    draft: Draft, gang: Gang, workers: int, nodes: Mapping[Slot, str], now: float, servers: int | None = None
) -> Gang:
    """Give the gang the target ``workers``, store it, and return it.

    Slots beyond the target are removed from the plan; their pods keep their room charged until they are gone.
    nodes: the planned nodes of new slots. servers: the new number of ps; None leaves it as it is.
    """
    given = replace(gang, workers=workers, ps=gang.ps if servers is None else servers)
    kept = {slot: node for slot, node in gang.nodes.items() if given.gives(slot)}
    changes: dict[str, object] = {"nodes": {**kept, **nodes}, "workers": workers, "ps": given.ps}
    if nodes:
        # kube-scheduler has refused pods in the new slots under the old plan. With a new plan name the controller wakes
        # these pods.
        changes["plan"] = plan_name(draft, now)
    if workers != gang.workers:
        grew = workers > gang.workers
        turned = gang.scaling.grew is not None and gang.scaling.grew is not grew
        known = gang.scaling
        changes["scaling"] = replace(
            known,
            grew=grew,
            scaled_at=now,
            targets=(*known.targets, gang.workers),
            before=gang.workers if known.before is None and gang.state in RESIZED else known.before,
            turns=(*known.turns, now)[-TURNS_KEPT:] if turned else known.turns,
        )
        changes |= _awaiting(draft, gang, workers - gang.workers, now)
    gang = replace(gang, **changes)  # type: ignore[arg-type]
    draft.put_gang(gang)
    return gang


def _awaiting(draft: Draft, gang: Gang, more: int, now: float) -> dict[str, object]:
    """Return the fields (name to value) that change on a running gang when its target changes by ``more``.

    The gang awaits additional workers, and the deadline of the growth starts again. If ``more`` is negative, workers
    that are taken away are no longer awaited.
    """
    if gang.state is not State.RUNNING or not gang.whole:
        return {}
    if more > 0:
        once = replace(gang.tries, retried=False)
        return {"awaited": gang.awaited + more, "tries": once, "deadline": until(draft, Awaits.GROWTH, now)}
    left = max(0, gang.awaited + more)
    return {"awaited": left} if left or not gang.awaited else nobody_awaited(draft, gang, now)


def nobody_awaited(draft: Draft, gang: Gang, now: float) -> dict[str, object]:
    """Return the fields (name to value) that change on a running gang when it awaits no workers any more.

    If bindings are in flight, their outcomes are still awaited.
    """
    deadline = until(draft, Awaits.OUTCOMES, now) if gang.in_flight else None
    return {"awaited": 0, "tries": replace(gang.tries, retried=False), "deadline": deadline}
