"""Tests of the watch that measures and judges preemptions on the real control plane."""

from __future__ import annotations

from typing import Any

from tests.e2e.roomwatch import Course, RoomWatch

Json = dict[str, Any]
MARK = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def shown(name: str, node: str = "", *, cpu: str = "1", marked: bool = False, uid: str = "") -> Json:
    container = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "uid": uid or name},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Pending", "conditions": [MARK] if marked else []},
    }


def watched(*events: tuple[float, Json, bool]) -> RoomWatch:
    """Return a watch that saw each pod at that time (seconds); the last part of an event says that the pod is gone."""
    watch: Any = RoomWatch(plane=None, namespace="team")  # type: ignore[arg-type]
    for at, pod, gone in events:
        watch._note(pod, gone=gone)
        watch.sightings[-1] = type(watch.sightings[-1])(
            **{field: getattr(watch.sightings[-1], field) for field in watch.sightings[-1].__slots__} | {"at": at}
        )
    return watch  # type: ignore[no-any-return]


def test_the_course_of_a_preemption_is_timed_from_the_preemptors_creation() -> None:
    watch = watched(
        (1.0, shown("a", "n1"), False),
        (1.0, shown("b", "n1"), False),
        (10.0, shown("other", cpu="2"), False),
        (10.5, shown("a", "n1", marked=True), False),
        (10.6, shown("b", "n1", marked=True), False),
        (12.0, shown("a", "n1", marked=True), True),
        (12.5, shown("b", "n1", marked=True), True),
        (13.0, shown("other", "n1", cpu="2"), False),
        (14.0, shown("c", "n1", marked=True), True),
    )
    assert watch.course("other") == Course(0.5, 2.5, 3.0, 3)
    assert (watch.over(2), watch.bound_before("other"), watch.preempted_twice()) == ([], [], [])


def test_a_pod_in_the_preemptors_room_is_found() -> None:
    watch = watched(
        (1.0, shown("a", "n1"), False),
        (10.0, shown("other"), False),
        (10.5, shown("a", "n1", marked=True), False),
        (12.0, shown("a", "n1", marked=True), True),
        (12.1, shown("a", "n1", uid="again"), False),
        (12.5, shown("a", "n1", uid="again", marked=True), False),
        (13.0, shown("other", "n1"), False),
    )
    assert watch.over(1) == ["n1: 2 of 1 cores"]
    assert len(watch.bound_before("other")) == 2
    assert watch.preempted_twice() == ["a"]
