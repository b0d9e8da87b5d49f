"""Why a running job stands where it does: its nodes, what crosses the network, and what holds its growth back.

What holds growth back is found by asking the policy again on copies in which one thing is different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from policy.answers.operated import without
from policy.cluster.actions import Resize
from policy.cluster.draft import Draft
from policy.cluster.gang import ADMITTED, Gang
from policy.cluster.model import PS, WORKER, Job
from policy.cluster.snapshot import Snapshot
from policy.placement.gang import ask_of, cross_node_pairs, place, worker_demand
from policy.placement.room import Room
from policy.systems.base import Policy

ALL_GROWTH = "nothing: it has as many workers as it may have"
RIGID = "its bounds: it is a rigid gang; state kohort.dev/max-workers to let it grow"


@dataclass(frozen=True, slots=True)
class Grounds:
    """In words: why these nodes, what crosses the network, what growth is held back by. pairs: of ps and worker.

    crossing: those of them on different nodes.
    """

    placement: str
    pairs: int
    crossing: int
    traffic: str
    growth: str


def grounds(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Grounds | None:
    """Why the job runs as it does; None where it has no room."""
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
    if len(hosts) == 1:
        return f"whole on {next(iter(hosts))}: one node takes all of it, so no traffic leaves it"
    spread = ", ".join(f"{node}: {count}" for node, count in sorted(hosts.items()))
    room = Room.of(snapshot)
    for slot, node in gang.nodes.items():
        pod = snapshot.member(job.uid, slot)
        role = job.role(slot.role)
        if pod is not None or role is not None:
            room.give(node, pod.requests if pod is not None else role.requests)  # type: ignore[union-attr]
    found = place(room, ask_of(snapshot, job, gang.workers))
    better = len(set(found.values())) if found else len(hosts)
    now = f"it would now go on {better}, but what runs is not moved for that" if better < len(hosts) else (
        "no fewer would take it now"
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


# -- growth --------------------------------------------------------------------------------------


def held_back(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> str:
    """The first thing without which the policy would give the job another worker."""
    gang = snapshot.gang(job.uid)
    if job.note:
        return job.note
    if not job.elastic or job.worker is None:
        return RIGID
    if gang.workers >= job.max_workers:
        return ALL_GROWTH
    if grows(snapshot, job, policy, now):
        return "nothing: it grows with the next decision"
    if now < gang.not_before:
        return f"its last growth: those workers did not come; it is tried again in {gang.not_before - now:.0f} s"
    for copy, later, text in _otherwise(snapshot, job, gang, policy, now):
        if grows(copy, job, policy, now + later):
            return text
    return f"the policy {policy.name} gives it no more workers now"


def grows(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> bool:
    """Whether the policy would now give the job more workers than it has."""
    has = snapshot.gang(job.uid).workers
    decided = policy.decide(snapshot, now).actions
    return any(isinstance(one, Resize) and one.job_uid == job.uid and one.workers > has for one in decided)


def _otherwise(
    snapshot: Snapshot, job: Job, gang: Gang, policy: Policy, now: float
) -> Iterator[tuple[Snapshot, float, str]]:
    """Copies in which one thing is different, how much later they are looked at, and what that thing is."""
    cooldown = getattr(policy, "cooldown", None)
    rest = gang.scaled_at + cooldown - now if cooldown and gang.scaled_at is not None else 0.0
    if rest > 0:
        yield snapshot, rest + 1.0, f"its cool-down of {cooldown:g} s, {rest:.0f} s left"
    roomy, like = _more_room(snapshot, job)
    room = f"room: no node that it may grow on has what one more worker asks for (its first member is on {like})"
    if roomy is not None:
        yield roomy, 0.0, room
    quiet = _without_queue(snapshot)
    if quiet is not snapshot:
        first = next(iter(snapshot.waiting()))
        yield quiet, 0.0, f"jobs that wait: what is free is kept for them ({first.key} among them)"
        both, _ = _more_room(quiet, job)
        if both is not None:
            yield both, 0.0, f"room, and jobs that wait ({first.key} among them)"


def _more_room(snapshot: Snapshot, job: Job) -> tuple[Snapshot | None, str]:
    """As if the node of its first member were larger by what a worker asks for."""
    hosts = [snapshot.nodes[node] for node in snapshot.gang(job.uid).nodes.values() if node in snapshot.nodes]
    if not hosts:
        return None, ""
    draft = Draft(snapshot)
    for host in {host.name: host for host in hosts}.values():
        draft.put_node(replace(host, allocatable=host.allocatable + worker_demand(snapshot, job)))
    return draft.freeze(), hosts[0].name


def _without_queue(snapshot: Snapshot) -> Snapshot:
    for uid in [job.uid for job in snapshot.waiting()]:
        snapshot = without(snapshot, uid)
    return snapshot
