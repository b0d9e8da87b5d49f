"""Jobs by what a step looks for, and the free room, so that no step looks at every job and node: Draft keeps it up.

An index remembers the maps that it was made from. A snapshot that was put together from other maps makes its own anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, Protocol

from policy.cluster.capacity import Capacity
from policy.cluster.filing import is_filed, refiled
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.memo import Memo
from policy.cluster.model import WORKER, Job, Node, Pod, Slot, queued, releasing
from policy.cluster.resources import Resources


class Facts(Protocol):
    """The maps of a snapshot that an index is made from."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """By name."""
        ...

    @property
    def jobs(self) -> Mapping[str, Job]:
        """By uid."""
        ...

    @property
    def pods(self) -> Mapping[str, Pod]:
        """By uid."""
        ...

    @property
    def members(self) -> Mapping[str, Mapping[Slot, str]]:
        """Job uid -> slot -> pod uid."""
        ...

    @property
    def strays(self) -> Mapping[str, frozenset[str]]:
        """Job uid -> uids of the pods that hold no slot."""
        ...

    @property
    def gangs(self) -> Mapping[str, Gang]:
        """By job uid."""
        ...

    @property
    def charged(self) -> Mapping[str, Resources]:
        """Sum of the charges by node."""
        ...

    @property
    def foreign(self) -> Mapping[str, Resources]:
        """The part of it that pods took which did not opt in."""
        ...

    @property
    def not_offered(self) -> Mapping[tuple[str, str], float]:
        """Job uid, node -> until."""
        ...


@dataclass(slots=True)
class News:
    """What has changed: jobs (with their gangs, pods and refused nodes), pods of no job, nodes and their charges."""

    jobs: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    charged: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.jobs or self.pods or self.nodes or self.charged or self.foreign)


NOWHERE = Capacity({}, {}, {})


@dataclass(frozen=True, slots=True)
class Index:
    """Job uids in order, by what is to be done about them; a job may be under several.

    waiting: in the queue. admitted: have been given room. growing: admitted, elastic and below their maximum;
    yielding: admitted, elastic and above their minimum.
    lacking: admitted, with a member that has no node that can be used. repairing: in that state.
    freeing: their plans wait for pods to go. held: have binds at the barrier.
    leaving: have a pod whose room will be given back. keeping: finished, and their pods stay.
    unsettled: the controller may have something to do for them. orphans: gated pods (uids) that name no job.
    deadlines, rests: gangs with a window or deadline, and those that back off (job uid -> seconds since the epoch).
    room, emptied: what is free on the nodes, and what would be if no job had any room.
    """

    waiting: tuple[str, ...] = ()
    admitted: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()
    yielding: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    repairing: tuple[str, ...] = ()
    freeing: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    keeping: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    deadlines: Mapping[str, float] = field(default_factory=dict)
    rests: Mapping[str, float] = field(default_factory=dict)
    room: Capacity = NOWHERE
    emptied: Capacity = NOWHERE
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
    basis: tuple[object, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, facts: Facts) -> Index:
        """Made from nothing but the maps."""
        jobs = facts.jobs.keys() | facts.gangs.keys() | facts.members.keys() | facts.strays.keys()
        return cls().after(facts, News(jobs=set(jobs), pods=set(facts.pods), nodes=set(facts.nodes)))

    def made_from(self, facts: Facts) -> bool:
        """Whether these very maps are the ones that it was made from."""
        return bool(self.basis) and all(map(is_, self.basis, _maps(facts)))

    def after(self, facts: Facts, news: News) -> Index:
        """Kept up: what is new of these maps is looked at anew."""
        changes: dict[str, Any] = {"basis": _maps(facts), "memo": self.memo}
        if news.jobs:
            changes |= self._filed(facts, news.jobs)
        if news.pods:
            changes["orphans"] = refiled(self.orphans, {uid: _is_orphan(facts.pods.get(uid)) for uid in news.pods})
        if touched := news.charged | news.nodes:
            changes["room"] = self.room.after(facts.nodes, facts.charged, touched)
        if touched := news.foreign | news.nodes:
            changes["emptied"] = self.emptied.after(facts.nodes, facts.foreign, touched)
            changes["memo"] = changes["memo"].for_other_room(bool(news.nodes))
        return replace(self, **changes)

    def _filed(self, facts: Facts, jobs: Iterable[str]) -> Iterator[tuple[str, Any]]:
        cases = {uid: _case(facts, uid) for uid in jobs}
        for name, holds in KINDS.items():
            yield name, refiled(getattr(self, name), {uid: holds(case) for uid, case in cases.items()})
        for name, moment in MOMENTS.items():
            yield name, _retimed(getattr(self, name), {uid: moment(case) for uid, case in cases.items()})
        memo = self.memo.without(cases)
        kept = any(_keeps(case) or is_filed(self.keeping, uid) for uid, case in cases.items())
        yield "memo", memo.for_other_room() if kept else memo


def _maps(facts: Facts) -> tuple[object, ...]:
    jobs = (facts.jobs, facts.pods, facts.members, facts.strays, facts.gangs, facts.not_offered)
    return (facts.nodes, facts.charged, facts.foreign, *jobs)


class _Case(NamedTuple):
    """One job as the index looks at it; ``job`` is None where only pods name it."""

    job: Job | None
    gang: Gang
    pods: list[Pod]
    nodes: Mapping[str, Node]


def _case(facts: Facts, uid: str) -> _Case:
    uids = [*facts.members.get(uid, {}).values(), *facts.strays.get(uid, ())]
    gang = facts.gangs.get(uid) or Gang(uid)
    return _Case(facts.jobs.get(uid), gang, [facts.pods[pod] for pod in uids], facts.nodes)


def _retimed(old: Mapping[str, float], moments: Mapping[str, float | None]) -> Mapping[str, float]:
    if all(old.get(uid) == at for uid, at in moments.items()):
        return old
    kept = {uid: at for uid, at in old.items() if uid not in moments}
    return kept | {uid: at for uid, at in moments.items() if at is not None}


# -- what is looked for --------------------------------------------------------------------------


def leaves(pod: Pod, job: Job | None, gang: Gang) -> bool:
    """Whether the pod holds room that it will give back.

    Terminating ones that do not come back, workers beyond what their job was given, and those of finished jobs whose
    operator removes them.
    """
    if not pod.holds_room:
        return False
    if pod.terminating and not _comes_back(pod, gang):
        return True
    if job is None:
        return False
    if gang.state is State.COMPLETED:
        return not job.keeps_pods
    return gang.state is State.RUNNING and _surplus(pod, gang)


def _comes_back(pod: Pod, gang: Gang) -> bool:
    """A member of a gang that keeps its plan is restarted in its own place: the room is not anybody else's."""
    return gang.state in ADMITTED and pod.slot is not None and gang.nodes.get(pod.slot) == pod.node


def _surplus(pod: Pod, gang: Gang) -> bool:
    return pod.slot is not None and pod.slot.role == WORKER and pod.slot.index >= gang.workers


QUEUED = (State.WAITING, State.RELEASING, State.PAUSED)
GIVING_UP = (State.RELEASING, State.PAUSED, State.MIGRATING)


def waits(job: Job, gang: Gang) -> bool:
    """Whether the job is in the queue: valid, not finished, not suspended by a user, without a plan."""
    return gang.state in QUEUED and (queued(job) or releasing(job))


def _is_admitted(case: _Case) -> bool:
    return case.job is not None and case.gang.state in ADMITTED


def _may_grow(case: _Case) -> bool:
    job = case.job
    return job is not None and job.elastic and case.gang.state in ADMITTED and case.gang.workers < job.max_workers


def _may_yield(case: _Case) -> bool:
    job = case.job
    return job is not None and job.elastic and case.gang.state in ADMITTED and case.gang.workers > job.min_workers


def _lacks(case: _Case) -> bool:
    """The plan has too few nodes, or names one that nobody can be sent to."""
    job, gang = case.job, case.gang
    if job is None or not gang.whole or gang.state not in ADMITTED or not queued(job):
        return False
    target = len(job.slots(gang.workers, gang.ps))
    return len(gang.nodes) < target or not all(_usable(case.nodes.get(name)) for name in gang.nodes.values())


def _usable(node: Node | None) -> bool:
    return node is not None and node.usable


def _leaves(case: _Case) -> bool:
    return any(leaves(pod, case.job, case.gang) for pod in case.pods)


def _keeps(case: _Case) -> bool:
    return case.gang.state is State.COMPLETED and case.job is not None and case.job.keeps_pods


def _unsettled(case: _Case) -> bool:
    """A wider net than the controller's own questions, which desired.py asks."""
    job, gang = case.job, case.gang
    if (
        gang.state in GIVING_UP
        or (job is not None and releasing(job))
        or any(pod.gated or (pod.nominated and not pod.node) for pod in case.pods)
    ):
        return True
    if job is None or not (gang.state in ADMITTED or gang.state is State.WAITING):
        return False
    asked = job.worker.replicas if job.worker else 0
    if gang.state is State.WAITING:
        return asked < job.min_workers
    if asked != gang.workers or gang.ps is not None:
        return True
    return any(not (pod.node or pod.ended or pod.terminating) for pod in case.pods)


def _is_orphan(pod: Pod | None) -> bool:
    return pod is not None and pod.gated and pod.opted_in and not pod.job_uid


KINDS: Mapping[str, Callable[[_Case], bool]] = {
    "waiting": lambda case: case.job is not None and waits(case.job, case.gang),
    "admitted": _is_admitted,
    "growing": _may_grow,
    "yielding": _may_yield,
    "lacking": _lacks,
    "repairing": lambda case: case.job is not None and case.gang.state is State.REPAIRING,
    "freeing": lambda case: bool(case.gang.waits_for),
    "held": lambda case: bool(case.gang.held),
    "leaving": _leaves,
    "keeping": _keeps,
    "unsettled": _unsettled,
}


def _deadline(case: _Case) -> float | None:
    return min((at for at in (case.gang.window_ends, case.gang.deadline) if at is not None), default=None)


MOMENTS: Mapping[str, Callable[[_Case], float | None]] = {
    "deadlines": _deadline,
    "rests": lambda case: case.gang.not_before or None,
}
