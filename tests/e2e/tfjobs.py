"""TFJobs for end-to-end tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
TFJOBS = "/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs"


@dataclass(frozen=True, slots=True)
class TFJob:
    """A TFJob of one or more ps and workers; ``least`` and ``most`` bound its workers, and None makes it rigid.

    ``extra`` has more fields of every pod's spec, and ``ps_extra`` more fields of the ps's alone.
    ``notes`` has more annotations, keyed by their names without the prefix ``kohort.dev/``.
    """

    namespace: str
    name: str
    workers: int = 2
    ps: int = 1
    least: int | None = None
    most: int | None = None
    worker_cpu: str = "1"
    ps_cpu: str = "1"
    memory: str = "1Gi"
    scheduler: str = "kohort"
    clean: str = "Running"
    run_seconds: float | None = None
    utility: str = ""
    extra: Json | None = None
    ps_extra: Json | None = None
    dynamic: bool | None = None
    notes: Json | None = None

    @property
    def path(self) -> str:
        """Return the path of the job."""
        return f"{TFJOBS.format(namespace=self.namespace)}/{self.name}"

    def manifest(self) -> Json:
        """Return the object to create."""
        notes = {"min-workers": self.least, "max-workers": self.most, "utility": self.utility or None} | (
            self.notes or {}
        )
        roles = {"PS": (self.ps, self.ps_cpu, self.ps_extra), "Worker": (self.workers, self.worker_cpu, None)}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": {f"kohort.dev/{key}": str(value) for key, value in notes.items() if value is not None},
            },
            "spec": {
                "enableDynamicWorker": self._dynamic,
                "runPolicy": {"cleanPodPolicy": self.clean},
                "tfReplicaSpecs": {role: self._role(*asked) for role, asked in roles.items() if asked[0]},
            },
        }

    @property
    def _dynamic(self) -> bool:
        """Tell whether the operator lets workers come and go (``enableDynamicWorker``); default: if elastic."""
        return self.dynamic if self.dynamic is not None else (self.least, self.most) != (None, None)

    def _role(self, replicas: int, cpu: str, own: Json | None) -> Json:
        requests = {"cpu": cpu, "memory": self.memory}
        container = {"name": "tensorflow", "image": "none", "command": ["train"], "resources": {"requests": requests}}
        notes = {} if self.run_seconds is None else {"demo.kohort.dev/run-seconds": str(self.run_seconds)}
        return {
            "replicas": replicas,
            "restartPolicy": "OnFailure",
            "template": {
                "metadata": {"annotations": notes},
                "spec": {"schedulerName": self.scheduler, "containers": [container], **(self.extra or {}), **(own or {})},
            },
        }
