"""A ResourceQuota on pods: controllers get as many as it allows, and the others once there is room again."""

from __future__ import annotations

import pytest

from lab.sim.objects import JobSpec, WorkloadKind
from policy.cluster.job import WORKER, Role
from tests.unit.sim.worlds import SMALL, spec, world


def of_kind(kind: WorkloadKind, name: str = "a") -> JobSpec:
    return JobSpec(name, (Role(WORKER, 4, SMALL),), 1, 4, 60.0, kind=kind)


@pytest.mark.parametrize("kind", WorkloadKind)
def test_only_so_many_pods_come_and_the_rest_when_the_quota_is_gone(kind: WorkloadKind) -> None:
    made = world()
    made.set_quota("default", 3)
    made.submit(of_kind(kind))
    made.advance(10.0)
    assert len(made.store.pods) == 3
    made.set_quota("default", None)
    made.advance(15.0)
    assert len(made.store.pods) == 4


def test_one_that_a_quota_leaves_short_does_not_keep_the_operator_from_the_others() -> None:
    made = world()
    made.set_quota("default", 1)
    made.submit(spec("a", ps=0, workers=2))
    made.submit(spec("b", ps=0, workers=2, namespace="other"))
    made.advance(10.0)
    assert sorted(pod.key for pod in made.store.pods.values()) == [
        "default/a-worker-0",
        "other/b-worker-0",
        "other/b-worker-1",
    ]


def test_a_pod_that_stops_counts_and_one_that_has_ended_does_not() -> None:
    made = world(terminate_seconds=5.0)
    made.submit(spec("a", ps=0, workers=1))
    made.advance(1.0)
    made.set_quota("default", 1)
    made.bind("default", "a-worker-0", "n1")
    made.advance(3.0)
    made.delete_pod("default", "a-worker-0")
    made.submit(spec("b", ps=0, workers=1))
    made.advance(7.0)
    assert made.store.pod_named("default", "b-worker-0") is None
    made.advance(12.0)
    assert len(made.store.pods) == 1
