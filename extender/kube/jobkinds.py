"""The kinds of jobs as one table: where roles, replicas and bounds stand, and what the owner's operator does.

Adding a kind is adding a row (and a fixture). ``design.md`` section 5 lists what each row means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from extender.kube.api import MPIJOBS, PYTORCHJOBS, TFJOBS, Resource
from policy.cluster.model import WORKER

MIN_WORKERS: Final = "kohort.dev/min-workers"
MAX_WORKERS: Final = "kohort.dev/max-workers"
UTILITY: Final = "kohort.dev/utility"
TRAINING: Final = "kohort.dev/training"
REPORTS: Final = "kohort.dev/reports"
MEMORY: Final = "kohort.dev/memory"
MIGRATABLE: Final = "kohort.dev/migratable"
RELEASED: Final = "kohort.dev/released"
WAKE: Final = "kohort.dev/wake"
PLAN: Final = "kohort.dev/plan"
SLOT: Final = "kohort.dev/slot"
GATE: Final = "kohort.dev/admission"

ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
INDEX_LABEL: Final = "training.kubeflow.org/replica-index"


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of training job of the Kubeflow training operator, which removes the highest worker index first.

    roles: the role of each key under ``replicas_at``. unnumbered: keys whose one pod has no index in name and labels.
    elastic_if: the field of the spec that lets workers come and go while the job runs (true, or an object that is
    there); empty where bounds alone say so. why_fixed: what happens to a running job without it.
    bounds_at: the object of the spec with ``minReplicas`` and ``maxReplicas`` of the workers, if the kind has one.
    scaled_by: a list in that object with which another autoscaler sets the workers. workers: replicas by default.
    suspends: it obeys ``spec.runPolicy.suspend``, which deletes the job's pods and does not end the job.
    """

    kind: str
    resource: Resource
    replicas_at: str
    roles: Mapping[str, str]
    unnumbered: frozenset[str] = frozenset()
    elastic_if: str = ""
    why_fixed: str = ""
    bounds_at: str = ""
    scaled_by: str = ""
    workers: int = 1
    suspends: bool = True

    @property
    def worker(self) -> str:
        """The key of the elastic role."""
        return next(key for key, role in self.roles.items() if role == WORKER)


TFJOB: Final = JobKind(
    kind="TFJob",
    resource=TFJOBS,
    replicas_at="tfReplicaSpecs",
    roles={"PS": "ps", "Worker": WORKER, "Chief": "chief", "Master": "master", "Evaluator": "evaluator"},
    # Without it the operator takes a running worker that is being removed for a failure of the job (1.8.1,
    # pkg/core/status.go).
    elastic_if="enableDynamicWorker",
    why_fixed="the operator fails a TFJob of which a running worker is removed",
)

PYTORCHJOB: Final = JobKind(
    kind="PyTorchJob",
    resource=PYTORCHJOBS,
    replicas_at="pytorchReplicaSpecs",
    roles={"Master": "master", "Worker": WORKER},
    # It makes the operator start torchrun with bounds of nodes; else every process waits for a fixed WORLD_SIZE.
    elastic_if="elasticPolicy",
    why_fixed="its processes are told a fixed number of workers",
    bounds_at="elasticPolicy",
    scaled_by="metrics",
)

MPIJOB: Final = JobKind(
    kind="MPIJob",
    resource=MPIJOBS,
    replicas_at="mpiReplicaSpecs",
    roles={"Launcher": "launcher", "Worker": WORKER},
    unnumbered=frozenset({"Launcher"}),
    workers=0,
)

KINDS: Final[Mapping[str, JobKind]] = {kind.kind: kind for kind in (TFJOB, PYTORCHJOB, MPIJOB)}
LONE_POD: Final = "Pod"
