"""The index: lists of jobs, and the free room, so that no step has to look at every job and every node.

``Draft`` updates the index in each step. An index remembers the maps that it was made from; a snapshot that is made by
hand from other maps builds an index of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import Any, Protocol

from policy.cluster.capacity import Capacity
from policy.cluster.frozen import quick, replace
from policy.cluster.gang import Gang, no_gang
from policy.cluster.job import Job, Slot
from policy.cluster.kinds import MOMENTS, IndexedJob, is_orphan, lists_of
from policy.cluster.layered import copied
from policy.cluster.memo import Memo
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.preemption import Preemptions
from policy.cluster.resources import Resources
from policy.cluster.sortedgroups import with_changes


class Facts(Protocol):
    """The maps of a snapshot from which its index is made.

    nodes: by name. jobs: by uid. pods: by uid. gangs: by job uid. members: pod uids by job uid and slot.
    strays: uids of the pods that hold no slot, such as replaced pods, by job uid.
    charged: the sum of all charges on each node, by node name. foreign: the part of ``charged`` that foreign pods take,
    or that is promised to them, by node. preemptions: the room that other schedulers have promised to their pods, by
    node. not_offered: until when (seconds since the epoch) a node is not to be used for a job, by job uid and node.
    """

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def jobs(self) -> Mapping[str, Job]: ...
    @property
    def pods(self) -> Mapping[str, Pod]: ...
    @property
    def members(self) -> Mapping[str, Mapping[Slot, str]]: ...
    @property
    def strays(self) -> Mapping[str, frozenset[str]]: ...
    @property
    def gangs(self) -> Mapping[str, Gang]: ...
    @property
    def charged(self) -> Mapping[str, Resources]: ...
    @property
    def foreign(self) -> Mapping[str, Resources]: ...
    @property
    def preemptions(self) -> Preemptions: ...
    @property
    def not_offered(self) -> Mapping[tuple[str, str], float]: ...


@dataclass(slots=True)
class News:
    """What has changed since the index was last updated.

    jobs: uids of the jobs whose object, gang, pods or refused nodes have changed. pods: uids of changed pods that
    belong to no job. nodes: names of changed nodes. charged, foreign: names of the nodes where that sum has changed.
    """

    jobs: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    charged: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.jobs or self.pods or self.nodes or self.charged or self.foreign)


NOWHERE = Capacity({}, {}, {})


@quick
@dataclass(frozen=True, slots=True)
class Index:
    """Sorted lists of job uids, one for each question that a step asks; a job may be on several of these lists.

    waiting: jobs in the queue. admitted: jobs that have a plan or run.
    growing: admitted elastic jobs below their maximum, unless a worker of the job has finished already.
    yielding: admitted elastic jobs above their minimum, from which workers may be taken.
    lacking: admitted jobs with a slot that has no usable node. repairing: jobs in the state repairing.
    freeing: jobs whose plans wait for pods to go. held: jobs with binds at the barrier.
    leaving: jobs with a pod whose room will soon be free. keeping: finished jobs whose pods are kept.
    unsettled: jobs for which the controller may have something to do.
    orphans: uids of gated pods that belong to no job.
    deadlines: when each gang's barrier window or deadline ends, the earlier of both (job uid -> seconds since the
    epoch). rests: when each gang's back-off ends (job uid -> seconds since the epoch).
    listed: the names of the lists that each job is on, by job uid.
    room: the free room of the nodes. emptied: the free room as if no job of Kohort's held any.
    memo: the cache of answers. basis: the maps that the index was made from.
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
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    room: Capacity = NOWHERE
    emptied: Capacity = NOWHERE
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
    basis: tuple[object, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, facts: Facts) -> Index:
        """Return an index that is built from the maps of ``facts`` without an earlier index."""
        jobs = facts.jobs.keys() | facts.gangs.keys() | facts.members.keys() | facts.strays.keys()
        return cls().after(facts, News(jobs=set(jobs), pods=set(facts.pods), nodes=set(facts.nodes)))

    def made_from(self, facts: Facts) -> bool:
        """Tell whether the index was made from exactly these maps, compared by identity."""
        return bool(self.basis) and all(map(is_, self.basis, _maps(facts)))

    def after(self, facts: Facts, news: News) -> Index:
        """Return the index for the maps of ``facts``; only the jobs, pods and nodes in ``news`` are looked at again."""
        changes: dict[str, Any] = {"basis": _maps(facts), "memo": self.memo}
        if news.jobs:
            changes |= self._relisted(facts, news.jobs)
        if news.pods:
            changes["orphans"] = with_changes(self.orphans, {uid: is_orphan(facts.pods.get(uid)) for uid in news.pods})
        promised = facts.preemptions and facts.preemptions is not self.room.promised
        if (touched := news.charged | news.nodes) or promised:
            changes["room"] = self.room.after(facts.nodes, facts.charged, touched, facts.preemptions)
        if (touched := news.foreign | news.nodes) or promised:
            changes["emptied"] = self.emptied.after(facts.nodes, facts.foreign, touched, facts.preemptions)
            changes["memo"] = changes["memo"].for_other_room(bool(news.nodes))
        return replace(self, **changes)

    def _relisted(self, facts: Facts, jobs: set[str]) -> dict[str, Any]:
        cases = {uid: _case(facts, uid) for uid in jobs}
        listed, moves, kept = copied(self.listed), defaultdict[str, dict[str, bool]](dict), False
        for uid, case in cases.items():
            before, now = listed.get(uid, ()), tuple(lists_of(case))
            if before != now:
                listed[uid] = now
                for name in {*before}.symmetric_difference(now):
                    moves[name][uid] = name in now
            if case.job is None and not now:
                listed.pop(uid, None)
            kept = kept or "keeping" in before or "keeping" in now
        memo = self.memo.without(jobs)
        changes: dict[str, Any] = {"listed": listed, "memo": memo.for_other_room() if kept else memo}
        for name, belongs in moves.items():
            changes[name] = with_changes(getattr(self, name), belongs)
        for name, moment in MOMENTS.items():
            changes[name] = _retimed(getattr(self, name), cases, moment)
        return changes


_maps = attrgetter(
    "nodes", "charged", "foreign", "jobs", "pods", "members", "strays", "gangs", "preemptions", "not_offered"
)


def _case(facts: Facts, uid: str) -> IndexedJob:
    uids, pods = [*facts.members.get(uid, {}).values(), *facts.strays.get(uid, ())], facts.pods
    gang = facts.gangs.get(uid) or no_gang(uid)
    return IndexedJob(facts.jobs.get(uid), gang, [pods[pod] for pod in uids], facts.nodes)


def _retimed(
    old: Mapping[str, float], cases: Mapping[str, IndexedJob], moment: Callable[[IndexedJob], float | None]
) -> Mapping[str, float]:
    moved = {uid: at for uid, case in cases.items() if (at := moment(case)) != old.get(uid)}
    if not moved:
        return old
    new = copied(old)
    for uid, at in moved.items():
        if at is None:
            del new[uid]
        else:
            new[uid] = at
    return new
