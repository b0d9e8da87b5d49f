"""A job described by a few figures, for what-if questions about a job that has no manifest yet."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from extender.kube.fields import ObjectError
from extender.kube.jobkinds import MAX_WORKERS, MIN_WORKERS, UTILITY
from extender.routes.problems import ProblemError, wrong

NAME: Final = "what-if"
REQUESTS_AT: Final = ".resources.requests"
BOUNDS: Final = {MIN_WORKERS: "min_workers", MAX_WORKERS: "max_workers", UTILITY: "utility"}
COUNTS: Final = {f"spec.tfReplicaSpecs.{role}.replicas": name for role, name in (("Worker", "workers"), ("PS", "ps"))}
Number = Annotated[int, Field(ge=1, le=100_000)]


class Shape(BaseModel):
    """A job of equal workers, and of ps that request the same as a worker.

    Whatever its framework, the job is treated as a TFJob with that many ps and workers. ``requests``: what each member
    requests, as in a pod. A job without bounds (min_workers, max_workers) is a rigid gang.
    """

    model_config = ConfigDict(extra="forbid")

    workers: Number = Field(description="The number of workers.")
    ps: int = Field(0, ge=0, le=100_000, description="The number of ps.")
    requests: dict[str, str] = Field(
        description='What each member requests: {"cpu": "2", "memory": "4Gi"}.', max_length=50
    )
    min_workers: Number | None = Field(None, description="The minimum of workers.")
    max_workers: Number | None = Field(None, description="The maximum of workers.")
    utility: float | None = Field(None, gt=0, description="The utility, as in the annotation kohort.dev/utility.")
    namespace: str = Field("default", description="The namespace in which the job would be created.")

    def manifest(self, scheduler_name: str) -> dict[str, Any]:
        """Return the manifest of a TFJob of this shape."""
        container = {"name": "tensorflow", "image": NAME, "resources": {"requests": self.requests}}
        template = {"spec": {"schedulerName": scheduler_name, "containers": [container]}}
        counts = {"PS": self.ps, "Worker": self.workers}
        said = {"min-workers": self.min_workers, "max-workers": self.max_workers, "utility": self.utility}
        notes = {f"kohort.dev/{name}": f"{value:g}" for name, value in said.items() if value is not None}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": NAME, "namespace": self.namespace, "annotations": notes},
            "spec": {
                "enableDynamicWorker": True,
                "tfReplicaSpecs": {
                    role: {"replicas": count, "template": template} for role, count in counts.items() if count
                },
            },
        }

    def refused(self, error: ObjectError) -> ProblemError:
        """Return an error about the manifest as a problem, with the shape's field names in place of the manifest's."""
        allowed = error.allowed
        for name, own in BOUNDS.items():
            allowed = allowed.replace(name, own)
        return wrong(_field_of(error.field), error.value, allowed)


def _field_of(path: str) -> str:
    """Return the field of the question that corresponds to this path in the shape's manifest."""
    _, found, resource = path.partition(REQUESTS_AT)
    if found:
        return f"shape.requests{resource}"
    own = {**BOUNDS, **COUNTS}.get(path)
    return f"shape.{own}" if own else "shape"
