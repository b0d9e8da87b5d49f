"""Clusters for benchmarks without a control plane, as snapshots made by the real ``step``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policy.cluster.events import Event, JobSeen, NodeSeen, PodSeen, Synced, Tick
from policy.cluster.model import Job, Phase
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems.kod2 import Kod2
from tests.builders import START, JobBuilder, guest, job, members, node

SHAPES = 50
NOW = START + 100.0
WIDE = Rules(gangs_at_once=10_000)


def name_of(number: int) -> str:
    """Return a node's name, as long as those of real clusters."""
    return f"worker-node-{number:05d}"


def running_gang(number: int) -> JobBuilder:
    """Return a job of one ps and four workers (at least two), which takes nine of a node's ten cores."""
    return job(f"run-{number}").ps(1).workers(2, 4, asked=4).arrived(number / 1000)


def waiting_gang(number: int) -> JobBuilder:
    """Return a job of one of fifty shapes, too large for the room left and lighter than the running ones."""
    cpu, memory = 2 + number % 10 / 10, 4 + number // 10 % 5
    return (
        job(f"wait-{number}").ps(1).workers(4, cpu=cpu, memory=memory).with_(utility=0.01).arrived(50 + number / 1000)
    )


def full_cluster(nodes: int, waiting: int, foreign: int = 0) -> Snapshot:
    """Return a cluster in which a gang fills each node, and ``waiting`` gangs of fifty shapes wait.

    ``foreign`` is the number of pods that did not opt in.
    """
    events: list[Event] = [NodeSeen(node(name_of(number))) for number in range(nodes)]
    for number in range(nodes):
        events += _bound(running_gang(number).done(), name_of(number))
    events += [PodSeen(guest(f"guest-{number}", name_of(number % nodes), 0.01, 0.01)) for number in range(foreign)]
    for number in range(waiting):
        made = waiting_gang(number).done()
        events += [JobSeen(made), *(PodSeen(pod) for pod in members(made))]
    return _settled(events)


def planned_cluster(nodes: int, gangs: int) -> Snapshot:
    """Return an empty cluster in which so many gangs have just been planned."""
    events: list[Event] = [NodeSeen(node(name_of(number))) for number in range(nodes)]
    for number in range(gangs):
        made = job(f"plan-{number}").ps(1, cpu=0.1, memory=0.1).workers(4, cpu=0.1, memory=0.1).done()
        events += [JobSeen(made), *(PodSeen(pod) for pod in members(made))]
    return _settled(events)


def _bound(made: Job, where: str) -> Iterator[Event]:
    yield JobSeen(made)
    for pod in members(made):
        yield PodSeen(replace(pod, node=where, phase=Phase.RUNNING, plan="p"))


def _settled(events: Iterable[Event]) -> Snapshot:
    """Return the snapshot after these events, and after another step for what the first one left to do."""
    snapshot = step(Snapshot(rules=WIDE), [*events, Synced()], Kod2(), NOW)[0]
    return step(snapshot, [Tick()], Kod2(), NOW)[0]
