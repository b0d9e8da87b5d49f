"""The orders for the controller. Each order is one change to one object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One change to one pod; the field of ``Desired`` that has the order says what is changed.

    ``value`` is what is written: the plan's name for ``wake`` and ``checkpoint``, the node for ``nominate`` (empty
    removes the nomination), and the slot for ``renumber``. It is empty for all other changes.
    """

    uid: str
    namespace: str
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """Set the worker replicas of a job to ``workers``.

    replicas: the number that the object has now. version: the resourceVersion for which this was decided; the patch has
    it as a precondition.
    min_workers, max_workers: a bound that the object does not state, so that it follows from the replicas. It is
    written on the object together with the change, which would alter it otherwise. None if the object states the bound.
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
    """Suspend a job, so that its operator deletes the pods, or resume it.

    ps: the new number of ps, which changes only while the job is suspended and has no pods; None leaves it as it is.
    version: the resourceVersion for which this was decided; the patch has it as a precondition.
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
    """Write annotations on the job object, so that their contents survive a restart.

    reports: the job's newest training reports. memory: what the policy remembers about the job. None leaves the
    annotation as it is.
    version: the resourceVersion for which this was decided; the patch has it as a precondition.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    version: int
    reports: str | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """Write on the node object which jobs' members have failed there, so that it survives a restart.

    failures: the text of the annotation; empty removes it. forgiven: whether the annotation is removed, too, by which
    an administrator has forgiven the failures. version: the resourceVersion for which this was decided; the patch has
    it as a precondition.
    """

    uid: str
    name: str
    version: int
    failures: str = ""
    forgiven: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """All that the controller has to do now; every tuple is empty when the cluster is as it should be.

    gate: whether new pods get Kohort's scheduling gate, because a job waits for room (setting ``when-queued``).
    ungate: pods whose gate is removed. wake: pods that kube-scheduler is made to try again, by an annotation.
    nominate: pods that get or lose a nominated node. renumber: pods on which their slot is written.
    replicas: jobs whose number of workers changes. suspend: jobs that are suspended or resumed.
    scheduled: bound pods whose condition PodScheduled is set to True.
    release: pods that are deleted. evict: pods that are evicted.
    checkpoint: pods whose training is asked to save. note: jobs on which annotations are written.
    mark: nodes on which the failures of members there are written.
    """

    gate: bool
    ungate: tuple[PodOrder, ...] = ()
    wake: tuple[PodOrder, ...] = ()
    nominate: tuple[PodOrder, ...] = ()
    renumber: tuple[PodOrder, ...] = ()
    scheduled: tuple[PodOrder, ...] = ()
    replicas: tuple[ReplicaOrder, ...] = ()
    suspend: tuple[SuspendOrder, ...] = ()
    release: tuple[PodOrder, ...] = ()
    evict: tuple[PodOrder, ...] = ()
    checkpoint: tuple[PodOrder, ...] = ()
    note: tuple[NoteOrder, ...] = ()
    mark: tuple[NodeOrder, ...] = ()
