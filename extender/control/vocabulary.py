"""The words of our Kubernetes Events: the one table from which they are written, documented and tested."""

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
ADMITTED: Final = Word("Admitted", "The gang has been given a node for every member.")
BOUND: Final = Word("Bound", "Its minimum has passed the barrier and is bound together.")
SHRUNK: Final = Word("Shrunk", "Workers were taken; with the job that they are for.")
GROWN: Final = Word("Grown", "Workers were given.")
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
REPAIRED: Final = Word("Repaired", "Lost members were given nodes again.")
PAUSED: Final = Word("Paused", "The policy's schedule has no work for the job now; it goes on in a later slot.")
MIGRATING: Final = Word("Migrating", "The gang moves whole to other nodes.")
EDITED: Final = Word(
    "Edited", "Somebody has changed the job's workers or bounds; whether it holds, or is set back by the policy."
)
RELEASED: Final = Word("Released", "The plan was given up; with the reason.", "Warning")
REJECTED: Final = Word("Rejected", "The policy refuses the job; with its figures.", "Warning")

OF_WAITING: Final = (QUEUED, STARVING, ADMITTED, RELEASED)
"""Limited together: nine an hour of one job."""
WORDS: Final = (
    QUEUED, STARVING, ADMITTED, BOUND, SHRUNK, GROWN, STALLED, SHRINK_STALLED, PREEMPTED, REPAIRED, PAUSED, MIGRATING,
    EDITED, RELEASED, REJECTED,
)  # fmt: skip
