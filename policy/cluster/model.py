"""The facts: nodes, jobs and pods as the API server shows them, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from policy.cluster.frozen import quick
from policy.cluster.resources import NOTHING, Resources, total
from policy.cluster.training import Training

WORKER = "worker"
PS = "ps"


class Slot(NamedTuple):
    """One place in a job: the role's name and the replica's index.

    A pod that replaces a restarted member takes the same slot.
    """

    role: str
    index: int  # type: ignore[assignment]  # the field hides tuple.index, which no code calls on a slot

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


# The cache of worker_slots is bounded, because only the gang sizes that are in use now are asked for again.
@lru_cache(maxsize=256)
def worker_slots(count: int) -> tuple[Slot, ...]:
    """Return the slots of ``count`` workers, from index 0."""
    return tuple(Slot(WORKER, index) for index in range(count))


TAINTS_OF_CLOSED_NODES: Final = frozenset(
    f"node.kubernetes.io/{name}" for name in ("unschedulable", "not-ready", "unreachable")
)
"""The taints that the node lifecycle controller (kubernetes/pkg/controller/nodelifecycle) sets on cordoned and unready
nodes, and removes again.
"""


class Taint(NamedTuple):
    """A node's taint (core/v1)."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A pod's toleration (core/v1); an empty ``key`` with ``Exists`` tolerates everything."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(NamedTuple):
    """One expression of a node selector term (core/v1): In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]


class Term(NamedTuple):
    """A node selector term: all expressions on labels and all on fields (``metadata.name``) must hold."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Constraints:
    """The placement rules of a pod that Kohort's plans obey: node selector, required node affinity, tolerations.

    ``terms`` are the terms of the required node affinity; a node must match one of them.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE = Constraints()


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its allocatable resources, and the labels and taints that decide which pods it takes.

    ``version`` is the API object's resourceVersion.
    """

    name: str
    allocatable: Resources
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    version: int = 0

    @property
    def usable(self) -> bool:
        """Whether the node is ready and not cordoned, so that pods can be bound to it."""
        return self.ready and not self.unschedulable

    @property
    def closed(self) -> str:
        """Why no pods can be bound to the node ("cordoned" or "not ready"); empty if the node is usable."""
        return "" if self.usable else "cordoned" if self.ready else "not ready"

    @property
    def reopened(self) -> Node:
        """The node as it would be if it were ready and uncordoned.

        The taints that Kubernetes sets on cordoned and unready nodes are left out, too.
        """
        kept = tuple(taint for taint in self.taints if taint.key not in TAINTS_OF_CLOSED_NODES)
        if self.usable and kept == self.taints:
            return self
        return replace(self, ready=True, unschedulable=False, taints=kept)


@dataclass(frozen=True, slots=True)
class Role:
    """The replicas of one role of a job (ps, worker, chief, master, evaluator): how many, and what each asks for.

    ``replicas`` is the number that the job object asks for now. ``requests`` is what one pod of the role asks for.
    ``unsupported`` names the fields of the pod template that a plan cannot promise (``topologySpreadConstraints`` ...);
    a job that has any is refused, and the refusal names them.
    The other fields matter to ResourceQuotas alone: ``limits`` are the limits of one pod, ``priority_class`` is the
    name of its PriorityClass, and ``ends`` says whether it has an activeDeadlineSeconds.
    """

    name: str
    replicas: int
    requests: Resources
    constraints: Constraints = ANYWHERE
    unsupported: tuple[str, ...] = ()
    limits: Resources = NOTHING
    priority_class: str = ""
    ends: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """A training job as its API object states it.

    min_workers, max_workers: bounds of the number of workers; the number of members of every other role is fixed.
    arrival: when the object was created, in seconds since the epoch.
    invalid: why the object is malformed; if it is not empty, no other field may be used.
    note: which part of a valid object Kohort does not use, and why.
    elastic: whether Kohort can change the number of workers by a patch of the job object.
    min_stated, max_stated: whether the object states the bound; if not, the bound follows from the replicas, which
    change with every resize.
    utility_stated: whether the object states its utility; if not, the utility is 1.
    training: what the job's annotation says about its training; None if it says nothing.
    migratable: whether the whole job may be moved to other nodes.
    ps_elastic: whether the number of ps may change while the job runs.
    ps_restarts: whether the number of ps may change while the job is suspended. If neither is true, the job always runs
    with all ps that it asks for.
    reported: time of the newest training report in the object's annotation; 0 if it has none.
    memory: what a policy has written about this job in the object's annotation.
    holds_notes: whether the job has an object of its own on which Kohort can write such annotations.
    suspended: whether its user has suspended it. released: whether Kohort has suspended it until its pods are gone.
    suspends: whether its kind can be suspended.
    one_by_one: whether its operator can remove only one running worker at a time.
    replaced: whether its controller creates a new pod for each deleted one. If not, its gang is not released when it
    lacks a member, because its pods would never come again.
    unnumbered: whether its pods get their indices only when they are bound (a Deployment's), so that its controller may
    delete any of its unbound pods.
    keeps_ended: whether its controller keeps pods that have ended when the job is suspended.
    counted: whether its numbers of replicas are counted from its pods, so that a change of them is no user's edit.
    over: slots for which no pod will ever come again, because the job's status shows that the member has finished its
    work or has failed for good.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    arrival: float
    roles: tuple[Role, ...]
    min_workers: int = 0
    max_workers: int = 0
    min_stated: bool = True
    max_stated: bool = True
    utility: float = 1.0
    utility_stated: bool = True
    training: Training | None = None
    migratable: bool = False
    elastic: bool = False
    ps_elastic: bool = False
    ps_restarts: bool = False
    one_by_one: bool = True
    replaced: bool = True
    unnumbered: bool = False
    keeps_ended: bool = False
    counted: bool = False
    over: tuple[Slot, ...] = ()
    reported: float = 0.0
    memory: str = ""
    holds_notes: bool = False
    finished: bool = False
    suspended: bool = False
    suspends: bool = False
    released: bool = False
    deleting: bool = False
    keeps_pods: bool = False
    invalid: str = ""
    note: str = ""
    version: int = 0

    @property
    def key(self) -> str:
        """The job's name for people and logs: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def worker(self) -> Role | None:
        """The role ``worker``, the only one that is scaled; None if the job has no workers."""
        for role in self.roles:
            if role.name == WORKER:
                return role
        return None

    @property
    def servers(self) -> int:
        """How many ps the job object asks for."""
        found = self.role(PS)
        return found.replicas if found else 0

    @property
    def ps_varies(self) -> bool:
        """Whether the number of ps may change after the job's start, while the job runs or is suspended (for OASiS)."""
        return self.ps_elastic or self.ps_restarts

    @property
    def rigid(self) -> tuple[Role, ...]:
        """All roles but ``worker``; their numbers of members are fixed, unless the policy schedules the ps."""
        return tuple(role for role in self.roles if role.name != WORKER)

    def role(self, name: str) -> Role | None:
        """Return the job's role of that name; None if the job has no such role."""
        for role in self.roles:
            if role.name == name:
                return role
        return None

    def slots(self, workers: int, servers: int | None = None) -> tuple[Slot, ...]:
        """Return the slots of the gang with ``workers`` workers and ``servers`` ps.

        If ``servers`` is None, the gang has as many ps as the job object asks for. The rigid members come first, then
        the workers from index 0.
        """
        given = {} if servers is None else {PS: servers}
        rigid = [Slot(role.name, i) for role in self.rigid for i in range(given.get(role.name, role.replicas))]
        return (*rigid, *worker_slots(workers))

    def has(self, slot: Slot, servers: int | None = None) -> bool:
        """Tell whether the job has this slot: a rigid member within its role's number, or a worker of any index.

        If ``servers`` is not None, it is the number of ps that counts instead of the one in the job object.
        """
        if slot.role == WORKER:
            return True
        if slot.role == PS and servers is not None:
            return slot.index < servers
        role = self.role(slot.role)
        return role is not None and slot.index < role.replicas

    def members(self, workers: int, servers: int | None = None) -> int:
        """Return how many slots the gang has with ``workers`` workers and ``servers`` ps (None: as the object asks)."""
        given = {} if servers is None else {PS: servers}
        return workers + sum([given.get(role.name, role.replicas) for role in self.rigid])

    @property
    def size(self) -> int:
        """How many members the gang has at its minimum: all rigid members and ``min_workers`` workers."""
        return self.members(self.min_workers)

    def requests(self, workers: int) -> Resources:
        """Return the sum of the resource requests of the gang with ``workers`` workers."""
        rigid = total(role.requests.times(role.replicas) for role in self.rigid)
        return rigid + (self.worker.requests.times(workers) if self.worker else NOTHING)


def queued(job: Job) -> bool:
    """Tell whether the job is to be scheduled: valid, not finished, not suspended by its user or Kohort, not being
    deleted.
    """
    return not (job.invalid or job.finished or job.suspended or job.released or job.deleting)


def releasing(job: Job) -> bool:
    """Tell whether Kohort has suspended the job until the pods of its released gang are gone; then it queues again."""
    return job.released and not (job.invalid or job.finished or job.deleting)


def lives(job: Job) -> bool:
    """Tell whether Kohort still has to run the job: now, or later because Kohort itself has suspended it."""
    return queued(job) or releasing(job)


class Phase(Enum):
    """A pod's phase (core/v1); pods that have succeeded or failed hold no room."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ENDED = (Phase.SUCCEEDED, Phase.FAILED)


@quick
@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the API server shows it.

    job_uid, slot: set for a member of a job that opted in; other pods only take room.
    owner: the name in the pod's owner reference, from which its slot was read; empty if the reference names no job.
    gated: whether Kohort's scheduling gate still keeps it from kube-scheduler. gates: the names of its other scheduling
    gates, of a pod that opted in; until their owners remove them, kube-scheduler does not try the pod.
    places: the placement constraints of the pod after admission; None if unknown, as for pods that did not opt in.
    refused: whether kube-scheduler has written the condition PodScheduled=False. refusal: the condition's message.
    failed_attempt: whether kube-scheduler wrote it because its attempt ended with an error (a volume that did not come
    in time, for example), and not because no node takes the pod.
    volumes: the names of its PersistentVolumeClaims.
    limits: its limits, which only ResourceQuotas count; empty for pods that did not opt in.
    unchecked: for an unbound pod that opted in, the parts of its spec at which kube-scheduler's plugins look and which
    Kohort's placement does not check (``policy/placement/plugins.py``).
    repels: the namespaces whose pods its required anti-affinity may keep from a node; "*" stands for all of them.
    woken: the plan's name in the pod's wake annotation.
    saves: the name of the plan for which its training was asked for a checkpoint.
    plan: the name of the plan under which it was bound.
    numbered: the slot in the annotation by which its controller chooses the pods to delete first; only for kinds whose
    pods have no index in their names.
    finalizers: the finalizers that it still has, if it is terminating: until they are removed it holds its room.
    nominated: the node on which its scheduler keeps room for it.
    preempted: whether a scheduler has chosen it as a victim, to make room for a pod of higher priority (condition
    DisruptionTarget, reason PreemptionByScheduler).
    since: when it was created, in seconds since the epoch.
    """

    uid: str
    namespace: str
    name: str
    requests: Resources = NOTHING
    node: str = ""
    phase: Phase = Phase.PENDING
    job_uid: str = ""
    slot: Slot | None = None
    owner: str = ""
    opted_in: bool = False
    terminating: bool = False
    finalizers: tuple[str, ...] = ()
    gated: bool = False
    places: Constraints | None = None
    refused: bool = False
    refusal: str = ""
    failed_attempt: bool = False
    volumes: tuple[str, ...] = ()
    woken: str = ""
    saves: str = ""
    plan: str = ""
    numbered: Slot | None = None
    nominated: str = ""
    preempted: bool = False
    unchecked: tuple[str, ...] = ()
    repels: tuple[str, ...] = ()
    priority: int = 0
    since: float = 0.0
    version: int = 0
    limits: Resources = NOTHING
    gates: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the pod has succeeded or failed, and so holds no room any more.

        kube-scheduler, too, frees a pod's room when it reaches such a phase, and not only when it is deleted.
        """
        return self.phase in ENDED

    @property
    def holds_room(self) -> bool:
        """Whether the pod is bound and has not ended; a terminating pod holds its room until it is gone."""
        return bool(self.node) and self.phase not in ENDED

    @property
    def key(self) -> str:
        """The pod's name for people: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def kept(self) -> bool:
        """Whether the pod is terminating and stays until its finalizers are removed."""
        return self.terminating and bool(self.finalizers)

    @property
    def claims(self) -> bool:
        """Whether another scheduler keeps room for this pod, which did not opt in and is nominated but not bound yet.

        The nomination of a pod that opted in does not count: its room is charged by the gang's plan.
        """
        return bool(self.nominated) and not (self.opted_in or self.node or self.ended or self.terminating)

    @property
    def misreported(self) -> bool:
        """Whether the pod is bound although its condition PodScheduled says that it is not.

        kube-scheduler writes this wrong condition when its own attempt fails because Kohort has just bound the pod.
        """
        return self.refused and self.opted_in and self.holds_room and not self.terminating

    @property
    def misnumbered(self) -> bool:
        """Whether the annotation by which the pod's controller orders deletions names another slot than the pod's.

        With such an annotation the controller would delete a wrong pod first.
        """
        moved = None not in (self.numbered, self.slot) and self.numbered != self.slot
        return moved and self.holds_room and not self.terminating
