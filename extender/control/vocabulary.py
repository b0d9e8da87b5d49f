"""The reasons of Kohort's Kubernetes Events: the one table from which they are written, documented and tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Word:
    """The reason of an Event, its type, and what it means."""

    reason: str
    meaning: str
    type: Literal["Normal", "Warning"] = "Normal"


QUEUED: Final = Word(
    "Queued",
    "The job waits: its place in the queue, the reason with its figures, and what helps: of the first five what would "
    "admit it, what can be done at once first and waiting last. Written after 20 s, when the reason changes (every ten "
    "minutes at most), and once an hour. A place or a change that is another by then is not told by itself: "
    "`kohort explain` has it as of now.",
)
STARVING: Final = Word("Starving", "The job has waited for longer than the starvation limit and goes first; told once.")
PLANNED: Final = Word(
    "Planned", "The gang has been given a node for every member, at once or once the pods that are in the way are gone."
)
BOUND: Final = Word("Bound", "The API shows every member of its minimum bound.")
SHRINKING: Final = Word("Shrinking", "Workers are to be taken: the job object is asked to; with the job they are for.")
SHRUNK: Final = Word("Shrunk", "The job object asks for fewer workers, and the pods beyond that are gone.")
GROWING: Final = Word("Growing", "Workers are to be given: the job object is asked to.")
GROWN: Final = Word("Grown", "The job object asks for more workers, and all of them are bound.")
STALLED: Final = Word(
    "GrowthStalled",
    "Workers that a running job was given have not come in their time: they are still awaited, or given back.",
    "Warning",
)
SHRINK_STALLED: Final = Word(
    "ShrinkStalled",
    "Workers that were taken for another job had not gone when that job's plan ended: it was given up.",
    "Warning",
)
PREEMPTED: Final = Word(
    "MembersPreempted",
    "Another scheduler has preempted members of the job: which, on which nodes, and for which pod, if that is known.",
    "Warning",
)
REPAIRING: Final = Word("Repairing", "Lost members are to be bound again: each has been given a node.")
REPAIRED: Final = Word("Repaired", "Every member of its minimum is bound again.")
PAUSING: Final = Word("Pausing", "The policy's schedule has no work for the job now: its pods are to go.")
PAUSED: Final = Word("Paused", "The pods of a job that is to pause are gone; it goes on in a later slot.")
MIGRATING: Final = Word("Migrating", "The gang is to move whole to other nodes.")
MOVED: Final = Word("Moved", "Its members are bound on the nodes that it was to move to.")
WRITE_REFUSED: Final = Word(
    "WriteRefused",
    "The API server refuses what the job needs: a binding, a resize, a suspension, the removal of the gate and so on; "
    "with its words. It is tried again, but for a resize: the job keeps its workers, and nobody waits for them.",
    "Warning",
)
EDITED: Final = Word(
    "Edited", "Somebody has changed the job's workers or bounds; whether it holds, or is set back by the policy."
)
RELEASED: Final = Word("Released", "The plan was given up; with the reason.", "Warning")
REJECTED: Final = Word("Rejected", "The policy refuses the job; with its figures.", "Warning")

OF_WAITING: Final = (QUEUED, STARVING, PLANNED, RELEASED, WRITE_REFUSED)
"""Limited together: nine an hour of one job."""
OF_ACTIONS: Final = {
    "Admit": PLANNED, "Bound": BOUND, "Shrunk": SHRUNK, "Grown": GROWN, "Repaired": REPAIRED, "Paused": PAUSED,
    "Migrate": MIGRATING, "Moved": MOVED, "Released": RELEASED, "Reject": REJECTED, "Edited": EDITED,
    "Stalled": STALLED, "ShrinkStalled": SHRINK_STALLED, "Preempted": PREEMPTED, "WriteRefused": WRITE_REFUSED,
}  # fmt: skip
"""The reason by the action of a decision; the reason of a resize depends on its direction."""
WORDS: Final = (
    QUEUED, STARVING, PLANNED, BOUND, SHRINKING, SHRUNK, GROWING, GROWN, STALLED, SHRINK_STALLED, PREEMPTED, REPAIRING,
    REPAIRED, PAUSING, PAUSED, MIGRATING, MOVED, EDITED, WRITE_REFUSED, RELEASED, REJECTED,
)  # fmt: skip
