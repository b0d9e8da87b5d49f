"""A pod of the default scheduler that preempts members of a job on a full cluster, for a test and a benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import nodes_of, pods
from tests.e2e.gangs import create_pod, fresh_kohort, lone_pod, submit
from tests.e2e.observer import cores_of
from tests.e2e.roomwatch import Course, RoomWatch
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import PATIENCE, never, until

CORES, NODES = 12, 3
FLUSH = 240.0  # seconds after PATIENCE within which kube-scheduler looks at every unschedulable pod again (after 300 s)
URGENT = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
KINDS: Final[Mapping[str, tuple[int, bool]]] = {
    f"{cpu} cores, {'elastic' if elastic else 'rigid'}": (cpu, elastic) for cpu in (3, 10) for elastic in (True, False)
}
"""The kinds of preemption: how many cores the preemptor requests, and whether the job that it meets is elastic."""
PREEMPTOR: Final = "other"


@contextmanager
def preemption_plane(workdir: Path) -> Iterator[ControlPlane]:
    """Start a control plane of three nodes with its default scheduler and the PriorityClass of the preemptors."""
    shape = NodeShape(count=NODES, cpu=str(CORES), gpu=0)
    with ControlPlane.start(nodes=shape, workdir=workdir, controller_manager=True) as started:
        started.start_scheduler()
        started.apply(URGENT)
        yield started


@contextmanager
def preempted_kohort(plane: ControlPlane) -> Iterator[Kohort]:
    """Start Kohort with short waits, so that one preemption can follow the other."""
    settings: dict[str, Any] = {
        "kod2": {"cooldown_seconds": 1}, "barrier": {"repair_seconds": 5},
        "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4},
    }  # fmt: skip
    with fresh_kohort(plane, settings, "preemption") as started:
        yield started


def filling(space: str, *, elastic: bool) -> TFJob:
    """Return a job of one-core members that takes the whole cluster.

    Its ps cannot be preempted, because the training operator fails a TFJob whose ps has failed.
    """
    whole = NODES * CORES - 1
    least, most = (2, whole) if elastic else (None, None)
    return TFJob(space, "filling", workers=20 if elastic else whole, least=least, most=most, dynamic=True,
                 ps_extra={"priorityClassName": "urgent"})  # fmt: skip


def preempt(plane: ControlPlane, space: str, name: str, cpu: int) -> None:
    """Create a pod of the default scheduler that needs preemption, and wait until it is bound.

    kube-scheduler may leave a preemptor whose room is free in its queue until the next flush (kubernetes #141694).
    """
    create_pod(plane, space, lone_pod(name, str(cpu), scheduler="default-scheduler", priorityClassName="urgent"))
    try:
        until(lambda: name in nodes_of(plane, space), f"{name} bound")
    except AssertionError:
        free = free_at_nomination(plane, space, name)
        if free < cpu:
            raise
        print(f"{name} is not bound after {PATIENCE:.0f} s although {free:g} cores of its nominated node are free")
        until(lambda: name in nodes_of(plane, space), f"{name} bound after the flush", limit=FLUSH)


def free_at_nomination(plane: ControlPlane, space: str, name: str) -> float:
    """Return how many cores of the pod's nominated node no pod uses, or 0 if it has no nomination."""
    everywhere = plane.api.get("/api/v1/pods")["items"]
    asked = next(pod for pod in everywhere if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (space, name))
    node = asked["status"].get("nominatedNodeName")
    there = [pod for pod in everywhere if node and pod["spec"].get("nodeName") == node]
    return CORES - sum(cores_of(one) for pod in there for one in pod["spec"]["containers"]) if node else 0


def whole(plane: ControlPlane, job: TFJob) -> bool:
    """Tell whether the job has the whole cluster."""
    return len(nodes_of(plane, job.namespace, job.name)) == NODES * CORES


def end(plane: ControlPlane, space: str, name: str) -> None:
    """Delete the pod at once."""
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")
    until(lambda: not any(pod["metadata"]["name"] == name for pod in pods(plane, space)), f"{name} gone")


def only_room_was_made(watch: RoomWatch, name: str, cpu: int) -> None:
    """Check that no pod of Kohort's took the room; a late cache may make kube-scheduler mark one victim more."""
    assert watch.over(CORES) == []
    assert watch.bound_before(name) == []
    assert watch.preempted_twice() == []
    assert len(watch.victims) >= cpu, sorted(watch.victims.values())


def told(plane: ControlPlane, space: str, *reasons: str) -> list[str]:
    """Return the texts of the Events with these reasons."""
    found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    return [event.get("note", "") for event in found if event["reason"] in reasons]


def one_preemption(plane: ControlPlane, space: str, cpu: int, *, elastic: bool) -> Course:
    """Fill the cluster with a job, preempt some of its members, and check what must hold.

    An elastic job goes on with fewer workers, and a rigid one is released; both say by whom they were preempted.
    """
    job = submit(plane, filling(space, elastic=elastic))
    until(lambda: whole(plane, job), "the job on the whole cluster")
    ends = "MembersPreempted" if elastic else "Released"
    with RoomWatch(plane, space) as watch:
        until(lambda: len(watch.bound_now(job.name)) == NODES * CORES, "seen by the watch")
        preempt(plane, space, PREEMPTOR, cpu)
        until(lambda: told(plane, space, ends), f"{ends} told")
        never(lambda: watch.over(CORES), "over-committed by the workers that are made again", 5)
        only_room_was_made(watch, PREEMPTOR, cpu)
        course = watch.course(PREEMPTOR)
    assert any(f"{space}/{PREEMPTOR}" in text for text in told(plane, space, "MembersPreempted"))
    assert elastic or any("preempted" in text for text in told(plane, space, "Released"))
    end(plane, space, PREEMPTOR)
    until(lambda: whole(plane, job), "the job whole again")
    plane.kubectl("delete", "tfjob", job.name, "-n", space, "--wait=true")
    return course


def in_words(kind: str, courses: Sequence[Course]) -> str:
    """Return a line for people about several preemptions of one kind, for all of which `one_preemption` has passed."""
    slowest = max(courses, key=lambda one: one.seconds)
    middle = statistics.median(one.seconds for one in courses)
    victims = sum(one.victims for one in courses)
    return (
        f"{kind}: {len(courses)} preemptors bound {middle:.1f} s after their creation in the median, "
        f"{slowest.seconds:.1f} s at most ({slowest}); {victims} victims, none twice; no node over; cause told"
    )
