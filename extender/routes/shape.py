"""A job in a few figures, for a question about one that nobody has written a manifest for yet."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

NAME: Final = "what-if"
Number = Annotated[int, Field(ge=1, le=100_000)]


class Shape(BaseModel):
    """Workers that are equal, and ps that ask for the same. Read as a TFJob of that shape is, whatever its framework.

    requests: of each member, as in a pod. Without bounds the job is a rigid gang.
    """

    model_config = ConfigDict(extra="forbid")

    workers: Number = Field(description="How many workers.")
    ps: int = Field(0, ge=0, le=100_000, description="How many ps.")
    requests: dict[str, str] = Field(description='Of each member: {"cpu": "2", "memory": "4Gi"}.', max_length=50)
    min_workers: Number | None = Field(None, description="With how many workers it may start.")
    max_workers: Number | None = Field(None, description="To how many workers it may grow.")
    utility: float | None = Field(None, gt=0, description="As the annotation kohort.dev/utility.")
    namespace: str = Field("default", description="Where it would be created.")

    def manifest(self, scheduler_name: str) -> dict[str, Any]:
        """The TFJob."""
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
