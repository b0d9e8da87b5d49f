"""Questions whose answers are kept from snapshot to snapshot, until something that they look at changes.

Each decorator names what its question may look at. A question may look at less, never at more, or an old answer is
returned. Arguments beside the snapshot and the job are hashed at each call: they must be cheap to hash.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from policy.cluster.gang import Gang
from policy.cluster.index import Index
from policy.cluster.model import Job, Node
from policy.cluster.sortedgroups import GroupEntry, SortedGroups
from policy.cluster.sortedtuple import in_sorted


class Indexed(Protocol):
    """A snapshot, as far as answers are kept with it."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""
        ...

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Jobs by uid."""
        ...

    @property
    def gangs(self) -> Mapping[str, Gang]:
        """Gangs by job uid."""
        ...

    @property
    def index(self) -> Index:
        """The index, with the memo."""
        ...


S = TypeVar("S", bound=Indexed)
J = TypeVar("J", bound=Job | str)
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
P = ParamSpec("P")
UNKNOWN: Final = object()


def until_job_changes(ask: Callable[Concatenate[S, J, P], T]) -> Callable[Concatenate[S, J, P], T]:
    """Keep the answer about a job (or its uid) until the job, its gang, its pods or its refused nodes change.

    A job that is not the snapshot's own, one that somebody has made up, is asked about each time: where that cannot be,
    a uid is found faster. All arguments are given by place.
    """
    asked: Any = ask

    # Asked thousands of times in a step: no further call, and no packing of arguments where there are none.
    def alone(snapshot: S, job: J) -> Any:
        uid: Any = job
        if type(job) is not str and snapshot.jobs.get(uid := job.uid) is not job:  # type: ignore[union-attr]
            return asked(snapshot, job)
        answers = snapshot.index.memo.job(uid)
        if asked in answers:
            return answers[asked]
        answer = answers[asked] = asked(snapshot, job)
        return answer

    def with_more(snapshot: S, job: J, *args: Hashable) -> Any:
        uid: Any = job
        if type(job) is not str and snapshot.jobs.get(uid := job.uid) is not job:  # type: ignore[union-attr]
            return asked(snapshot, job, *args)
        answers, question = snapshot.index.memo.job(uid), (asked, *args)
        answer = answers.get(question, UNKNOWN)
        if answer is UNKNOWN:
            answer = answers[question] = asked(snapshot, job, *args)
        return answer

    kept: Any = wraps(asked)(alone if asked.__code__.co_argcount == 2 else with_more)
    found: Callable[Concatenate[S, J, P], T] = kept
    return found


def until_nodes_change(ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Keep the answer until any node changes."""
    return _until(lambda snapshot: snapshot.nodes, ask)


def until_room_changes(ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Keep the answer until any node or any free room changes."""
    return _until(lambda snapshot: snapshot.index.room, ask)


def _until(basis: Callable[[Any], object], ask: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    @wraps(ask)
    def kept(snapshot: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answers, made_from = snapshot.index.memo.table((ask, *args), most=1), basis(snapshot)
        known = answers.get("")
        if known is None or known[0] is not made_from:
            known = answers[""] = made_from, ask(snapshot, *args, **kwargs)
        answer: T = known[1]
        return answer

    return kept


def until_emptied_room_changes(ask: Callable[[S, H], T]) -> Callable[[S, H], T]:
    """Keep an answer about the cluster without running jobs until nodes, pods of others or kept pods change."""

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
    """Return ``ask`` as a function of the job alone; each job's answer is kept until the job or ``given`` changes.

    ``given``: what the answer depends on beside the job; found once, and only if a job is asked about. ``name``: of the
    question, with all its other parameters.
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
    """Return the jobs of one list of the index in groups, each group in order; only changed jobs are placed anew.

    ``listed``: the name of the list, "waiting" for example; empty: all jobs that wait or have a gang. ``place``: the
    groups of a job (by uid) and its entry in each, a tuple that ends with the uid; it may look at the job, its gang,
    its pods, its refused nodes and all nodes. ``name``: of the question, with all its parameters.
    """
    index = snapshot.index
    if not listed:
        return index.memo.sorted_groups(name, place, lambda: {*snapshot.gangs, *index.waiting})
    uids: tuple[str, ...] = getattr(index, listed)
    return index.memo.sorted_groups(
        (listed, name), lambda uid: place(uid) if in_sorted(uids, uid) else (), lambda: uids
    )


def shared(snapshot: Indexed, value: H) -> H:
    """Return the first of all values that are equal to this one: a thousand of them are then compared at once."""
    return snapshot.index.memo.one(value)
