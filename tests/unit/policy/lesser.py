"""Changes that are smaller than one that ``explain`` advised, computed here independently of the code under test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from policy.answers.change import Change, Kind
from policy.cluster.job import WORKER, Job
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from tests.builders import World

TENTHS = [tenth / 10 for tenth in range(10)]


def smaller(
    snapshot: Snapshot, one: Job, change: Change, policy: Policy, now: float
) -> Iterator[tuple[Snapshot, float]]:
    """Yield snapshots in which less than the advised change is made, each with the seconds after which to decide.

    snapshot: the state in which the job may be decided about. A policy that judges a job only once sees the job as
    newly submitted there. now: the time at which the advice was given.
    """
    if change.kind is Kind.WAIT:
        yield from ((snapshot, change.size * tenth) for tenth in TENTHS)
        return
    ends = partial(_smaller_ends, policy=policy, now=now)
    made: dict[Kind, Callable[[Snapshot, Job, Change], Iterator[Snapshot]]] = {
        Kind.MIN_WORKERS: _minima, Kind.REPLICAS: _replicas, Kind.UTILITY: _worths, Kind.TARGET: _targets,
        Kind.UNCORDON: _nothing, Kind.NODES: _nodes, Kind.DELETE: ends, Kind.END: ends,
    }  # fmt: skip
    if change.kind in made:
        yield from ((less, change.wait) for less in made[change.kind](snapshot, one, change))


def _as(snapshot: Snapshot, job: Job) -> Snapshot:
    return replace(snapshot, jobs={**snapshot.jobs, job.uid: job})


def _minima(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    for least in range(one.min_workers - 1, one.min_workers - int(change.size), -1):
        yield _as(snapshot, replace(one, min_workers=least))


def _replicas(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    asked_for = one.worker.replicas if one.worker is not None else 0
    for count in range(asked_for - 1, asked_for - int(change.size), -1):
        roles = tuple(replace(role, replicas=count) if role.name == WORKER else role for role in one.roles)
        yield _as(snapshot, replace(one, roles=roles, min_workers=min(one.min_workers, count), max_workers=count))


def _worths(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    """Yield snapshots in which the job's utility is raised by less than advised.

    The values have four figures: tenths of the way to the advised value, and the value just below it.
    """
    utility = one.training.utility if one.training is not None else None
    had = utility.value if utility is not None else one.utility
    told = had + change.size
    below = told - 10.0 ** (math.floor(math.log10(told)) - 3)
    for value in {float(f"{value:.4g}") for value in [below, *(had + change.size * tenth for tenth in TENTHS)]}:
        if not had <= value < told:
            continue
        if one.training is not None and utility is not None:
            lower = replace(one, training=replace(one.training, utility=replace(utility, value=value)))
        else:
            lower = replace(one, utility=value, utility_stated=True)
        yield _as(snapshot, lower)


def _targets(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    """Yield snapshots in which the target of the job's utility curve is raised by fewer slots than advised."""
    assert one.training is not None
    assert one.training.utility is not None
    for slots in range(int(change.size)):
        utility = replace(one.training.utility, target=one.training.utility.target + slots)
        yield _as(snapshot, replace(one, training=replace(one.training, utility=utility)))


def _nothing(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    """Yield the unchanged snapshot: less than one node to uncordon, or one job to end, is nothing."""
    del one, change
    yield snapshot


def _smaller_ends(snapshot: Snapshot, one: Job, change: Change, *, policy: Policy, now: float) -> Iterator[Snapshot]:
    """Yield the unchanged snapshot, and one without each job that holds fewer cores than the job named
    in the advice.
    """
    yield from _nothing(snapshot, one, change)
    held = {
        uid: sum(pod.requests["cpu"] for pod in snapshot.every_pod_of(uid) if pod.holds_room) for uid in snapshot.jobs
    }
    named = next(uid for uid, other in snapshot.jobs.items() if f" {other.key}" in change.text.split(",")[0])
    for uid, cores in held.items():
        if 0 < cores < held[named] and uid != one.uid:
            then = World(policy, now, snapshot, checked=False)
            then.end(snapshot.jobs[uid])
            yield then.snapshot


def _nodes(snapshot: Snapshot, one: Job, change: Change) -> Iterator[Snapshot]:
    del one
    usable = (node for node in snapshot.nodes.values() if not node.unschedulable)
    largest = max(usable, key=lambda node: node.allocatable["cpu"])
    for count in range(1, int(change.size)):
        more = {f"more-{at}": replace(largest, name=f"more-{at}", uid=f"more-{at}") for at in range(count)}
        yield replace(snapshot, nodes={**snapshot.nodes, **more})
