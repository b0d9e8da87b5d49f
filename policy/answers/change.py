"""A change that might admit a waiting job, and the search for the smallest change of one kind."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from policy.cluster.draft import Draft
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot


class Kind(StrEnum):
    """The kinds of changes after which a waiting job may be admitted."""

    AGAIN = "again"
    WAIT = "wait"
    GONE = "gone"
    MIN_WORKERS = "min-workers"
    REPLICAS = "replicas"
    UTILITY = "utility"
    TARGET = "target"
    UNCORDON = "uncordon"
    FORGIVE = "forgive"
    WORKERS = "workers"
    DELETE = "delete"
    END = "end"
    NODES = "nodes"

    @property
    def only_waits(self) -> bool:
        """Whether a change of this kind comes about by waiting alone, such as the end of a running job."""
        return self in (Kind.WAIT, Kind.GONE, Kind.END)


@dataclass(frozen=True, slots=True)
class Finer:
    """The changes whose sizes lie between a candidate and the next smaller candidate.

    count: the number of these changes. at: returns the change of a number; ``at(0)`` is the smallest change,
    ``at(count - 1)`` the largest.
    """

    count: int
    at: Callable[[int], Change]


@dataclass(frozen=True, slots=True)
class Change:
    """A change after which a waiting job may be admitted.

    text: the change in words. size: how large the change is, in the unit of its kind (seconds, workers, nodes ...).
    apply: returns a copy of a snapshot with the change made. wait: how many seconds later the policy decides. finer:
    the changes whose sizes lie between this candidate and the next smaller one; None if there are none.
    """

    kind: Kind
    text: str
    size: float
    apply: Callable[[Snapshot], Snapshot]
    wait: float = 0.0
    finer: Finer | None = None


def smallest(changes: Iterable[Change], proved: Callable[[Change], bool]) -> Change | None:
    """Return the smallest change that is proved to admit the job; None if no candidate is proved.

    ``changes``: the candidates, of growing size. ``proved``: tells whether a change admits the job. Because each proof
    is costly, only the first candidate that is proved is refined, by bisection over its ``finer`` changes.
    """
    found = next(filter(proved, changes), None)
    if found is None or found.finer is None:
        return found
    finer = found.finer
    first = bisect_left(range(finer.count), True, key=lambda at: proved(finer.at(at)))
    return finer.at(first) if first < finer.count else found


def with_job(job: Job) -> Callable[[Snapshot], Snapshot]:
    """Return a function that returns a copy of a snapshot in which this job replaces the job of the same uid."""

    def apply(snapshot: Snapshot) -> Snapshot:
        draft = Draft(snapshot)
        draft.put_job(job)
        return draft.freeze()

    return apply
