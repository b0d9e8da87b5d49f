"""The simulated controllers of StatefulSets and Deployments create and delete pods in the order of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.sim.objects import JobSpec, PodObject, WorkloadKind
from lab.sim.pods.apps import DELETION_COST, POD_INDEX, TEMPLATE_HASH, first_to_delete
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.job import WORKER, Role
from policy.cluster.pod import Phase
from tests.unit.sim.worlds import SMALL, bind_all, job, submitted

OWN = (WorkloadKind.STATEFULSET, WorkloadKind.DEPLOYMENT)


def spec(kind: WorkloadKind, workers: int = 3, work: float = 600.0) -> JobSpec:
    return JobSpec("a", (Role(WORKER, workers, SMALL),), 1, 6, work, kind=kind)


def running(kind: WorkloadKind, **more: float) -> SimulatedWorld:
    made = submitted(spec(kind, **more))  # type: ignore[arg-type]
    bind_all(made)
    made.advance(2.0)
    return made


def names(made: SimulatedWorld) -> list[str]:
    """Return the sorted names of the pods that are neither deleted nor failed."""
    return sorted(pod.name for pod in made.store.pods.values() if pod.deleted is None and pod.phase is not Phase.FAILED)


def fail(made: SimulatedWorld, name: str) -> None:
    found = made.store.pod_named("default", name)
    assert found is not None
    made._core.write_pod(replace(found, phase=Phase.FAILED, ended=made.now))


def test_a_sets_pods_are_numbered_and_the_highest_ordinals_go() -> None:
    made = running(WorkloadKind.STATEFULSET, workers=4)
    assert names(made) == ["a-0", "a-1", "a-2", "a-3"]
    assert [pod.labels[POD_INDEX] for pod in made.store.pods.values()] == ["0", "1", "2", "3"]
    made.patch_workers("default", "a", 2)
    made.advance(2.0)
    assert names(made) == ["a-0", "a-1"]


def test_an_ordinal_that_terminates_keeps_its_name_until_it_is_gone() -> None:
    made = running(WorkloadKind.STATEFULSET)
    first = made.store.pod_named("default", "a-1")
    made.delete_pod("default", "a-1")
    made.advance(2.5)
    assert names(made) == ["a-0", "a-2"]
    made.advance(5.0)
    again = made.store.pod_named("default", "a-1")
    assert first is not None
    assert again is not None
    assert (again.uid != first.uid, again.node) == (True, "")


def test_a_set_deletes_a_pod_that_has_failed_and_a_deployment_leaves_it() -> None:
    made = running(WorkloadKind.STATEFULSET)
    fail(made, "a-1")
    made.advance(5.0)
    assert {pod.phase for pod in made.store.pods.values()} == {Phase.RUNNING, Phase.PENDING}
    made = running(WorkloadKind.DEPLOYMENT)
    failed = names(made)[0]
    fail(made, failed)
    made.advance(5.0)
    assert made.store.pod_named("default", failed) is not None
    assert len(names(made)) == 3


def test_a_deployments_lost_pod_has_a_successor_of_another_name_at_once() -> None:
    made = running(WorkloadKind.DEPLOYMENT)
    before = names(made)
    made.delete_pod("default", before[0])
    made.advance(2.0)
    assert len(names(made)) == 3
    assert before[0] not in names(made)
    hashes = {pod.labels[TEMPLATE_HASH] for pod in made.store.pods.values()}
    assert all(name.startswith(f"a-{one}-") for name in names(made) for one in hashes)


@pytest.mark.parametrize("kind", OWN)
def test_what_is_trained_runs_on_until_its_user_deletes_it(kind: WorkloadKind) -> None:
    made = running(kind, work=10.0)
    made.advance(100.0)
    uid = job(made).uid
    assert made.progress(uid).done == 10.0
    assert (made.progress(uid).members, job(made).phase.ended) == ((), False)
    assert {pod.phase for pod in made.store.pods.values()} == {Phase.RUNNING}
    made.patch_workers("default", "a", 4)
    made.advance(200.0)
    assert len(names(made)) == 4
    made.delete_job("default", "a")
    made.advance(300.0)
    assert not made.store.pods


@pytest.mark.parametrize("kind", OWN)
def test_it_is_stopped_by_no_replicas_and_not_by_suspension(kind: WorkloadKind) -> None:
    made = running(kind)
    for refused in (made.suspend("default", "a"), made.release("default", "a")):
        assert refused is not None
        assert refused.status == 422
    made.patch_workers("default", "a", 0)
    made.advance(10.0)
    assert (names(made), job(made).stopped) == ([], True)


def pod(name: str, node: str = "n1", phase: Phase = Phase.RUNNING, cost: str = "0", created: float = 0.0,
        started: float | None = 1.0) -> PodObject:  # fmt: skip
    return PodObject(
        name, "default", name, SMALL, node=node, phase=phase, created=created,
        started=started if phase is Phase.RUNNING else None, annotations={DELETION_COST: cost} if cost else {},
    )  # fmt: skip


FIRST: dict[str, Callable[[], tuple[PodObject, PodObject]]] = {
    "unassigned, whatever it costs": lambda: (pod("b", node="", phase=Phase.PENDING, cost="9"), pod("a", cost="-9")),
    "pending, whatever it costs": lambda: (pod("b", phase=Phase.PENDING, cost="9"), pod("a", cost="-9")),
    "the lowest cost": lambda: (pod("b", cost="-3"), pod("a", cost="-2")),
    "a cost that is no number is 0": lambda: (pod("b", cost="-1"), pod("a", cost="much")),
    "the younger": lambda: (pod("b", started=90.0), pod("a", started=1.0)),
    "of one logarithmic age, the smaller uid": lambda: (pod("a", started=10.0), pod("b", started=12.0)),
}


@pytest.mark.parametrize("make", FIRST.values(), ids=FIRST)
def test_who_goes_first(make: Callable[[], tuple[PodObject, PodObject]]) -> None:
    first, other = make()
    assert first_to_delete([first, other], 100.0) is first
    assert first_to_delete([other, first], 100.0) is first


def test_of_equal_ones_that_goes_which_has_most_siblings_on_its_node() -> None:
    assert first_to_delete([pod("a", "n2"), pod("b", "n1"), pod("c", "n1")], 100.0).node == "n1"
