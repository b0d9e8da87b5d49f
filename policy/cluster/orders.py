"""What the controller is to make true: one order for one change to one object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One change to one pod.

    ``value``: the plan (wake, checkpoint), the node (nominate; empty clears) or the slot (renumber).
    """

    uid: str
    namespace: str
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """Set the worker replicas of a job; ``version`` is the resourceVersion it was decided on (the precondition).

    ``min_workers``, ``max_workers``: a bound in force that follows from the replicas alone, to be written down with
    this change, or the job would forget it; None where the object states it.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    workers: int
    replicas: int
    version: int
    min_workers: int | None = None
    max_workers: int | None = None


@dataclass(frozen=True, slots=True)
class SuspendOrder:
    """Suspend a job so that its operator deletes the pods, or let it go on; ``version`` as in ReplicaOrder.

    ps: so many from now on; None leaves them. They change only while the job is suspended and has no pods.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    suspend: bool
    version: int
    ps: int | None = None


@dataclass(frozen=True, slots=True)
class NoteOrder:
    """Write what must survive a restart on the job object, as annotations' values; None: leave it.

    reports: its newest reports. memory: what the policy remembers of it. ``version`` as in ReplicaOrder.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    version: int
    reports: str | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything the controller has to do now. Empty when the cluster is as it should be."""

    gate: bool
    ungate: tuple[PodOrder, ...] = ()
    wake: tuple[PodOrder, ...] = ()
    nominate: tuple[PodOrder, ...] = ()
    renumber: tuple[PodOrder, ...] = ()
    replicas: tuple[ReplicaOrder, ...] = ()
    suspend: tuple[SuspendOrder, ...] = ()
    release: tuple[PodOrder, ...] = ()
    evict: tuple[PodOrder, ...] = ()
    checkpoint: tuple[PodOrder, ...] = ()
    note: tuple[NoteOrder, ...] = ()
