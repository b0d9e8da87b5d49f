"""Tests that the simulated controllers of Kubernetes' own kinds do the same as kube-controller-manager 1.37.

No pod is bound, because the controllers go by phases, deletions and indices. Each action has an expected final state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from lab.sim.objects import JobPhase, JobSpec, PodObject, WorkloadKind
from lab.sim.pods.apps import DELETION_COST, POD_INDEX, deletion_cost
from lab.sim.pods.batch import COMPLETION_INDEX
from lab.sim.pods.world import SimulatedWorld
from policy.cluster.job import WORKER, Role
from policy.cluster.pod import Phase
from tests.controlplane import ControlPlane, NodeShape
from tests.e2e.waiting import until
from tests.unit.sim.worlds import SMALL, submitted

pytestmark = pytest.mark.full

Json = dict[str, Any]
PATHS = {
    WorkloadKind.INDEXED_JOB: "/apis/batch/v1/namespaces/{}/jobs",
    WorkloadKind.STATEFULSET: "/apis/apps/v1/namespaces/{}/statefulsets",
    WorkloadKind.DEPLOYMENT: "/apis/apps/v1/namespaces/{}/deployments",
}
BACK_OFF = 60  # The Job controller recreates the pod of a failed index within so many seconds.


class Seen(NamedTuple):
    """The state of the job under test: the indices of its active and complete pods, and whether the job has ended.

    A Deployment's pods have no index; ``active`` then has their deletion costs.
    """

    active: tuple[int, ...]
    over: tuple[int, ...] = ()
    ended: bool = False


class Imagined:
    """A job of the kind under the simulator's controllers, with the actions of the tests."""

    def __init__(self, kind: WorkloadKind) -> None:
        self.kind = kind
        self.world: SimulatedWorld = submitted(JobSpec("a", (Role(WORKER, 3, SMALL),), 1, 6, 600.0, kind=kind))

    def active(self) -> list[PodObject]:
        return sorted((pod for pod in self.world.store.pods.values() if pod.active), key=self.number)

    def number(self, pod: PodObject) -> int:
        return deletion_cost(pod) if self.kind is WorkloadKind.DEPLOYMENT or pod.slot is None else pod.slot.index

    def pod(self, number: int) -> PodObject:
        return next(pod for pod in self.active() if self.number(pod) == number)

    def end(self, number: int, phase: Phase) -> None:
        self.world._core.write_pod(replace(self.pod(number), phase=phase, ended=self.world.now))

    def delete(self, number: int) -> None:
        self.world.delete_pod("default", self.pod(number).name)

    def scale(self, workers: int) -> None:
        self.world.patch_workers("default", "a", workers)

    def suspend(self, on: bool) -> None:
        self.world.suspend("default", "a", on)

    def cost(self, *costs: int) -> None:
        for pod, cost in zip(self.active(), costs, strict=True):
            self.world.annotate(pod.namespace, pod.name, {DELETION_COST: str(cost)})

    def comes_to(self, wanted: Seen) -> None:
        self.world.advance(self.world.now + BACK_OFF)
        job = next(iter(self.world.store.jobs.values()))
        numbers = tuple(map(self.number, self.active()))
        assert Seen(numbers, job.over, job.phase is JobPhase.SUCCEEDED) == wanted


class Real:
    """The same job under the real kube-controller-manager, with the same actions."""

    def __init__(self, plane: ControlPlane, space: str, kind: WorkloadKind) -> None:
        self.kind, self.api = kind, plane.api
        self.jobs, self.pods = PATHS[kind].format(space), f"/api/v1/namespaces/{space}/pods"
        self.api.create(self.jobs, {"metadata": {"name": "a"}, "spec": self._spec()})

    def _spec(self) -> Json:
        container = {"name": "main", "image": "none"}
        body: Json = {"schedulerName": "nobody", "containers": [container]}
        template = {"metadata": {"labels": {"app": "a"}}, "spec": body}
        if self.kind is WorkloadKind.INDEXED_JOB:
            body["restartPolicy"] = "Never"
            return {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template}
        set_only = {"serviceName": "a", "podManagementPolicy": "Parallel"}
        return {**spec, **(set_only if self.kind is WorkloadKind.STATEFULSET else {})}

    def active(self) -> list[Json]:
        found = [
            pod
            for pod in self.api.get(self.pods)["items"]
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]
        return sorted(found, key=self.number)

    def number(self, pod: Json) -> int:
        if self.kind is WorkloadKind.DEPLOYMENT:
            return int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0"))
        label = COMPLETION_INDEX if self.kind is WorkloadKind.INDEXED_JOB else POD_INDEX
        return int(pod["metadata"]["labels"][label])

    def pod(self, number: int) -> str:
        found = next(pod for pod in self.active() if self.number(pod) == number)
        return f"{self.pods}/{found['metadata']['name']}"

    def end(self, number: int, phase: Phase) -> None:
        self.api.patch(f"{self.pod(number)}/status", {"status": {"phase": phase.value}})

    def delete(self, number: int) -> None:
        self.api.delete(self.pod(number))

    def scale(self, workers: int) -> None:
        counts = ("parallelism", "completions") if self.kind is WorkloadKind.INDEXED_JOB else ("replicas",)
        self.api.patch(f"{self.jobs}/a", {"spec": dict.fromkeys(counts, workers)})

    def suspend(self, on: bool) -> None:
        self.api.patch(f"{self.jobs}/a", {"spec": {"suspend": on}})

    def cost(self, *costs: int) -> None:
        for pod, cost in zip(self.active(), costs, strict=True):
            note = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
            self.api.patch(f"{self.pods}/{pod['metadata']['name']}", note)

    def seen(self) -> Seen:
        status = self.api.get(f"{self.jobs}/a").get("status", {})
        ended = any(c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions", ()))
        return Seen(tuple(map(self.number, self.active())), _indices(status.get("completedIndexes", "")), ended)

    def comes_to(self, wanted: Seen) -> None:
        until(lambda: self.seen() == wanted, str(wanted), BACK_OFF, lambda: str(self.seen()))


def _indices(written: str) -> tuple[int, ...]:
    spans = [span.partition("-") for span in written.split(",") if span]
    return tuple(n for first, _, last in spans for n in range(int(first), int(last or first) + 1))


Side = Imagined | Real
Act = tuple[Callable[[Side], None], Seen]


def _ends(number: int, phase: Phase) -> Callable[[Side], None]:
    return lambda side: side.end(number, phase)


def _scales(workers: int) -> Callable[[Side], None]:
    return lambda side: side.scale(workers)


def _deletes(number: int) -> Callable[[Side], None]:
    return lambda side: side.delete(number)


def _nothing(side: Side) -> None:
    pass


ACTS: dict[WorkloadKind, Sequence[Act]] = {
    WorkloadKind.INDEXED_JOB: (
        (_nothing, Seen((0, 1, 2))),
        (_deletes(2), Seen((0, 1, 2))),
        (_ends(0, Phase.SUCCEEDED), Seen((1, 2), (0,))),
        (_scales(2), Seen((1,), (0,))),
        (lambda side: side.suspend(True), Seen((), (0,))),
        (lambda side: side.suspend(False), Seen((1,), (0,))),
        (_scales(4), Seen((1, 2, 3), (0,))),
        (_ends(3, Phase.SUCCEEDED), Seen((1, 2), (0, 3))),
        (_scales(3), Seen((1, 2), (0,))),
        (_scales(4), Seen((1, 2, 3), (0,))),
        (_ends(1, Phase.FAILED), Seen((1, 2, 3), (0,))),
        (_ends(1, Phase.SUCCEEDED), Seen((2, 3), (0, 1))),
        (_ends(2, Phase.SUCCEEDED), Seen((3,), (0, 1, 2))),
        (_ends(3, Phase.SUCCEEDED), Seen((), (0, 1, 2, 3), True)),
    ),
    WorkloadKind.STATEFULSET: (
        (_nothing, Seen((0, 1, 2))),
        (_ends(1, Phase.FAILED), Seen((0, 1, 2))),
        (_scales(1), Seen((0,))),
        (_scales(2), Seen((0, 1))),
        (_deletes(0), Seen((0, 1))),
        (_scales(0), Seen(())),
    ),
    WorkloadKind.DEPLOYMENT: (
        (_nothing, Seen((0, 0, 0))),
        (lambda side: side.cost(5, -3, 1), Seen((-3, 1, 5))),
        (_scales(2), Seen((1, 5))),
        (_scales(3), Seen((0, 1, 5))),
        (_ends(5, Phase.FAILED), Seen((0, 0, 1))),
        (_deletes(1), Seen((0, 0, 0))),
        (_scales(0), Seen(())),
    ),
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("controllers")
    with ControlPlane.start(NodeShape(count=1), workdir=folder, controller_manager=True) as started:
        yield started


def _play(side: Side, acts: Sequence[Act]) -> None:
    for number, (act, wanted) in enumerate(acts):
        act(side)
        try:
            side.comes_to(wanted)
        except AssertionError as error:
            raise AssertionError(f"act {number}: {error}") from error


@pytest.mark.parametrize("kind", ACTS, ids=lambda kind: kind.value)
def test_the_imagined_one(kind: WorkloadKind) -> None:
    _play(Imagined(kind), ACTS[kind])


@pytest.mark.parametrize("kind", ACTS, ids=lambda kind: kind.value)
def test_the_real_one(plane: ControlPlane, space: str, kind: WorkloadKind) -> None:
    _play(Real(plane, space, kind), ACTS[kind])
