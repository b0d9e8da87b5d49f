"""Explains why a running job runs as it does: its nodes, its traffic between nodes, and what holds its growth back.

For the growth, the policy decides again on copies of the snapshot (hindrances.py).
"""

from __future__ import annotations

from collections import Counter

from policy.answers.explanation import Grounds
from policy.answers.hindrances import grows, held_by
from policy.answers.unplaced import unplaced_of
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import PS, WORKER, Job
from policy.cluster.snapshot import Snapshot
from policy.cluster.sortedgroups import in_sorted
from policy.cluster.words import counted
from policy.placement.gang import ask_of, cross_node_pairs, place
from policy.placement.room import Room
from policy.systems.base import Policy

ALL_GROWTH = "nothing: it has as many workers as it may have"
MALFORMED = "its malformed field: it keeps its pods, and gets no more until the field is corrected"
RIGID = "its bounds: it is a rigid gang; state kohort.dev/max-workers to let it grow"
ENDS = "its end: some of its workers have finished already"


def grounds(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Grounds | None:
    """Return the explanation why the job runs as it does; None if the job holds no room."""
    gang = snapshot.gang(job.uid)
    if gang.state not in ADMITTED or not gang.nodes:
        return None
    servers = sum(1 for slot in gang.nodes if slot.role == PS)
    workers = sum(1 for slot in gang.nodes if slot.role == WORKER)
    pairs, crossing = servers * workers, cross_node_pairs(gang.nodes)
    return Grounds(
        _placement(snapshot, job, gang), pairs, crossing, _traffic(job, pairs, crossing, servers, workers),
        held_back(snapshot, job, policy, now),
    )  # fmt: skip


def _placement(snapshot: Snapshot, job: Job, gang: Gang) -> str:
    hosts = Counter(gang.nodes.values())
    if missing := unplaced_of(snapshot, job):
        there = ", ".join(f"{node}: {count}" for node, count in sorted(hosts.items()))
        return (
            f"in part ({there}); {len(missing)} of its members have no node"
            if len(missing) > 1
            else (f"in part ({there}); one of its members has no node")
        )
    if len(hosts) == 1:
        return f"whole on {next(iter(hosts))}: one node takes all of it, so no traffic leaves it"
    spread = ", ".join(f"{node}: {count}" for node, count in sorted(hosts.items()))
    if job.invalid:  # The requests of a malformed job cannot be read, so no placement can be tried for it.
        return f"on {len(hosts)} nodes ({spread})"
    room = Room.of(snapshot)
    for slot, node in gang.nodes.items():
        pod = snapshot.member(job.uid, slot)
        role = job.role(slot.role)
        if pod is not None or role is not None:
            room.give(node, pod.requests if pod is not None else role.requests)  # type: ignore[union-attr]
    found = place(room, ask_of(snapshot, job, gang.workers))
    better = len(set(found.values())) if found else len(hosts)
    fewer = counted(better, "node")
    now = f"it would now fit on {fewer}, but running pods are not moved for it" if better < len(hosts) else (
        "fewer nodes would not hold it now"
    )  # fmt: skip
    return f"on {len(hosts)} nodes ({spread}); {now}"


def _traffic(job: Job, pairs: int, crossing: int, servers: int, workers: int) -> str:
    if not pairs:
        return "no ps: workers exchange gradients among themselves" if workers > 1 else ""
    text = f"{crossing} of {pairs} ps-worker pairs cross nodes"
    training = job.training
    if training is not None and training.gradient and training.step_seconds > 0:
        megabytes = crossing / servers * 2 * training.gradient / training.step_seconds
        text += f", about {megabytes:.3g} MB/s by its kohort.dev/training"
    return text


# -- The functions below say in words what keeps a job from growing. -----------------------------


def held_back(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> str:
    """Return in words what keeps the policy from giving the job another worker."""
    gang = snapshot.gang(job.uid)
    if job.invalid:
        return MALFORMED
    if job.note:
        return job.note
    if not job.elastic or job.worker is None:
        return RIGID
    if gang.workers >= job.max_workers:
        return ALL_GROWTH
    if grows(snapshot, job, policy, now):
        return "nothing: it grows with the next decision"
    if now < gang.tries.not_before:
        return f"its last growth: the workers did not arrive; it is grown again in {gang.tries.not_before - now:.0f} s"
    if policy.base.grows and gang.state in ADMITTED and not in_sorted(snapshot.index.growing, job.uid):
        return ENDS
    return _unsettled(gang) or held_by(snapshot, job, policy, now) or _rule(gang, policy)


def _unsettled(gang: Gang) -> str:
    """Return in words that the gang cannot grow because of held binds or because of its state; empty if it can."""
    if gang.held:
        return f"its members: {len(gang.held)} of them wait to be bound"
    sure = gang.state is State.RUNNING or (gang.state is State.PLANNED and not gang.tries.misses)
    return "" if sure else f"its state: it is {gang.state.value}, and grows once it runs"


def _rule(gang: Gang, policy: Policy) -> str:
    """Return in words that it is the policy itself that gives the job no more workers.

    The text for a policy that grows jobs into free room differs from that for one that keeps to its decided numbers.
    """
    if policy.base.grows:
        return f"the policy {policy.name} gives it no more workers now"
    workers = "the worker" if gang.workers == 1 else f"the {gang.workers} workers"
    return f"the policy {policy.name}: it keeps to {workers} that it has decided on, even where room is free"
