"""Nodes, jobs and pods as the API server shows them: facts, frozen, in the words of the papers and of Kubernetes."""

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
    """One place in a job: the role's name and the replica's index. A restarted member is a new pod in the same slot."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a slot

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


@lru_cache(maxsize=256)  # sizes of gangs that are asked for now; not for ever all that anybody has ever asked for
def worker_slots(count: int) -> tuple[Slot, ...]:
    """Return the slots of so many workers, from index 0."""
    return tuple(Slot(WORKER, index) for index in range(count))


TAINTS_OF_CLOSED_NODES: Final = frozenset(
    f"node.kubernetes.io/{name}" for name in ("unschedulable", "not-ready", "unreachable")
)
"""Set and taken away by the node lifecycle controller (kubernetes/pkg/controller/nodelifecycle)."""


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
    """Where a pod may go, as far as Kohort plans it: node selector, required node affinity, tolerations."""

    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE = Constraints()


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what it can hold and whom it takes. ``version`` is the API object's resourceVersion."""

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
        """Whether the node is ready and not cordoned: pods can be sent to it."""
        return self.ready and not self.unschedulable

    @property
    def closed(self) -> str:
        """Why no pods can be sent to it, in words; empty where they can."""
        return "" if self.usable else "cordoned" if self.ready else "not ready"

    @property
    def reopened(self) -> Node:
        """The node once it is ready and uncordoned: the taints that Kubernetes sets for either are gone, too."""
        kept = tuple(taint for taint in self.taints if taint.key not in TAINTS_OF_CLOSED_NODES)
        return replace(self, ready=True, unschedulable=False, taints=kept)


@dataclass(frozen=True, slots=True)
class Role:
    """The replicas of one role of a job (ps, worker, chief, master, evaluator): how many, and what each asks for.

    ``replicas`` is what the job object asks for now. ``unsupported`` names what the pod template asks for and the
    plan cannot promise (``topologySpreadConstraints`` ...): such a job is refused by name.
    """

    name: str
    replicas: int
    requests: Resources
    constraints: Constraints = ANYWHERE
    unsupported: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """A training job as its API object states it.

    ``min_workers``/``max_workers`` bound the role ``worker``; every other role is rigid. ``arrival`` is the object's
    creation in seconds since the epoch. ``invalid`` says why the object cannot be taken (then nothing else counts).
    ``note`` says what of a valid object is not used, and why. ``elastic``: the kind's owner can be patched to another
    number of workers. ``min_stated``/``max_stated``: the object states the bound; else it follows from the replicas,
    which change with every resize. ``utility_stated``: the object states it; else it is 1.
    ``training``: what it says of its training; ``migratable``: it may be moved whole.
    ``ps_elastic``: its ps may come and go while it runs; ``ps_restarts``: their number may change while it is
    suspended; else it holds all that it asks for whenever it runs. ``reported``: time of the newest report that its
    object holds, 0 where it holds none. ``memory``: what a policy wrote there of this job;
    ``holds_notes``: it has an object of its own that we can write such annotations on.
    ``suspended``: by its user; ``released``: by us, until its pods are gone; ``suspends``: its kind can be suspended.
    ``one_by_one``: its operator can remove only one running worker at a time. ``replaced``: its pods are created anew
    when they are deleted; a gang of others is not released for a member that it lacks. ``unnumbered``: its pods have no
    numbers before they are bound, and its controller takes any of these. ``keeps_ended``: its controller leaves pods
    that have ended where they are when it is suspended. ``counted``: its numbers are those of its pods, and when they
    change nobody has edited it. ``over``: slots for which no pod will ever come again, as its
    status tells: each has done its part, or failed for good.
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
        """The job as ``namespace/name``, for people and logs."""
        return f"{self.namespace}/{self.name}"

    @property
    def worker(self) -> Role | None:
        """The elastic role, where the job has one."""
        for role in self.roles:
            if role.name == WORKER:
                return role
        return None

    @property
    def servers(self) -> int:
        """The ps that its object asks for."""
        found = self.role(PS)
        return found.replicas if found else 0

    @property
    def ps_varies(self) -> bool:
        """Whether it may have other numbers of ps in other slots."""
        return self.ps_elastic or self.ps_restarts

    @property
    def rigid(self) -> tuple[Role, ...]:
        """The roles that are never scaled: ps, chief, master, evaluator."""
        return tuple(role for role in self.roles if role.name != WORKER)

    def role(self, name: str) -> Role | None:
        """Return the role of that name, or None."""
        for role in self.roles:
            if role.name == name:
                return role
        return None

    def slots(self, workers: int, servers: int | None = None) -> tuple[Slot, ...]:
        """Return the slots of the gang at ``workers`` workers and ``servers`` ps (None: as asked).

        Rigid members come first, then workers from 0.
        """
        given = {} if servers is None else {PS: servers}
        rigid = [Slot(role.name, i) for role in self.rigid for i in range(given.get(role.name, role.replicas))]
        return (*rigid, *worker_slots(workers))

    def has(self, slot: Slot, servers: int | None = None) -> bool:
        """Tell whether the slot is a rigid member of the gang, or a worker of whatever index."""
        if slot.role == WORKER:
            return True
        if slot.role == PS and servers is not None:
            return slot.index < servers
        role = self.role(slot.role)
        return role is not None and slot.index < role.replicas

    def members(self, workers: int, servers: int | None = None) -> int:
        """Return how many slots the gang has with so many workers and ps."""
        given = {} if servers is None else {PS: servers}
        return workers + sum([given.get(role.name, role.replicas) for role in self.rigid])

    @property
    def size(self) -> int:
        """The number of members of the gang at its minimum."""
        return self.members(self.min_workers)

    def requests(self, workers: int) -> Resources:
        """Return what the gang asks for at ``workers`` workers."""
        rigid = total(role.requests.times(role.replicas) for role in self.rigid)
        return rigid + (self.worker.requests.times(workers) if self.worker else NOTHING)


def queued(job: Job) -> bool:
    """Tell whether the job is one that waits or runs at all."""
    return not (job.invalid or job.finished or job.suspended or job.released or job.deleting)


def releasing(job: Job) -> bool:
    """Tell whether the job is suspended until the pods of its released gang are gone; then it is queued again."""
    return job.released and not (job.invalid or job.finished or job.deleting)


def lives(job: Job) -> bool:
    """Tell whether the job is still ours to bring to its end: it is queued, or suspended by us for a while."""
    return queued(job) or releasing(job)


class Phase(Enum):
    """A pod's phase, as far as room is concerned."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ENDED = (Phase.SUCCEEDED, Phase.FAILED)


@quick
@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. ``job_uid`` and ``slot`` are set for a member of a job that opted in; other pods only take room.

    ``refused``: kube-scheduler has written PodScheduled=False, and ``refusal`` why. ``failed_attempt``: not because no
    node takes the pod, but because the attempt ended with an error, as when a volume did not come in time.
    ``volumes``: the PersistentVolumeClaims that it names. ``woken``: the plan in the wake annotation;
    ``saves``: the plan for which it has been asked for a checkpoint.
    ``plan``: the plan that its binding was made under. ``since``: creation, seconds since the epoch.
    ``owner``: the name that it gives its job, from which its slot was read; empty where its kind gives none.
    ``numbered``: the slot that is written on it, where its kind gives it none and who goes first follows from that.
    ``places``: where it may go, as it is since its admission; None where that is not known, as of others' pods.
    ``nominated``: the node that its scheduler keeps room on for it. ``preempted``: a scheduler has chosen it to make
    room for a pod of higher priority (condition DisruptionTarget, reason PreemptionByScheduler).
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
    priority: int = 0
    since: float = 0.0
    version: int = 0

    @property
    def ended(self) -> bool:
        """Whether it has succeeded or failed, and so holds no room any more.

        kube-scheduler frees the room on the phase, not on deletion.
        """
        return self.phase in ENDED

    @property
    def holds_room(self) -> bool:
        """Whether it is bound and not ended; a terminating pod holds its room until it is gone."""
        return bool(self.node) and self.phase not in ENDED

    @property
    def claims(self) -> bool:
        """Whether another scheduler keeps room for it; the nomination of a pod of ours is part of its plan."""
        return bool(self.nominated) and not (self.opted_in or self.node or self.ended or self.terminating)

    @property
    def misnumbered(self) -> bool:
        """Whether another slot than its own is written on it, so that its controller would take a wrong one first."""
        moved = None not in (self.numbered, self.slot) and self.numbered != self.slot
        return moved and self.holds_room and not self.terminating
