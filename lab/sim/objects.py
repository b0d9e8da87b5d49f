"""The objects that the simulated API server stores (nodes, training jobs, pods), and the record of each change.

A ``Node`` is the one of the policy's model. A ``JobObject`` is shaped like a TFJob, or has a single role for the other
kinds; a ``PodObject`` has those fields of a core/v1 Pod that a scheduler reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from policy.cluster.constraints import ANYWHERE, Constraints
from policy.cluster.job import WORKER, Job, Role, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.training import Training

KOHORT = "kohort"
GATE = "kohort.dev/admission"
SCHEDULING_GATED = "SchedulingGated"


class WorkloadKind(Enum):
    """The API kind of a job, which determines the controller that creates its pods."""

    TFJOB = "TFJob"
    INDEXED_JOB = "Job"
    STATEFULSET = "StatefulSet"
    DEPLOYMENT = "Deployment"

    @property
    def ends(self) -> bool:
        """Tell whether pods of this kind end, and the job with them; other kinds run until their user deletes them.

        Exactly the kinds that end can be suspended.
        """
        return self in (WorkloadKind.TFJOB, WorkloadKind.INDEXED_JOB)


class CleanPods(Enum):
    """TFJob's ``runPolicy.cleanPodPolicy``: the pods that the operator deletes when the job has ended."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A training job as a user submits it, with the work that it has to do.

    ``work_seconds`` is how long one worker beside its ps would take, ``contention`` is ``a`` of lab/sim/speed.py, and
    ``arrival`` is in seconds after the start of the trace. With ``restarts`` a failed pod is replaced; without, it
    fails the job. ``model`` chooses the job's curve in the speed model. ``local_batch`` is the number of samples that a
    worker takes in a step, where speeds are measured (None: not given). ``decay`` is ``k`` of the loss exp(-k p), with
    p the share of work done. A job of a ``kind`` that does not end has workers only. ``volumes`` are the
    PersistentVolumeClaims that each of its pods names, and ``manifest`` is an opaque original that is passed through
    unchanged.
    """

    name: str
    roles: tuple[Role, ...]
    min_workers: int
    max_workers: int
    work_seconds: float
    arrival: float = 0.0
    contention: float = 0.1
    namespace: str = "default"
    clean_pods: CleanPods = CleanPods.RUNNING
    scheduler: str = KOHORT
    restarts: bool = True
    utility: float = 1.0
    model: str = ""
    local_batch: float | None = None
    decay: float = 5.2
    training: Training | None = None
    migratable: bool = False
    ps_elastic: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    kind: WorkloadKind = WorkloadKind.TFJOB
    volumes: tuple[str, ...] = ()
    manifest: object = None

    @property
    def workers(self) -> int:
        """Return the number of worker replicas that the job asks for."""
        return sum(role.replicas for role in self.roles if role.name == WORKER)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Return the slot of every replica: rigid roles first, then workers from index 0."""
        ordered = sorted(self.roles, key=lambda role: role.name == WORKER)
        return tuple(Slot(role.name, index) for role in ordered for index in range(role.replicas))

    def role(self, name: str) -> Role | None:
        """Return the role with that name, or None."""
        return next((role for role in self.roles if role.name == name), None)


class JobPhase(Enum):
    """The last condition that the operator has set on the job."""

    CREATED = "Created"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def ended(self) -> bool:
        """Tell whether the job has succeeded or failed."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED)


@dataclass(frozen=True, slots=True)
class JobObject:
    """A job in the API. ``spec.roles`` has the current replicas; times are seconds since the epoch.

    ``released`` says that Kohort suspended the job to release its gang, and that no user has suspended it since.
    ``over`` has the completed indices of an Indexed Job.
    """

    uid: str
    spec: JobSpec
    created: float
    version: int = 0
    phase: JobPhase = JobPhase.CREATED
    suspended: bool = False
    released: bool = False
    started: float | None = None
    ended: float | None = None
    over: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.spec.namespace}/{self.spec.name}"

    @property
    def stopped(self) -> bool:
        """Tell whether the job's user has stopped it: by suspending it, or by 0 replicas if its kind cannot be
        suspended.
        """
        return self.suspended if self.spec.kind.ends else not self.spec.workers


class Condition(NamedTuple):
    """The pod's PodScheduled condition: whether it is true, its reason and its message."""

    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod in the API.

    ``owner`` is the UID of its job (empty for other pods), ``job`` and ``kind`` are that job's name and kind. For a
    Deployment's pod, ``slot`` is the simulation's own count; the pod's name does not show it. ``controller`` is the
    name of a controller outside the simulated kinds that recreates the pod. ``volumes`` are the PersistentVolumeClaims
    that the pod names. ``preempted`` means that its DisruptionTarget condition names a preemption for a pod of higher
    priority.
    """

    uid: str
    namespace: str
    name: str
    requests: Resources = NOTHING
    constraints: Constraints = ANYWHERE
    scheduler: str = KOHORT
    owner: str = ""
    controller: str = ""
    job: str = ""
    kind: WorkloadKind = WorkloadKind.TFJOB
    slot: Slot | None = None
    created: float = 0.0
    version: int = 0
    node: str = ""
    phase: Phase = Phase.PENDING
    gates: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    scheduled: Condition | None = None
    nominated: str = ""
    volumes: tuple[str, ...] = ()
    preempted: bool = False
    deleted: float | None = None
    started: float | None = None
    ended: float | None = None
    priority: int = 0
    manifest: object = None

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds_room(self) -> bool:
        """Tell whether the pod is bound and has not ended; a terminating pod still holds its room."""
        return bool(self.node) and self.phase in (Phase.PENDING, Phase.RUNNING)

    @property
    def active(self) -> bool:
        """Tell whether the pod has neither ended nor been deleted."""
        return self.phase in (Phase.PENDING, Phase.RUNNING) and self.deleted is None

    @property
    def works(self) -> bool:
        """Tell whether the pod is running and not being deleted."""
        return self.phase is Phase.RUNNING and self.deleted is None


class ObjectKind(Enum):
    """The kind of object that a change is about."""

    NODE = "Node"
    JOB = "TFJob"
    POD = "Pod"


class Verb(Enum):
    """A watch event's type."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class WorldChange(NamedTuple):
    """One entry of the watch history; a deleted object's version is the revision of its deletion."""

    revision: int
    kind: ObjectKind
    verb: Verb
    object: Node | JobObject | PodObject


@dataclass(frozen=True, slots=True)
class WorldRefusal:
    """The API server's refusal of a write: HTTP status, reason and message. A successful write returns None instead."""

    status: int
    reason: str
    message: str


def job_fact(job: JobObject) -> Job:
    """Return the job as a Job of ``policy``, as Kohort's translator would."""
    spec = job.spec
    return Job(
        uid=job.uid,
        namespace=spec.namespace,
        name=spec.name,
        kind=spec.kind.value,
        arrival=job.created,
        roles=spec.roles,
        min_workers=spec.min_workers,
        max_workers=spec.max_workers,
        utility=spec.utility,
        training=spec.training,
        migratable=spec.migratable,
        ps_elastic=spec.ps_elastic,
        elastic=(spec.min_workers, spec.max_workers) != (spec.workers, spec.workers),
        finished=job.phase.ended,
        suspended=job.stopped and not job.released,
        suspends=spec.kind.ends,
        one_by_one=spec.kind is WorkloadKind.TFJOB,
        keeps_ended=spec.kind is WorkloadKind.INDEXED_JOB,
        over=tuple(Slot(WORKER, index) for index in job.over),
        released=job.released,
        keeps_pods=spec.kind is WorkloadKind.TFJOB and spec.clean_pods is CleanPods.NONE,
        version=job.version,
    )
