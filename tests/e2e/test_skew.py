"""Tests of an elastic gang and the extender's protocol on other versions of Kubernetes, and beside native gangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.controlplane.recipes import KUBERNETES_VERSION, OLDER_VERSIONS
from tests.e2e.asking import JOB, metric, nodes_of
from tests.e2e.gangs import create_pod, lone_pod, own_namespace, submit, would_be_gated
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import never, until

pytestmark = pytest.mark.skew
Json = dict[str, Any]
CORES = 7
GATED_FROM = 36  # MutatingAdmissionPolicy v1 is served from this minor version on.


@dataclass(frozen=True, slots=True)
class Native:
    """How a version of Kubernetes offers its own gang scheduling: feature gates and API version. 1.34 has none.

    ``groups`` tells whether pods name a PodGroup; in 1.35 they refer to a Workload instead.
    """

    gates: str
    api: str
    groups: bool = True


NATIVE = {
    KUBERNETES_VERSION: Native("GenericWorkload=true", "v1beta1"),
    "v1.36.3": Native("GenericWorkload=true,GangScheduling=true", "v1alpha2"),
    "v1.35.4": Native("GenericWorkload=true,GangScheduling=true", "v1alpha1", groups=False),
}


@contextmanager
def cluster(workdir: Path, version: str, native: Native | None = None) -> Iterator[tuple[ControlPlane, Kohort]]:
    shape = NodeShape(count=1, cpu=str(CORES))
    gates = native.gates if native else ""
    runtime = f"scheduling.k8s.io/{native.api}=true" if native else ""
    with ControlPlane.start(shape, workdir=workdir, version=version, features=gates, runtime=runtime) as plane:
        plane.start_scheduler()
        kohort = start_kohort(plane, {"kod2": {"cooldown_seconds": 1}, "gate": "always"})
        try:
            yield plane, kohort
        finally:
            kohort.stop()


def main_flow(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """Check that a job of two to six workers gives some to a heavier gang and grows back, and that single pods run."""
    with ClusterObserver(plane, space) as watch:
        light = submit(plane, TFJob(space, "light", workers=2, least=2, most=6), stop_seconds=0.5)
        until(lambda: len(nodes_of(plane, space)) == CORES, "six workers and a ps")
        heavy = submit(plane, TFJob(space, "heavy", workers=2, utility="50"))
        until(lambda: len(nodes_of(plane, space, "heavy")) == 3, "the heavier gang whole")
        remove(plane, heavy)
        until(lambda: len(nodes_of(plane, space, "light")) == CORES, "six workers again")
        assert watch.partial_seconds("heavy", 3) < 5
        assert watch.deleted("light", "ps") == 0
    remove(plane, light)
    until(lambda: not nodes_of(plane, space), "the node empty")
    create_pod(plane, space, lone_pod("lone"))
    create_pod(plane, space, lone_pod("plain", scheduler="default-scheduler"))
    until(lambda: len(nodes_of(plane, space)) == 2, "a lone pod and one of another scheduler")


def remove(plane: ControlPlane, job: TFJob) -> None:
    """Delete the job and its pods, because no controller manager runs here that would collect the pods."""
    plane.api.delete(job.path)
    plane.kubectl("delete", "pods", "-n", job.namespace, "-l", f"{JOB}={job.name}", "--wait=false")


def understood(kohort: Kohort) -> None:
    """Check that every call of this kube-scheduler was parsed and answered."""
    for reason in ("RequestError", "InternalError"):
        assert metric(kohort.health, "kohort_verb_refusals_total", reason=reason) == 0
    for verb in ("filter", "bind"):
        assert metric(kohort.health, "kohort_verb_duration_seconds_count", verb=verb) > 0


def minor_of(version: str) -> int:
    """Return 36 for ``v1.36.3``."""
    return int(version.split(".")[1])


@pytest.mark.parametrize("version", [KUBERNETES_VERSION, *OLDER_VERSIONS])
def test_the_main_flow(tmp_path: Path, version: str) -> None:
    with cluster(tmp_path, version) as (plane, kohort), own_namespace(plane, "flow") as space:
        assert plane.api.get("/version")["gitVersion"] == version
        main_flow(plane, kohort, space)
        understood(kohort)
        gated = would_be_gated(plane, space)
        assert gated is (minor_of(version) >= GATED_FROM)
        print(f"\n{version}: the main flow passed, new pods {'gated' if gated else 'never gated'}")


@pytest.mark.parametrize(("version", "native"), NATIVE.items(), ids=NATIVE)
def test_beside_kube_schedulers_own_gangs(tmp_path: Path, version: str, native: Native) -> None:
    """Run `main_flow` with the version's own gang scheduling on, and a native gang if pods can name a PodGroup."""
    with cluster(tmp_path, version, native) as (plane, kohort), own_namespace(plane, "native") as space:
        main_flow(plane, kohort, space)
        if native.groups:
            with own_namespace(plane, "group") as other:
                native_group(plane, other, native.api)
        understood(kohort)
        print(f"\n{version} with {native.gates}: passed{', and a native group starts whole' * native.groups}")


def native_group(plane: ControlPlane, space: str, version: str) -> None:
    groups = f"/apis/scheduling.k8s.io/{version}/namespaces/{space}/podgroups"
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": policy,
    }
    plane.api.create(groups, group)
    for index in range(2):
        create_pod(plane, space, lone_pod(f"train-{index}", schedulingGroup={"podGroupName": "train"}))
    never(lambda: nodes_of(plane, space), "a part of the group bound", 3)
    create_pod(plane, space, lone_pod("train-2", schedulingGroup={"podGroupName": "train"}))
    until(lambda: len(nodes_of(plane, space)) == 3, "the whole group bound")
