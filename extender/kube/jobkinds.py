"""Lists the supported kinds of jobs in one table: which fields hold roles, replicas and bounds, and how each kind's
controller behaves.

To support another kind, add a row, a fixture in tests/unit/test_jobkinds.py and its rights in manifests/base.
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
from policy.cluster.job import PS, WORKER

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
FAILURES: Final = "kohort.dev/failures"
FORGIVE: Final = "kohort.dev/forgive"
"""The replica that wrote a binding or resized a job; manifests/base/leader-policy.yaml checks that it leads."""

ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def deletion_cost(index: int) -> dict[str, str]:
    """Return the annotation (name to value) that states the deletion cost of the pod with that slot index.

    The cost is the negative index, because the ReplicaSet controller removes the pod of the lowest cost first.
    """
    return {DELETION_COST: str(-index)}


Slots = Literal["operator", "indexed", "ordinal", "child", "allotted"]
"""How a pod shows which slot it has; ``membership`` reads it.

operator: the name is NAME-ROLE-INDEX and the training operator's labels agree. indexed: an Indexed Job's completion
index. ordinal: the name is NAME-INDEX. child: the labels of the Job that the owner has made. allotted: the pod has no
index, so that Kohort assigns one.
"""


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job and the behaviour of its controller; all controllers remove the highest index first.

    kind, resource: the kind's name and API resource. replicas_at: the field of the spec with one entry for each role,
    which holds the role's template and replicas; empty where the spec itself has one template, for workers. roles: the
    role of each key in that field. counts: where the spec has one template, the fields that must all hold the number of
    workers. fixed: fields that must have a certain value, with that value and the reason. unnumbered: keys of roles
    with a single pod that has no index in its name and labels. slots: how pods show their slots. groups_first: if the
    pods name a pod group, that group is the gang, and this job is not. one_by_one: only one running worker may be
    removed at a time. elastic_if: the field of the spec that must be true, or hold an object, so that the job's workers
    may come and go while it runs; empty where every job that states bounds can be resized. why_fixed: why a running job
    without the field ``elastic_if`` cannot be resized. bounds_at: the object of the spec with ``minReplicas`` and
    ``maxReplicas`` of the workers, if the kind has one. scaled_by: a list in that object; if it is not empty, another
    autoscaler sets the number of workers. workers: the number of workers where the job states none. scale: workers are
    set by the scale subresource, which holds no annotations. suspend_at: the path of the field that makes the
    controller delete the job's pods without ending the job; empty where the kind has none, so that a user stops such a
    job with 0 replicas. ps_restarts: the number of ps may change while the job is suspended. While the job runs no kind
    allows it: the operator treats the removal of a running ps as a failure, and the processes learn of all ps only when
    they start. keeps_ended: on a suspension the controller deletes the pods that run, and keeps those that have ended.
    ends: the status conditions that mean that the job has ended. cost: the controller chooses the pods that it removes
    by their deletion cost.
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
        """Return the key of the workers in the field ``replicas_at``, such as ``Worker``; empty where there is none."""
        return next((key for key, role in self.roles.items() if role == WORKER), "")

    @property
    def workers_at(self) -> str:
        """Return the path of the field with the number of workers, for messages; empty if there is no such field."""
        if self.counts:
            return f"spec.{self.counts[0]}"
        return f"spec.{self.replicas_at}.{self.worker}.replicas" if self.worker else ""

    @property
    def resizes(self) -> bool:
        """Tell whether the number of workers of a job of this kind can be changed."""
        return bool(self.workers_at)

    @property
    def suspends(self) -> bool:
        """Tell whether a job of this kind can be suspended."""
        return bool(self.suspend_at)

    @property
    def suspended_by(self) -> str:
        """Return the path of the field that suspends a job, for messages; empty where the kind has none."""
        return ".".join(("spec", *self.suspend_at)) if self.suspends else ""

    def workers_patch(self, workers: int) -> Json:
        """Return the merge patch that sets the number of workers. Raises ValueError where the kind does not resize."""
        if self.counts:
            return {"spec": dict.fromkeys(self.counts, workers)}
        if not self.resizes:
            raise ValueError(f"the number of workers of a {self.kind} cannot be changed")
        return {"spec": {self.replicas_at: {self.worker: {"replicas": workers}}}}

    def suspend_patch(self, suspend: bool, servers: int | None = None) -> Json:
        """Return the merge patch that suspends or resumes a job; ``servers``: the new number of ps, None to
        leave it.
        """
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
    # Without this field the operator fails the job when a running worker is removed (operator 1.8.1,
    # pkg/core/status.go).
    elastic_if="enableDynamicWorker",
    why_fixed="the operator fails a TFJob when one of its running workers is removed",
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
    # With elasticPolicy torchrun is started with a range of nodes; without it each process awaits a fixed WORLD_SIZE.
    elastic_if="elasticPolicy",
    why_fixed="its processes start with a fixed number of workers",
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

# An Indexed Job is elastic if parallelism and completions change in one write; otherwise the API server refuses it.
INDEXED_JOB: Final = JobKind(
    kind="Job",
    resource=BATCHJOBS,
    counts=("parallelism", "completions"),
    fixed={"completionMode": ("Indexed", "without it the pods have no index")},
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
    fixed={"podManagementPolicy": ("Parallel", "otherwise each pod is created only when the one before it is ready")},
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

# In JobSet 0.8.2 the jobs of a set cannot be changed once they exist. Newer versions let parallelism and completions of
# a replicated job change (KEP-463, gate ElasticJobsets, alpha), which Kohort does not use yet. A TrainJob is scheduled
# as the JobSet that its controller makes of it.
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
