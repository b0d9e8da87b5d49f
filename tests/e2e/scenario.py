"""A scenario of mixed jobs that arrive over a while: what each is, and what an observer must have seen at its end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.controlplane import ControlPlane

Json = dict[str, Any]
RUN, STOP = "demo.kohort.dev/run-seconds", "demo.kohort.dev/stop-seconds"
ENDS = ("Succeeded", "Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is written: its API, its list, where its roles stand, the rigid role and its container's name."""

    api: str
    plural: str
    roles_at: str = ""
    rigid: str = ""
    container: str = "train"


KINDS = {
    "TFJob": Kind("kubeflow.org/v1", "tfjobs", "tfReplicaSpecs", "PS", "tensorflow"),
    "PyTorchJob": Kind("kubeflow.org/v1", "pytorchjobs", "pytorchReplicaSpecs", "Master", "pytorch"),
    "MPIJob": Kind("kubeflow.org/v1", "mpijobs", "mpiReplicaSpecs", "Launcher", "mpi"),
    "Job": Kind("batch/v1", "jobs"),
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job: ``least`` to ``most`` workers of ``cores`` each, ``asked`` at first, beside one rigid member if any."""

    name: str
    kind: str
    least: int
    asked: int
    most: int
    cores: int
    seconds: float
    utility: float = 1.0
    impossible: bool = False

    @property
    def members(self) -> int:
        """Of the gang at its minimum."""
        return self.least + bool(KINDS[self.kind].rigid)

    def path(self, namespace: str) -> str:
        """Where the API server has the jobs of its kind."""
        kind = KINDS[self.kind]
        return f"/apis/{kind.api}/namespaces/{namespace}/{kind.plural}"

    def manifest(self, namespace: str) -> Json:
        """The object to create."""
        kind = KINDS[self.kind]
        notes = {"min-workers": self.least, "max-workers": self.most, "utility": self.utility}
        if self.least == self.most:
            notes = {"utility": self.utility}
        spec = self._roles(kind) if kind.roles_at else self._indexed(kind)
        return {
            "apiVersion": kind.api,
            "kind": self.kind,
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "annotations": {f"kohort.dev/{name}": str(value) for name, value in notes.items()},
            },
            "spec": spec,
        }

    def _roles(self, kind: Kind) -> Json:
        roles = {
            kind.rigid: {"replicas": 1, "restartPolicy": "OnFailure", "template": self._template(kind, 1)},
            "Worker": {
                "replicas": self.asked,
                "restartPolicy": "OnFailure",
                "template": self._template(kind, self.cores),
            },
        }
        spec: Json = {"runPolicy": {"cleanPodPolicy": "Running"}, kind.roles_at: roles}
        if self.kind == "TFJob":
            spec["enableDynamicWorker"] = True
        if self.kind == "PyTorchJob" and self.least < self.most:
            spec["elasticPolicy"] = {"minReplicas": self.least, "maxReplicas": self.most, "rdzvBackend": "c10d"}
        return spec

    def _indexed(self, kind: Kind) -> Json:
        template = self._template(kind, self.cores)
        template["spec"]["restartPolicy"] = "Never"
        return {
            "parallelism": self.asked, "completions": self.asked, "completionMode": "Indexed", "template": template,
        }  # fmt: skip

    def _template(self, kind: Kind, cores: int) -> Json:
        requests = {"cpu": str(cores), "memory": "1Gi", "ephemeral-storage": "1Mi"}
        container = {"name": kind.container, "image": "none", "command": ["train"], "resources": {"requests": requests}}
        return {
            "metadata": {"annotations": {RUN: str(self.seconds), STOP: "1"}},
            "spec": {"schedulerName": "kohort", "containers": [container]},
        }


def arrivals(count: int, seed: int, seconds: float) -> Iterator[Arrival]:
    """So many jobs for three nodes of ten cores: more than fit at once, a heavy one among them, an impossible one."""
    chance = random.Random(seed)
    kinds = ("TFJob", "PyTorchJob", "TFJob", "MPIJob", "Job")
    for n in range(count - 2):
        kind = kinds[n % len(kinds)]
        least, spare = chance.randint(1, 3), chance.choice((0, 2, 4))
        if kind == "Job":
            spare = 0
        asked = least + spare // 2
        yield Arrival(f"job-{n}", kind, least, asked, least + spare, chance.choice((1, 2)), seconds)
        if n == count // 2:
            yield Arrival("heavy", "TFJob", 8, 8, 10, 2, seconds, utility=50.0)
    yield Arrival("impossible", "TFJob", 40, 40, 40, 2, seconds, impossible=True)


def ended(plane: ControlPlane, namespace: str, job: Arrival) -> str:
    """The condition by which the job ended; empty while it has not."""
    status = plane.api.get(f"{job.path(namespace)}/{job.name}").get("status", {})
    found = [c["type"] for c in status.get("conditions") or () if c["type"] in ENDS and c["status"] == "True"]
    return found[0] if found else ""
