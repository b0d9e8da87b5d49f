"""A pod as the API server shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from policy.cluster.constraints import Constraints
from policy.cluster.frozen import quick
from policy.cluster.job import Slot
from policy.cluster.resources import NOTHING, Resources


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
