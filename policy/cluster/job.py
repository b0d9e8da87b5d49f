"""A training job as its API object states it, with its roles and the slots of its members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from policy.cluster.constraints import ANYWHERE, Constraints
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
