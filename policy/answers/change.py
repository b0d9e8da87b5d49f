"""A change that might admit a waiting job, and the search for the smallest change of one kind."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from policy.cluster.draft import Draft
from policy.cluster.model import Job
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
    WORKERS = "workers"
    DELETE = "delete"
    END = "end"
    NODES = "nodes"

    @property
    def only_waits(self) -> bool:
        """Whether a change of this kind is only to wait."""
        return self in (Kind.WAIT, Kind.GONE, Kind.END)


@dataclass(frozen=True, slots=True)
class Finer:
    """The changes of sizes between one candidate and the next smaller candidate, among which the smallest is searched
    for.

    ``at(0)`` is the smallest of them, ``at(count - 1)`` the largest.
    """

    count: int
    at: Callable[[int], Change]


@dataclass(frozen=True, slots=True)
class Change:
    """One change that may admit the job.

    text: the change in words. size: how large it is, in the unit of its kind (seconds, workers, nodes ...). apply:
    returns a copy of a snapshot with the change made. wait: seconds until the policy decides about it. finer: the
    changes of sizes between this one and the next smaller candidate; None if there are none.
    """

    kind: Kind
    text: str
    size: float
    apply: Callable[[Snapshot], Snapshot]
    wait: float = 0.0
    finer: Finer | None = None


def smallest(changes: Iterable[Change], proved: Callable[[Change], bool]) -> Change | None:
    """Return the smallest of the candidates that is proved to admit the job; None if none is proved.

    ``changes`` are the candidates, of growing size. ``proved`` tells whether a change admits the job, and is costly. So
    the first candidate that is proved is found, and then bisection searches its ``finer`` changes.
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
