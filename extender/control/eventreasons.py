"""Lists the reasons of Kohort's Kubernetes Events; Events, their documentation and their tests use this one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class EventReason:
    """A value of an Event's `reason` field, with the type and the meaning of Events that have this reason."""

    reason: str
    meaning: str
    type: Literal["Normal", "Warning"] = "Normal"


QUEUED: Final = EventReason(
    "Queued",
    "The job waits. The note has its position in the queue, the reason with its figures, and what helps, or for the "
    "first five jobs what would admit them now, with changes that take effect at once first and waiting last. Written "
    "after 20 s, when the reason changes (at most every ten minutes), and once an hour. A new position alone writes no "
    "Event: `kohort explain` shows the present one.",
)
STARVING: Final = EventReason(
    "Starving", "The job has waited for longer than the starvation limit and goes first; written once."
)
PLANNED: Final = EventReason(
    "Planned", "Every member of the gang has a planned node, free now or once the pods that occupy it are gone."
)
BOUND: Final = EventReason("Bound", "Every member of the gang's minimum is bound.")
SHRINKING: Final = EventReason(
    "Shrinking",
    "The policy takes workers from the job by patching its object; the note names the job it is for.",
)
SHRUNK: Final = EventReason("Shrunk", "The job object states fewer workers, and the pods beyond that number are gone.")
GROWING: Final = EventReason("Growing", "The policy gives the job more workers by patching its object.")
GROWN: Final = EventReason("Grown", "The job object states more workers, and all of them are bound.")
STALLED: Final = EventReason(
    "GrowthStalled",
    "Workers that a running job was given have not arrived in time: Kohort still waits for them, or takes them back.",
    "Warning",
)
SHRINK_STALLED: Final = EventReason(
    "ShrinkStalled",
    "Workers that were taken for another job were not gone in time, so that the other job's plan was given up.",
    "Warning",
)
PREEMPTED: Final = EventReason(
    "MembersPreempted",
    "Another scheduler has preempted members of the job. The note names them, their nodes and, if known, the pod.",
    "Warning",
)
NODE_FAILED: Final = EventReason(
    "NodeFailed",
    "A member of the job has failed on a node while the others lived on. The note says whether the node is avoided "
    "now, and until when (setting nodes.avoid_failing).",
    "Warning",
)
REPAIRING: Final = EventReason("Repairing", "Lost members will be bound again: each has a planned node.")
REPAIRED: Final = EventReason("Repaired", "Every member of its minimum is bound again.")
PAUSING: Final = EventReason(
    "Pausing", "The policy's schedule has no work for the job now; its pods are being removed."
)
PAUSED: Final = EventReason("Paused", "The pods of the paused job are gone; it continues in a later time slot.")
MIGRATING: Final = EventReason("Migrating", "The whole gang is being moved to other nodes.")
MOVED: Final = EventReason("Moved", "The gang's members are bound on their new nodes.")
WRITE_REFUSED: Final = EventReason(
    "WriteRefused",
    "The API server refuses a write that the job needs (a binding, a resize, a suspension, the removal of the gate and "
    "so on); the note has its message. The write is repeated, except a resize: the job keeps its workers.",
    "Warning",
)
EDITED: Final = EventReason(
    "Edited",
    "Somebody has changed the job's workers or bounds. The note says whether the change stays.",
)
RELEASED: Final = EventReason("Released", "The plan was given up; the note has the reason.", "Warning")
REJECTED: Final = EventReason("Rejected", "The policy refuses the job; the note has its figures.", "Warning")

OF_WAITING: Final = (QUEUED, STARVING, PLANNED, RELEASED, WRITE_REFUSED)
"""The reasons of Events that a waiting job may get repeatedly. EventQuota limits them together, to nine an hour per
job.
"""
OF_ACTIONS: Final = {
    "Admit": PLANNED, "Bound": BOUND, "Shrunk": SHRUNK, "Grown": GROWN, "Repaired": REPAIRED, "Paused": PAUSED,
    "Migrate": MIGRATING, "Moved": MOVED, "Released": RELEASED, "Reject": REJECTED, "Edited": EDITED,
    "Stalled": STALLED, "ShrinkStalled": SHRINK_STALLED, "Preempted": PREEMPTED, "WriteRefused": WRITE_REFUSED,
    "NodeFailed": NODE_FAILED,
}  # fmt: skip
"""The reason by the action of a decision; the reason of a resize depends on its direction."""
WORDS: Final = (
    QUEUED, STARVING, PLANNED, BOUND, SHRINKING, SHRUNK, GROWING, GROWN, STALLED, SHRINK_STALLED, PREEMPTED,
    NODE_FAILED, REPAIRING, REPAIRED, PAUSING, PAUSED, MIGRATING, MOVED, EDITED, WRITE_REFUSED, RELEASED, REJECTED,
)  # fmt: skip
