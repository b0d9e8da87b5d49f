"""A scenario of mixed jobs that arrive over a while: what each is, and what an observer must have seen at its end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.controlplane import ControlPlane

Json = dict[str, Any]
RUN, STOP = "demo.kohort.dev/run-seconds", "demo.kohort.dev/stop-seconds"
PER_PS = 2  # workers that one ps serves, as their bandwidths tell
UTILITIES = (1.0, 5.0, 2.0)
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
    """One job: ``least`` to ``most`` workers of ``cores`` each, ``asked`` at first, beside rigid members of one core.

    ``training``: what it tells of its training. ``elastic_ps``: a schedule may give it other ps.
    """

    name: str
    kind: str
    least: int
    asked: int
    most: int
    cores: int
    seconds: float
    utility: float = 1.0
    impossible: bool = False
    training: str = ""
    elastic_ps: bool = False
    more_roles: tuple[str, ...] = ()

    @property
    def rigid(self) -> dict[str, int]:
        """Members beside the workers, by role. Where the ps may change they are too many at first."""
        first = KINDS[self.kind].rigid
        return ({first: 3 if self.elastic_ps else 1} if first else {}) | dict.fromkeys(self.more_roles, 1)

    @property
    def members(self) -> int:
        """Of the gang at its minimum; a schedule leaves one ps at least."""
        return self.least + (1 if self.elastic_ps else sum(self.rigid.values()))

    def path(self, namespace: str) -> str:
        """Where the API server has the jobs of its kind."""
        kind = KINDS[self.kind]
        return f"/apis/{kind.api}/namespaces/{namespace}/{kind.plural}"

    def manifest(self, namespace: str) -> Json:
        """The object to create."""
        kind = KINDS[self.kind]
        notes: Json = {"utility": self.utility}
        if self.least < self.most:
            notes |= {"min-workers": self.least, "max-workers": self.most}
        notes |= {"training": self.training} if self.training else {}
        notes |= {"elastic-ps": "true"} if self.elastic_ps else {}
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
        asked = {role: (count, 1) for role, count in self.rigid.items()} | {"Worker": (self.asked, self.cores)}
        roles = {
            role: {"replicas": count, "restartPolicy": "OnFailure", "template": self._template(kind, cores)}
            for role, (count, cores) in asked.items()
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
    """So many jobs for three nodes of ten cores: more than fit at once, a heavy one among them, an impossible one.

    Every second one tells of its training (as many chunks as workers, each of one OASiS slot of ``slot_of(seconds)``),
    and some of these may be given other ps. Others have a chief and an evaluator.
    """
    chance = random.Random(seed)
    work = f"secondsPerBatch: {slot_of(seconds):g}, workerGigabits: 1, psGigabits: {PER_PS}"
    curve = "utility: {value: 100, steepness: 0.01, target: 30}"
    kinds = ("TFJob", "PyTorchJob", "TFJob", "MPIJob", "Job")
    for n in range(count - 2):
        kind = kinds[n % len(kinds)]
        least, spare = chance.randint(1, 3), chance.choice((0, 2, 4))
        if kind == "Job":
            spare = 0
        asked = least + spare // 2
        yield Arrival(
            f"job-{n}", kind, least, asked, least + spare, chance.choice((1, 2)), seconds,
            utility=UTILITIES[n % len(UTILITIES)],
            training=f"{{chunks: {asked}, {work}, {curve}}}" if n % 2 == 0 else "",
            elastic_ps=kind == "TFJob" and n % 10 == 0,
            more_roles=("Chief", "Evaluator") if kind == "TFJob" and n % 10 == 2 else (),
        )  # fmt: skip
        if n == count // 2:
            yield Arrival("heavy", "TFJob", 8, 8, 10, 2, seconds, utility=50.0)
    yield Arrival("impossible", "TFJob", 40, 40, 40, 2, seconds, impossible=True)


def slot_of(seconds: float) -> float:
    """OASiS's slots are twice as long as a job runs."""
    return 2 * seconds


def ended(plane: ControlPlane, namespace: str, job: Arrival) -> str:
    """The condition by which the job ended; empty while it has not."""
    status = plane.api.get(f"{job.path(namespace)}/{job.name}").get("status", {})
    found = [c["type"] for c in status.get("conditions") or () if c["type"] in ENDS and c["status"] == "True"]
    return found[0] if found else ""
