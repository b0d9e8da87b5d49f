"""Tests of another scheduler that preempts members: its pod gets the room, and no node is overcommitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import COUNTED
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import cli, explained, nodes_of
from tests.e2e.gangs import create_pod, lone_pod, own_namespace, submit
from tests.e2e.preempting import (
    CORES,
    KINDS,
    NODES,
    end,
    filling,
    in_words,
    one_preemption,
    only_room_was_made,
    preempt,
    preempted_kohort,
    preemption_plane,
    told,
    whole,
)
from tests.e2e.roomwatch import RoomWatch
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import never, until


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with preemption_plane(tmp_path_factory.mktemp("preemption")) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    with preempted_kohort(plane) as started:
        yield started


def test_a_preempted_worker_does_not_take_the_preemptors_room(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, filling(space, elastic=True))
    until(lambda: whole(plane, job), "the job on the whole cluster")
    with RoomWatch(plane, space) as watch:
        until(lambda: len(watch.bound_now(job.name)) == NODES * CORES, "seen by the watch")
        preempt(plane, space, "other", 3)
        until(lambda: len(nodes_of(plane, space)) >= NODES * CORES - 2, "everybody else still there")
        never(lambda: watch.over(CORES), "over-committed by the workers that are made again", 3)
        only_room_was_made(watch, "other", 3)
        print(f"bound after {watch.course('other').seconds:.1f} s, {sorted(watch.victims.values())} preempted")
    until(lambda: told(plane, space, "MembersPreempted"), "the cause told")
    assert any(f"{space}/other" in text for text in told(plane, space, "MembersPreempted"))
    end(plane, space, "other")
    until(lambda: whole(plane, job), "the job on the whole cluster again")


@pytest.mark.full
@pytest.mark.timeout(1500, func_only=True)
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_preemptions(
    plane: ControlPlane, kohort: Kohort, kind: str, record_property: Callable[[str, object], None]
) -> None:
    """Five of each kind one after another, each on a full cluster; benchmarks.preemption judges their times."""
    courses, (cpu, elastic) = [], KINDS[kind]
    for turn in range(5):
        with own_namespace(plane, f"twenty-{cpu}-{elastic}-{turn}") as space:
            courses.append(one_preemption(plane, space, cpu, elastic=elastic))
    record_property(COUNTED, in_words(kind, courses))
    print(in_words(kind, courses))


@pytest.mark.full
@pytest.mark.timeout(600, func_only=True)
def test_many_preemptors_at_once(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, filling(space, elastic=True))
    until(lambda: whole(plane, job), "the job on the whole cluster")
    names = [f"other-{n}" for n in range(8)]
    with RoomWatch(plane, space) as watch:
        until(lambda: len(watch.bound_now(job.name)) == NODES * CORES, "seen by the watch")
        for name in names:
            create_pod(plane, space, lone_pod(name, "3", scheduler="default-scheduler", priorityClassName="urgent"))
        seconds = until(lambda: set(names) <= nodes_of(plane, space).keys(), "all of them bound")
        never(lambda: watch.over(CORES), "over-committed by the workers that are made again", 5)
        print(f"8 preemptors bound after {seconds:.1f} s, {len(watch.victims)} victims")
        assert watch.over(CORES) == []
        assert watch.preempted_twice() == []
        assert len(watch.victims) >= 3 * len(names)


def test_a_gang_waits_behind_pods_of_a_lower_priority_and_names_them(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """The pods have no PriorityClass; a gang without one has the same priority and is told nothing about that."""
    for number in range(NODES):
        create_pod(plane, space, lone_pod(f"web-{number}", str(CORES), scheduler="default-scheduler"))
    until(lambda: len(nodes_of(plane, space)) == NODES, "every node full")
    submit(plane, TFJob(space, "equal", workers=2, ps=0))
    urgent = submit(plane, TFJob(space, "urgent", workers=2, ps=0, extra={"priorityClassName": "urgent"}))
    words = f"lower priority ({space}/web-0), which Kohort does not preempt"
    until(lambda: words in cli(kohort, "explain", f"{space}/urgent"), "the pod named",
          seen=lambda: cli(kohort, "explain", f"{space}/urgent"))  # fmt: skip
    assert "lower priority" not in cli(kohort, "explain", f"{space}/equal")
    assert all(explained(kohort, space, name)[0] == "RoomHeldByOtherPods" for name in ("equal", "urgent"))
    end(plane, space, "web-0")
    until(lambda: len(nodes_of(plane, space, urgent.name)) == urgent.workers, "started once the pod is gone")
