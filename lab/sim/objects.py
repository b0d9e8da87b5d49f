"""What the world's API server stores: nodes, training jobs and pods as values, and the record of each change.

A ``Node`` is the model's own. ``JobObject`` is shaped like a TFJob, or has the one role of the other kinds;
``PodObject`` is like a core/v1 Pod, as far as a scheduler reads or writes them. ``facts`` turns a change into the event
that the live translator would make of it; it cannot for the pods of a Deployment, which have no numbers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from policy.cluster.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.model import ANYWHERE, WORKER, Constraints, Job, Node, Phase, Pod, Role, Slot
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.training import Training

KOHORT = "kohort"
GATE = "kohort.dev/admission"
WAKE = "kohort.dev/wake"
PLAN = "kohort.dev/plan"
SLOT = "kohort.dev/slot"
SCHEDULING_GATED = "SchedulingGated"
FAILED_ATTEMPT = "SchedulerError"


class JobKind(Enum):
    """What a job is in the API, and so whose controller makes its pods."""

    TFJOB = "TFJob"
    INDEXED_JOB = "Job"
    STATEFULSET = "StatefulSet"
    DEPLOYMENT = "Deployment"

    @property
    def ends(self) -> bool:
        """Whether its pods end, and the job with them; the others run until their user deletes them.

        Just these can be suspended.
        """
        return self in (JobKind.TFJOB, JobKind.INDEXED_JOB)


class CleanPods(Enum):
    """TFJob's ``runPolicy.cleanPodPolicy``: which pods the operator deletes when the job has ended."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A training job as a user submits it, and the work that is in it.

    work_seconds: how long one worker beside its ps would take. contention: ``a`` of the speed model.
    arrival: seconds after the start of the trace. restarts: a failed pod is replaced; else it fails the job.
    model: which curve of the speed model is its own. local_batch: samples a worker takes in a step, where that is
    measured; None: not said. decay: ``k`` of its loss exp(-k p), p the share of work done.
    kind: one that does not end has workers only. volumes: PersistentVolumeClaims that each of its pods names.
    manifest: an opaque original, handed back as it came.
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
    kind: JobKind = JobKind.TFJOB
    volumes: tuple[str, ...] = ()
    manifest: object = None

    @property
    def workers(self) -> int:
        """Worker replicas that the job asks for."""
        return sum(role.replicas for role in self.roles if role.name == WORKER)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every replica that the job asks for: rigid roles first, then workers from index 0."""
        ordered = sorted(self.roles, key=lambda role: role.name == WORKER)
        return tuple(Slot(role.name, index) for role in ordered for index in range(role.replicas))

    def role(self, name: str) -> Role | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)


class JobPhase(Enum):
    """The last condition that the operator has set on the job."""

    CREATED = "Created"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def ended(self) -> bool:
        """Succeeded or failed."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED)


@dataclass(frozen=True, slots=True)
class JobObject:
    """A job in the API. ``spec.roles`` has the replicas asked for now; times are seconds since the epoch.

    released: it was suspended by Kohort, to release its gang, and by nobody else since.
    over: indices of an Indexed Job that are complete.
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
        """``namespace/name``."""
        return f"{self.spec.namespace}/{self.spec.name}"

    @property
    def stopped(self) -> bool:
        """Whether it is suspended, or asks for no replicas where its kind has no suspension."""
        return self.suspended if self.spec.kind.ends else not self.spec.workers


class Condition(NamedTuple):
    """The pod's PodScheduled condition."""

    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod in the API. ``owner``: uid of its job, empty for other pods; ``job``, ``kind``: that job's name and kind.

    slot: of a Deployment's pod only the world's own count; its name does not tell one. controller: name of one outside
    this world's kinds that creates it anew. volumes: PersistentVolumeClaims that it names. preempted: its condition
    DisruptionTarget says that a scheduler takes its room for a pod of higher priority.
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
    kind: JobKind = JobKind.TFJOB
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
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def holds_room(self) -> bool:
        """Bound and not ended; also while it terminates."""
        return bool(self.node) and self.phase in (Phase.PENDING, Phase.RUNNING)

    @property
    def active(self) -> bool:
        """Not ended, and not asked to go."""
        return self.phase in (Phase.PENDING, Phase.RUNNING) and self.deleted is None

    @property
    def works(self) -> bool:
        """Running and not asked to go."""
        return self.phase is Phase.RUNNING and self.deleted is None


class Kind(Enum):
    """What a change is about."""

    NODE = "Node"
    JOB = "TFJob"
    POD = "Pod"


class Verb(Enum):
    """A watch event's type."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(NamedTuple):
    """One entry of the watch history. A deleted object carries the revision of its deletion as its version."""

    revision: int
    kind: Kind
    verb: Verb
    object: Node | JobObject | PodObject


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's refusal of a write: HTTP status, reason, message. Methods answer None where they did it."""

    status: int
    reason: str
    message: str


def facts(change: Change, scheduler: str = KOHORT) -> Event | None:
    """The event that this change is to a Kohort for that scheduler name; None where it is nothing to it."""
    gone, found = change.verb is Verb.DELETED, change.object
    if isinstance(found, Node):
        return NodeGone(found.name) if gone else NodeSeen(found)
    if isinstance(found, PodObject):
        return PodGone(found.uid) if gone else PodSeen(pod_fact(found, scheduler))
    if found.spec.scheduler != scheduler:
        return None
    return JobGone(found.uid) if gone else JobSeen(job_fact(found))


def job_fact(job: JobObject) -> Job:
    """The job in the policy's words."""
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
        one_by_one=spec.kind is JobKind.TFJOB,
        keeps_ended=spec.kind is JobKind.INDEXED_JOB,
        over=tuple(Slot(WORKER, index) for index in job.over),
        released=job.released,
        keeps_pods=spec.kind is JobKind.TFJOB and spec.clean_pods is CleanPods.NONE,
        version=job.version,
    )


def pod_fact(pod: PodObject, scheduler: str = KOHORT) -> Pod:
    """The pod in the policy's words; one of another scheduler only takes room."""
    ours = pod.scheduler == scheduler
    seen = pod.scheduled
    refused = seen is not None and not seen.status and seen.reason != SCHEDULING_GATED
    return Pod(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        requests=pod.requests,
        node=pod.node,
        phase=pod.phase,
        job_uid=pod.owner if ours else "",
        slot=pod.slot if ours else None,
        owner=pod.job if ours else "",
        opted_in=ours,
        places=pod.constraints if ours else None,
        terminating=pod.deleted is not None,
        gated=GATE in pod.gates,
        refused=refused,
        refusal=seen.message if seen is not None and refused else "",
        woken=pod.annotations.get(WAKE, ""),
        plan=pod.annotations.get(PLAN, ""),
        failed_attempt=refused and seen is not None and seen.reason == FAILED_ATTEMPT,
        volumes=pod.volumes if ours else (),
        nominated=pod.nominated,
        preempted=pod.preempted,
        priority=pod.priority,
        since=pod.created,
        version=pod.version,
    )
