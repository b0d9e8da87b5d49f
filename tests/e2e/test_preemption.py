"""Tests with another scheduler that preempts members of a gang: its pod gets the room, and no node is overcommitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import nodes_of, pods
from tests.e2e.gangs import create_pod, fresh_kohort, lone_pod, own_namespace, submit
from tests.e2e.observer import cores_of
from tests.e2e.roomwatch import RoomWatch
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import PATIENCE, never, until

Json = dict[str, Any]
CORES, NODES = 12, 3
FLUSH = 240.0  # FLUSH and PATIENCE exceed the 300 s after which kube-scheduler tries every pod again.
URGENT = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    shape, workdir = NodeShape(count=NODES, cpu=str(CORES), gpu=0), tmp_path_factory.mktemp("preemption")
    with ControlPlane.start(nodes=shape, workdir=workdir, controller_manager=True) as started:
        started.start_scheduler()
        started.apply(URGENT)
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    settings = {"kod2": {"cooldown_seconds": 1}, "barrier": {"repair_seconds": 5},
                "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4}}  # fmt: skip
    with fresh_kohort(plane, settings, "preemption") as started:
        yield started


def filling(space: str, *, elastic: bool) -> TFJob:
    """Return a job of one-core members that takes the whole cluster."""
    whole = NODES * CORES - 1
    least, most = (2, whole) if elastic else (None, None)
    return TFJob(space, "filling", workers=20 if elastic else whole, least=least, most=most, dynamic=True)


def preempt(plane: ControlPlane, space: str, name: str, cpu: int) -> float:
    """Create a pod of the default scheduler that must preempt others; return after how many seconds it was bound.

    kube-scheduler may leave such a pod in its queue for 300 s although its room is free (kubernetes #141694).
    """
    create_pod(plane, space, lone_pod(name, str(cpu), scheduler="default-scheduler", priorityClassName="urgent"))
    try:
        return until(lambda: name in nodes_of(plane, space), f"{name} bound")
    except AssertionError:
        free = free_at_nomination(plane, space, name)
        if free < cpu:
            raise
    print(f"{name} is not bound after {PATIENCE:.0f} s although {free:g} cores of its nominated node are free")
    return PATIENCE + until(lambda: name in nodes_of(plane, space), f"{name} bound after the flush", limit=FLUSH)


def free_at_nomination(plane: ControlPlane, space: str, name: str) -> float:
    """Return how many cores of the pod's nominated node no pod uses, or 0 if it has no nomination."""
    everywhere = plane.api.get("/api/v1/pods")["items"]
    asked = next(pod for pod in everywhere if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (space, name))
    node = asked["status"].get("nominatedNodeName")
    there = [pod for pod in everywhere if node and pod["spec"].get("nodeName") == node]
    return CORES - sum(cores_of(one) for pod in there for one in pod["spec"]["containers"]) if node else 0


def whole(plane: ControlPlane, job: TFJob) -> bool:
    return len(nodes_of(plane, job.namespace, job.name)) == NODES * CORES


def end(plane: ControlPlane, space: str, name: str) -> None:
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")
    until(lambda: not any(pod["metadata"]["name"] == name for pod in pods(plane, space)), f"{name} gone")


def only_room_was_made(watch: RoomWatch, name: str, cpu: int) -> None:
    """Check that no other pod took the room which the preempting pod made, and that no node is overcommitted.

    The number of victims may exceed ``cpu``, because kube-scheduler's cache may be late.
    """
    assert watch.over(CORES) == []
    assert watch.bound_before(name) == []
    assert watch.preempted_twice() == []
    assert len(watch.victims) >= cpu, sorted(watch.victims.values())


def told(plane: ControlPlane, space: str, *reasons: str) -> list[str]:
    """Return the notes of the namespace's Events with these reasons."""
    found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return [event.get("note", "") for event in found if event["reason"] in reasons]


def test_a_preempted_worker_does_not_take_the_preemptors_room(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    job = submit(plane, filling(space, elastic=True))
    until(lambda: whole(plane, job), "the job on the whole cluster")
    with RoomWatch(plane, space) as watch:
        until(lambda: len(watch.bound_now(job.name)) == NODES * CORES, "seen by the watch")
        seconds = preempt(plane, space, "other", 3)
        until(lambda: len(nodes_of(plane, space)) >= NODES * CORES - 2, "everybody else still there")
        never(lambda: watch.over(CORES), "over-committed by the workers that are made again", 3)
        print(f"bound after {seconds:.1f} s, {len(watch.victims)} victims: {sorted(watch.victims.values())}")
        only_room_was_made(watch, "other", 3)
    until(lambda: told(plane, space, "MembersPreempted"), "the cause told")
    assert any(f"{space}/other" in text for text in told(plane, space, "MembersPreempted"))
    end(plane, space, "other")
    until(lambda: whole(plane, job), "the job on the whole cluster again")


@pytest.mark.full
@pytest.mark.timeout(1500, func_only=True)
@pytest.mark.parametrize("elastic", [True, False], ids=["elastic", "rigid"])
@pytest.mark.parametrize("cpu", [3, 10])
def test_twenty_preemptions(plane: ControlPlane, kohort: Kohort, cpu: int, elastic: bool) -> None:
    """Five preemptions in turn for each pod size and kind of gang, each on a cluster that the gang fills."""
    took = []
    for turn in range(5):
        with own_namespace(plane, f"twenty-{cpu}-{elastic}-{turn}") as space:
            took.append(one_preemption(plane, space, cpu, elastic=elastic))
    print(f"{cpu} cores, {'elastic' if elastic else 'rigid'}: bound after {', '.join(f'{s:.1f}' for s in took)} s")


def one_preemption(plane: ControlPlane, space: str, cpu: int, *, elastic: bool) -> float:
    job = submit(plane, filling(space, elastic=elastic))
    until(lambda: whole(plane, job), "the job on the whole cluster")
    ends = "MembersPreempted" if elastic else "Released"
    with RoomWatch(plane, space) as watch:
        until(lambda: len(watch.bound_now(job.name)) == NODES * CORES, "seen by the watch")
        seconds = preempt(plane, space, "other", cpu)
        until(lambda: told(plane, space, ends), f"{ends} told")
        never(lambda: watch.over(CORES), "over-committed by the workers that are made again", 5)
        only_room_was_made(watch, "other", cpu)
        print(f"bound after {seconds:.1f} s, {len(watch.victims)} victims")
    assert any(f"{space}/other" in text for text in told(plane, space, "MembersPreempted"))
    assert elastic or any("preempted" in text for text in told(plane, space, "Released"))
    end(plane, space, "other")
    until(lambda: whole(plane, job), "the job whole again")
    plane.kubectl("delete", "tfjob", job.name, "-n", space, "--wait=true")
    return seconds


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
