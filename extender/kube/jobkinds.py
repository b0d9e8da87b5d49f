"""The kinds of jobs as one table: where roles, replicas and bounds stand, and what the owner's controller does.

Adding a kind is adding a row, a fixture in tests/unit/test_jobkinds.py and its rights in manifests/base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from extender.kube.api import (
    BATCHJOBS,
    DEPLOYMENTS,
    JOBSETS,
    MPIJOBS,
    PYTORCHJOBS,
    STATEFULSETS,
    TFJOBS,
    Json,
    Resource,
)
from policy.cluster.model import PS, WORKER

MIN_WORKERS: Final = "kohort.dev/min-workers"
MAX_WORKERS: Final = "kohort.dev/max-workers"
UTILITY: Final = "kohort.dev/utility"
TRAINING: Final = "kohort.dev/training"
REPORTS: Final = "kohort.dev/reports"
PROGRESS: Final = "kohort.dev/progress"
MEMORY: Final = "kohort.dev/memory"
MIGRATABLE: Final = "kohort.dev/migratable"
ELASTIC_PS: Final = "kohort.dev/elastic-ps"
RELEASED: Final = "kohort.dev/released"
WAKE: Final = "kohort.dev/wake"
CHECKPOINT: Final = "kohort.dev/checkpoint"
PLAN: Final = "kohort.dev/plan"
SLOT: Final = "kohort.dev/slot"
GATE: Final = "kohort.dev/admission"
LEADER: Final = "kohort.dev/leader"
"""Who wrote it, on a binding and on a job that is resized: manifests/base/leader-policy.yaml looks whether it leads."""

ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def deletion_cost(index: int) -> dict[str, str]:
    """The annotation that makes the highest index go first where the controller has no order of its own."""
    return {DELETION_COST: str(-index)}


Slots = Literal["operator", "indexed", "ordinal", "child", "allotted"]
"""How a pod tells which slot it has; ``membership`` reads it.

operator: NAME-ROLE-INDEX and the training operator's labels. indexed: an Indexed Job's completion index.
ordinal: NAME-INDEX. child: through the Job that the owner has made. allotted: it has no number, we give it one.
"""


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job, and what its controller does; all of them take the highest index first when workers go.

    replicas_at: the field of the spec with one entry a role, whose template and replicas stand in it; empty where the
    spec itself has one template, for workers. roles: the role of each key in that field.
    counts: the fields beside the one template that all hold the number of workers.
    fixed: fields that must hold one value, and why.
    unnumbered: keys whose one pod has no index in name and labels.
    slots: how pods tell their slots. groups_first: a pod group that its pods name is the gang in its place.
    one_by_one: only one running worker may be removed at a time.
    elastic_if: the field of the spec that lets workers come and go while the job runs (true, or an object that is
    there); empty where bounds alone say so. why_fixed: what happens to a running job without it.
    bounds_at: the object of the spec with ``minReplicas`` and ``maxReplicas`` of the workers, if the kind has one.
    scaled_by: a list in that object with which another autoscaler sets the workers. workers: replicas by default.
    scale: workers are set by the scale subresource, which holds no annotations.
    suspend_at: the field that makes its controller delete the job's pods without ending the job; empty: it has none,
    and a user stops such a job by no replicas.
    ps_restarts: the number of ps may change while the job is suspended. While it runs no kind allows it: the operator
    takes a running ps that is removed for a failure, and its processes are told all ps when they start.
    keeps_ended: on a suspension its controller deletes the pods that run, and leaves those that have ended.
    ends: the conditions that tell that it has ended. cost: its controller removes pods by their deletion cost.
    """

    kind: str
    resource: Resource
    replicas_at: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    counts: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unnumbered: frozenset[str] = frozenset()
    slots: Slots = "operator"
    groups_first: bool = False
    one_by_one: bool = False
    elastic_if: str = ""
    why_fixed: str = ""
    bounds_at: str = ""
    scaled_by: str = ""
    workers: int = 1
    scale: bool = False
    suspend_at: tuple[str, ...] = ()
    ps_restarts: bool = False
    keeps_ended: bool = False
    ends: tuple[str, ...] = ()
    cost: bool = False

    @property
    def worker(self) -> str:
        """The key of the elastic role."""
        return next(key for key, role in self.roles.items() if role == WORKER)

    @property
    def workers_at(self) -> str:
        """The field that holds the number of workers, for people."""
        return f"spec.{self.counts[0]}" if self.counts else f"spec.{self.replicas_at}.{self.worker}.replicas"

    @property
    def suspends(self) -> bool:
        """Whether a job of the kind can be suspended."""
        return bool(self.suspend_at)

    @property
    def suspended_by(self) -> str:
        """The field that suspends a job, for people; empty where the kind has none."""
        return ".".join(("spec", *self.suspend_at)) if self.suspends else ""

    def workers_patch(self, workers: int) -> Json:
        """The merge patch that sets the number of workers."""
        if self.counts:
            return {"spec": dict.fromkeys(self.counts, workers)}
        return {"spec": {self.replicas_at: {self.worker: {"replicas": workers}}}}

    def suspend_patch(self, suspend: bool, servers: int | None = None) -> Json:
        """The merge patch that suspends a job, or lets it go on, with so many ps where that is said."""
        *above, last = self.suspend_at
        spec: Json = {last: suspend}
        for name in reversed(above):
            spec = {name: spec}
        if servers is not None:
            key = next(key for key, role in self.roles.items() if role == PS)
            spec |= {self.replicas_at: {key: {"replicas": servers}}}
        return {"spec": spec}


RUN_POLICY: Final = ("runPolicy", "suspend")
SPEC: Final = ("suspend",)
ENDED: Final = ("Succeeded", "Failed")

TFJOB: Final = JobKind(
    kind="TFJob",
    resource=TFJOBS,
    replicas_at="tfReplicaSpecs",
    roles={"PS": "ps", "Worker": WORKER, "Chief": "chief", "Master": "master", "Evaluator": "evaluator"},
    # Without it the operator takes a running worker that is being removed for a failure of the job (1.8.1,
    # pkg/core/status.go).
    elastic_if="enableDynamicWorker",
    why_fixed="the operator fails a TFJob of which a running worker is removed",
    one_by_one=True,
    suspend_at=RUN_POLICY,
    ps_restarts=True,
    ends=ENDED,
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
    one_by_one=True,
    suspend_at=RUN_POLICY,
    ends=ENDED,
)

MPIJOB: Final = JobKind(
    kind="MPIJob",
    resource=MPIJOBS,
    replicas_at="mpiReplicaSpecs",
    roles={"Launcher": "launcher", "Worker": WORKER},
    unnumbered=frozenset({"Launcher"}),
    workers=0,
    one_by_one=True,
    suspend_at=RUN_POLICY,
    ends=ENDED,
)

# An elastic Indexed Job: both counts change in one write, or the API server refuses it.
INDEXED_JOB: Final = JobKind(
    kind="Job",
    resource=BATCHJOBS,
    counts=("parallelism", "completions"),
    fixed={"completionMode": ("Indexed", "the pods of another Job have no index")},
    slots="indexed",
    groups_first=True,
    suspend_at=SPEC,
    keeps_ended=True,
    ends=("Complete", "Failed"),
)

STATEFULSET: Final = JobKind(
    kind="StatefulSet",
    resource=STATEFULSETS,
    counts=("replicas",),
    fixed={"podManagementPolicy": ("Parallel", "else no pod is created before the one before it is ready")},
    slots="ordinal",
    groups_first=True,
    scale=True,
)

DEPLOYMENT: Final = JobKind(
    kind="Deployment",
    resource=DEPLOYMENTS,
    counts=("replicas",),
    slots="allotted",
    groups_first=True,
    scale=True,
    cost=True,
)

# Its jobs cannot be changed once it is there: so JobSet 0.8.2. Newer ones let parallelism and completions of a
# replicated job change (KEP-463, gate ElasticJobsets, alpha); that is not used yet. A TrainJob is taken by the JobSet
# that its controller makes of it.
JOBSET: Final = JobKind(
    kind="JobSet",
    resource=JOBSETS,
    replicas_at="replicatedJobs",
    slots="child",
    groups_first=True,
    suspend_at=SPEC,
    keeps_ended=True,
    ends=("Completed", "Failed"),
)

ROWS: Final = (TFJOB, PYTORCHJOB, MPIJOB, INDEXED_JOB, STATEFULSET, DEPLOYMENT, JOBSET)
KINDS: Final[Mapping[str, JobKind]] = {kind.kind: kind for kind in ROWS}
LONE_POD: Final = "Pod"
