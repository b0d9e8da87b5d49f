"""The writes that the controller makes, one class for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from policy.cluster.orders import NodeOrder, NoteOrder, PodOrder, ReplicaOrder, SuspendOrder


@dataclass(frozen=True, slots=True)
class SetGate:
    """Switch the admission gate for new pods on or off."""

    on: bool


@dataclass(frozen=True, slots=True)
class PodCall:
    """A call that writes to the pod which the order names, on the condition that the pod still has the order's uid."""

    order: PodOrder


class Release(PodCall):
    """Delete a bound pod of a gang that is released or paused, or a ps that its gang is to lose."""


class Evict(PodCall):
    """Evict a member from its old node while its gang migrates; a PodDisruptionBudget may refuse it."""


class AskToSave(PodCall):
    """Annotate a member of a gang that is about to migrate; the annotation asks the training to save a checkpoint."""


class Renumber(PodCall):
    """Annotate a bound pod, whose slot has changed, with its new slot and with the deletion cost for that slot."""


class MarkScheduled(PodCall):
    """Set the condition PodScheduled of a bound pod to True where kube-scheduler has set it to False."""


class Nominate(PodCall):
    """Write the planned node into the pod's ``status.nominatedNodeName``; an empty node clears the field."""


class Ungate(PodCall):
    """Remove Kohort's scheduling gate from the pod; other gates stay."""


class Wake(PodCall):
    """Annotate a pod that kube-scheduler has refused; the change of the pod makes kube-scheduler try it again."""


@dataclass(frozen=True, slots=True)
class Note:
    """Write into a job's annotations the newest reports on its training, and what the policy remembers of the job.

    A value of None in the order leaves its annotation unchanged.
    """

    order: NoteOrder


@dataclass(frozen=True, slots=True)
class MarkNode:
    """Write into a node's annotation of which jobs members have failed there, or remove it and the forgiveness."""

    order: NodeOrder


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend a job, or resume it. The operator of a suspended job deletes its pods.

    A job is suspended when its gang is released, paused or migrated. An annotation marks a suspension as Kohort's.
    """

    order: SuspendOrder


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Patch a job's worker replicas, on the condition that the job still has the order's resourceVersion.

    The same patch writes the order's bounds (minimum and maximum of workers) as annotations. A bound that the job
    itself states is None in the order, and is not written.
    """

    order: ReplicaOrder


Call = (
    SetGate | Release | Evict | AskToSave | Suspend | Renumber | MarkScheduled | SetReplicas | Nominate | Ungate | Wake
    | Note | MarkNode
)  # fmt: skip


KINDS_OF_CALLS: Final = tuple(kind.__name__ for kind in get_args(Call))
