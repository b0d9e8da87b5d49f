"""Decorators that cache a function's answers from snapshot to snapshot, until the facts that it depends on change.

Each decorator's name says what the function may depend on. A function that depends on more would return old answers.
Arguments after the snapshot and the job must be given by position, and must be cheap to hash.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from policy.cluster.index import Facts, Index
from policy.cluster.job import Job
from policy.cluster.sortedgroups import GroupEntry, SortedGroups, in_sorted


class Indexed(Facts, Protocol):
    """The maps of a snapshot with their index, which has the memo with the cached answers."""

    @property
    def index(self) -> Index: ...


S = TypeVar("S", bound=Indexed)
J = TypeVar("J", bound=Job | str)
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
P = ParamSpec("P")
UNKNOWN: Final = object()


def until_job_changes(ask: Callable[Concatenate[S, J, P], T]) -> Callable[Concatenate[S, J, P], T]:
    """Cache the answer about a job (given as a Job or its uid) until the job, its gang, pods or refused nodes change.

    The function may have one argument beside the snapshot and the job.

    For a Job object that is not the snapshot's own (a modified copy, for example) the function is called each time. A
    function that is never called with such an object should take the uid, because that is looked up faster.
    """
    asked: Any = ask

    # The two functions below repeat code, because they are called thousands of times in a step and a shared helper
    # would cost time.
    def alone(snapshot: S, job: J) -> Any:
        uid: Any = job
        if type(job) is not str and snapshot.jobs.get(uid := job.uid) is not job:  # type: ignore[union-attr]
            return asked(snapshot, job)
        answers = snapshot.index.memo.job(uid)
        if asked in answers:
            return answers[asked]
        answer = answers[asked] = asked(snapshot, job)
        return answer

    def with_one_more(snapshot: S, job: J, more: Hashable) -> Any:
        uid: Any = job
        if type(job) is not str and snapshot.jobs.get(uid := job.uid) is not job:  # type: ignore[union-attr]
            return asked(snapshot, job, more)
        answers, question = snapshot.index.memo.job(uid), (asked, more)
        if question in answers:
            return answers[question]
        answer = answers[question] = asked(snapshot, job, more)
        return answer

    kept: Any = wraps(asked)(alone if asked.__code__.co_argcount == 2 else with_one_more)
    found: Callable[Concatenate[S, J, P], T] = kept
    return found


def until_nodes_change(ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Cache the function's answer until any node changes."""
    return _until(lambda snapshot: snapshot.nodes, ask)


def until_room_changes(ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Cache the function's answer until any node or any free room changes."""
    return _until(lambda snapshot: snapshot.index.room, ask)


def until_anything_changes(ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Cache the function's answer for this one snapshot, which the cache keeps until it is asked about another one."""
    return _until(lambda snapshot: snapshot, ask)


def _until(basis: Callable[[Any], object], ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    asked: Any = ask

    def kept(snapshot: S, *args: Hashable) -> Any:
        answers, made_from = snapshot.index.memo.table((asked, *args), most=1), basis(snapshot)
        known = answers.get("")
        if known is None or known[0] is not made_from:
            known = answers[""] = made_from, asked(snapshot, *args)
        return known[1]

    wrapped: Any = wraps(asked)(kept)
    found: Callable[Concatenate[S, P], T] = wrapped
    return found


def until_emptied_room_changes(ask: Callable[[S, H], T]) -> Callable[[S, H], T]:
    """Cache an answer about the cluster as if no job ran.

    The answer is kept until nodes, foreign pods, or the pods that finished jobs keep have changed.
    """

    @wraps(ask)
    def kept(snapshot: S, about: H, /) -> T:
        empty = snapshot.index.memo.empty
        answers: Any = empty.get(ask)
        if answers is None:
            answers = empty[ask] = {}
        answer: Any = answers.get(about, UNKNOWN)
        if answer is UNKNOWN:
            answer = answers[about] = ask(snapshot, about)
        known: T = answer
        return known

    return kept


G = TypeVar("G")


def of_each_job(
    snapshot: Indexed, name: Hashable, given: Callable[[], G], ask: Callable[[Job, G], float]
) -> Callable[[Job], float]:
    """Return a function of a job that gives ``ask(job, given())`` and caches the answer for each job.

    An answer is cached until the job, or the value that ``given`` returns, changes. ``given`` is called at most once,
    when the first job is asked about. ``name`` identifies the question, with all its other parameters.
    """
    answers = snapshot.index.memo.table(name, most=2 * len(snapshot.jobs))
    found: list[G] = []

    def of(job: Job) -> float:
        if not found:
            found.append(given())
        ground, known = found[0], answers.get(job.uid)
        if known is None or known[0] is not job or (known[1] is not ground and known[1] != ground):
            known = answers[job.uid] = job, ground, ask(job, ground)
        answer: float = known[2]
        return answer

    return of


def grouped(
    snapshot: Indexed, listed: str, name: Hashable, place: Callable[[str], tuple[GroupEntry, ...]]
) -> SortedGroups:
    """Return the jobs of one list of the index in sorted groups; later calls look only at jobs that have changed.

    ``listed`` is the name of the list, for example "waiting"; if it is empty, all jobs that wait or have a gang count.
    ``name`` identifies the grouping, with all its parameters. ``place`` returns the groups of a job (by uid) and its
    entry in each, a tuple that ends with the uid; it may depend on the job, its gang, its pods, its refused nodes and
    all nodes.
    """
    index = snapshot.index
    if not listed:
        return index.memo.sorted_groups(name, place, lambda: {*snapshot.gangs, *index.waiting})
    uids: tuple[str, ...] = getattr(index, listed)
    return index.memo.sorted_groups(
        (listed, name), lambda uid: place(uid) if in_sorted(uids, uid) else (), lambda: uids
    )


def shared(snapshot: Indexed, value: H) -> H:
    """Return the object equal to ``value`` that was given first; this is ``value`` itself the first time.

    Equal values thus become the same object, so that comparing a thousand of them is fast.
    """
    return snapshot.index.memo.one(value)
