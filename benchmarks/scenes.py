"""Make clusters for benchmarks that run without a control plane, as snapshots made by the real ``step``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from policy.cluster.events import Event, JobSeen, NodeSeen, PodGone, PodSeen, Synced, Tick
from policy.cluster.job import Job
from policy.cluster.layered import copied
from policy.cluster.memo import Memo
from policy.cluster.pod import Phase
from policy.cluster.snapshot import Rules, Snapshot
from policy.step import step
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2
from tests.builders import START, JobBuilder, guest, job, members, node

POLICY = Kod2()
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
    """Return the snapshot of a cluster in which a gang fills each node, and ``waiting`` gangs of fifty shapes wait.

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
    """Return the snapshot of an otherwise empty cluster in which ``gangs`` gangs have just been planned."""
    events: list[Event] = [NodeSeen(node(name_of(number))) for number in range(nodes)]
    for number in range(gangs):
        made = job(f"plan-{number}").ps(1, cpu=0.1, memory=0.1).workers(4, cpu=0.1, memory=0.1).done()
        events += [JobSeen(made), *(PodSeen(pod) for pod in members(made))]
    return _settled(events)


def _bound(made: Job, where: str) -> Iterator[Event]:
    yield JobSeen(made)
    for pod in members(made):
        yield PodSeen(replace(pod, node=where, phase=Phase.RUNNING, plan="p"))


def after_start(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as it is right after the start of a service, when its index has no remembered answers yet."""
    room, emptied = (replace(known, misfits=set()) for known in (snapshot.index.room, snapshot.index.emptied))
    return replace(snapshot, index=replace(snapshot.index, memo=Memo(), room=room, emptied=emptied))


def after_a_while(snapshot: Snapshot, policy: Policy = POLICY) -> Snapshot:
    """Return the snapshot after two steps, in which a foreign pod comes and goes and a job is updated.

    An index or a memo that has just been made holds plain dicts; these steps leave it with layered maps.
    """
    passing = guest("passing", name_of(0), 0.01, 0.01)
    first = next(iter(snapshot.jobs.values()), None)
    updated = [JobSeen(replace(first, version=first.version + 1))] if first is not None else []
    snapshot = step(snapshot, [PodSeen(passing), *updated], policy, NOW)[0]
    return step(snapshot, [PodGone(passing.uid)], policy, NOW)[0]


def _settled(events: Iterable[Event]) -> Snapshot:
    """Return the snapshot after these events, with its large maps layered as in a service that has run for a while. (A
    layered map holds small changes over a shared base.)

    The first step leaves plain dicts, which each timed step would first copy as a whole.
    """
    snapshot = step(Snapshot(rules=WIDE), [*events, Synced()], POLICY, NOW)[0]
    return after_a_while(_layered(step(snapshot, [Tick()], POLICY, NOW)[0]))


def _layered(snapshot: Snapshot) -> Snapshot:
    maps = {field.name: getattr(snapshot, field.name) for field in fields(snapshot)}
    layered: dict[str, Any] = {name: copied(value) for name, value in maps.items() if isinstance(value, Mapping)}
    return replace(snapshot, **layered)
