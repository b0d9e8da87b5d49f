"""Finds what holds back the growth of a running job: a set of hindrances which must all be lifted so that it grows.

Each hindrance can be lifted on a copy of the snapshot. They are lifted one after the other until the policy grows the
job. Then each hindrance that need not be lifted for that is put back. The search takes at most two decisions for each
hindrance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from policy.answers.operated import without
from policy.answers.queue import places
from policy.cluster.actions import Admit, Resize
from policy.cluster.constraints import ANYWHERE
from policy.cluster.draft import Draft
from policy.cluster.gang import State
from policy.cluster.job import PS, WORKER, Job
from policy.cluster.node import Node
from policy.cluster.reasons import Lasts
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import remaining_seconds
from policy.cluster.words import and_more, counted, in_words, lack_in_words
from policy.placement.fit import accepts
from policy.placement.gang import barred, worker_demand
from policy.placement.grow import Where, could_be_together
from policy.placement.quotaroom import waiting_for_pods
from policy.placement.room import Room
from policy.systems.base import Policy
from policy.systems.quotas import decide

NODES_TOLD = 3


@dataclass(frozen=True, slots=True)
class Hindrance:
    """One possible cause why a running job gets no more workers.

    lift: returns a copy of a snapshot without the hindrance. text: returns the hindrance in words; its argument is a
    function that returns the copy in which all other hindrances are lifted. own: whether a decision without this
    hindrance counts as a proof only if it grows jobs, and admits, repairs and shrinks none.
    """

    lift: Callable[[Snapshot], Snapshot]
    text: Callable[[Callable[[], Snapshot]], str]
    own: bool = False


def held_by(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> str:
    """Return in words what keeps the job from growing; empty if it would not grow even with all hindrances lifted."""
    every = tuple(_hindrances(snapshot, job, policy, now))

    @cache  # To lift a hindrance costs more than a decision, so each copy is cached.
    def lifted(*some: Hindrance) -> Snapshot:
        return some[-1].lift(lifted(*some[:-1])) if some else snapshot

    def enough(some: Sequence[Hindrance]) -> bool:
        return grows(lifted(*some), job, policy, now, alone=any(one.own for one in some))

    found = next((every[:count] for count in range(1, len(every) + 1) if enough(every[:count])), None)
    if found is None:
        return ""
    for one in reversed(found):
        fewer = _but(found, one)
        if fewer and enough(fewer):
            found = fewer
    return "; and ".join(one.text(partial(lifted, *_but(found, one))) for one in found)


def grows(snapshot: Snapshot, job: Job, policy: Policy, now: float, *, alone: bool = False) -> bool:
    """Tell whether the policy would now give the job more workers than it has.

    alone: the answer is True only if the same decision admits, repairs and shrinks no job.
    """
    resized = False
    for action in decide(snapshot, policy, now).actions:
        more = isinstance(action, Resize) and action.workers > snapshot.gang(action.job_uid).workers
        if alone and isinstance(action, Admit | Resize) and not more:
            return False
        resized |= more and action.job_uid == job.uid  # type: ignore[union-attr]
    return resized


def _but(found: Sequence[Hindrance], one: Hindrance) -> tuple[Hindrance, ...]:
    return tuple(other for other in found if other is not one)


def _hindrances(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Hindrance]:
    """Yield what may keep the job from growing, in the order in which the hindrances are lifted.

    The lack of room comes late, because with more room alone other jobs would start before the job grows.
    """
    base, gang = policy.base, snapshot.gang(job.uid)
    cooldown = base.cooldown
    rest = gang.scaling.scaled_at + cooldown - now if cooldown and gang.scaling.scaled_at is not None else 0.0
    if rest > 0:
        yield Hindrance(partial(_rested, job), lambda _: f"its cool-down: {rest:.0f} s are left of {cooldown:g} s")
    left = remaining_seconds(snapshot.reports.get(job.uid, ()), now)
    if left is not None:
        end = f"its end: by its reports it has {left:.0f} s left, too few to gain what a change of its workers costs"
        yield Hindrance(partial(_unreported, job), lambda _: end)
    if takers := waiting_for_pods(snapshot).get(job.namespace):
        text = f"a ResourceQuota of its namespace: what is left is kept for pods that {takers[0].key} waits for"
        yield Hindrance(_unlimited_by_quotas, lambda _: text)
    limit = snapshot.rules.resizes_per_minute
    if limit:
        yield Hindrance(
            _unlimited,
            lambda _: f"the cluster's limit of {counted(limit, 'resize')} in any minute (resizes_per_minute)",
        )
    if snapshot.index.repairing:
        first = snapshot.jobs[snapshot.index.repairing[0]].key
        yield Hindrance(_mended, lambda _: f"a repair: free room is kept for members that {first} has lost")
    freeing = [uid for uid in snapshot.index.freeing if uid not in snapshot.index.repairing]
    if freeing:
        taker = snapshot.jobs[freeing[0]].key
        yield Hindrance(_freed, lambda _: f"room that is being freed for {taker}: no job grows before it is free")
    if snapshot.index.waiting:
        yield Hindrance(_without_queue, lambda rest: _queue_in_words(snapshot, rest(), policy, now))
    if base.grows and any(uid != job.uid for uid in snapshot.index.growing):
        yield Hindrance(partial(_others_at_most, job), lambda rest: _others_in_words(rest(), policy, now, job))
    yield Hindrance(partial(_more_room, job), lambda _: room_in_words(snapshot, job, policy), own=True)
    if base.idle_threshold is not None:
        text = f"the idle time: {base.name} gives away only room that has been idle for {base.idle_threshold:g} s"
        yield Hindrance(lambda copy: base.after_idling(copy, now), lambda _: text)


# -- Each function below lifts one hindrance on a copy of the snapshot. --------------------------


def _rested(job: Job, snapshot: Snapshot) -> Snapshot:
    draft = Draft(snapshot)
    gang = snapshot.gang(job.uid)
    draft.put_gang(replace(gang, scaling=replace(gang.scaling, scaled_at=None, grew=None)))
    return draft.freeze()


def _unlimited_by_quotas(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, quotas={})


def _unreported(job: Job, snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, reports={uid: told for uid, told in snapshot.reports.items() if uid != job.uid})


def _unlimited(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, rules=replace(snapshot.rules, resizes_per_minute=0))


def _mended(snapshot: Snapshot) -> Snapshot:
    """Return a copy of the snapshot without repairs: gangs in repair are binding, so they get no further room."""
    draft = Draft(snapshot)
    for uid in snapshot.index.repairing:
        draft.put_gang(replace(snapshot.gang(uid), state=State.BINDING, deadline=None, waits_for=()))
    return draft.freeze()


def _freed(snapshot: Snapshot) -> Snapshot:
    draft = Draft(snapshot)
    for uid in snapshot.index.freeing:
        draft.put_gang(replace(snapshot.gang(uid), waits_for=()))
    return draft.freeze()


def _without_queue(snapshot: Snapshot) -> Snapshot:
    return without(snapshot, *snapshot.index.waiting)


def _others_at_most(job: Job, snapshot: Snapshot) -> Snapshot:
    """Return a copy of the snapshot in which no other job can grow, because each is at its maximum."""
    draft = Draft(snapshot)
    for uid in snapshot.index.growing:
        if uid != job.uid:
            draft.put_job(replace(snapshot.jobs[uid], max_workers=snapshot.gang(uid).workers))
    return draft.freeze()


def _more_room(job: Job, snapshot: Snapshot) -> Snapshot:
    """Return a copy of the snapshot in which each node that the job runs on accepts and has room for one more worker.

    A node that is over-committed is made larger by the amounts that it lacks as well.
    """
    draft, more, refused = Draft(snapshot), worker_demand(snapshot, job), barred(snapshot, job)
    for host in _hosts(snapshot, job):
        free = snapshot.free(host.name)
        promised = Resources({name: max(0, -free[name]) for name in free})
        whole = host.allocatable + promised + more
        draft.put_node(replace(host, allocatable=whole, ready=True, unschedulable=False, taints=()))
        if host.name in refused:
            draft.drop_refusal(job.uid, host.name)
    roles = (replace(role, constraints=ANYWHERE) if role.name == WORKER else role for role in job.roles)
    draft.put_job(replace(snapshot.jobs[job.uid], roles=tuple(roles)))
    return draft.freeze()


# -- The functions below put hindrances into words. ----------------------------------------------


def _queue_in_words(snapshot: Snapshot, rest: Snapshot, policy: Policy, now: float) -> str:
    """Return in words that room is kept for waiting jobs, and name the first job that waits for room.

    ``rest``: the snapshot with all other hindrances lifted.
    """
    verdicts = policy.decide(rest, now).verdicts
    waiting = [place.job for place in places(snapshot, policy, now)]
    for_room = (
        job for job in waiting if job.uid in verdicts and verdicts[job.uid].reason.lasts in (Lasts.TURN, Lasts.LIMIT)
    )
    return f"jobs that wait: free room is kept for them ({next(for_room, waiting[0]).key} among them)"


def _others_in_words(rest: Snapshot, policy: Policy, now: float, job: Job) -> str:
    """Return in words that other jobs grow first, and name one, if possible one that grows on the nodes of ``job``.

    ``rest``: the snapshot with all other hindrances lifted.
    """
    grown = [one for one in policy.decide(rest, now).actions if isinstance(one, Resize) and one.job_uid != job.uid]
    near = set(rest.gang(job.uid).nodes.values())
    there = (one for one in grown if near & {n for s, n in one.nodes.items() if s not in rest.gang(one.job_uid).nodes})
    first = next(there, grown[0] if grown else None)
    return "other jobs that grow first" + (f" ({rest.jobs[first.job_uid].key} before it)" if first is not None else "")


def room_in_words(snapshot: Snapshot, job: Job, policy: Policy) -> str:
    """Return in words what the nodes lack on which the job may grow.

    If another node has room for a worker, the text says why the job may not grow there.
    """
    requests, room = worker_demand(snapshot, job), Room.of(snapshot)
    where = policy.base.grows_on
    asked, hosts = in_words(requests), _may_grow_on(snapshot, job, where)
    # A node has room for a worker, but the policy gives none, because it divides the room by rules of its own.
    if not all(_lacking(snapshot, job, host, requests) for host in hosts):
        return f"room: {policy.name} would give it one more worker ({asked}) if its nodes were larger by that much"
    text = f"room: no node that it may grow on has what one more worker asks for ({asked})"
    told = [_lacking(snapshot, job, host, requests) for host in hosts[:NODES_TOLD]]
    more = len(hosts) - len(told)
    text += "".join(f"; {one}" for one in told) + (f"; {and_more(more, ' of its nodes')}" if more else "")
    refused, constraints = barred(snapshot, job), job.worker.constraints if job.worker else ANYWHERE
    near = {host.name for host in hosts}
    away = [
        name for name in room.fitting(requests)
        if name not in near and name not in refused and accepts(room.nodes[name], constraints)
    ]  # fmt: skip
    why = _why_here(snapshot, room, job, where, policy)
    if away:
        return text + (f"; {away[0]} has the room, but {why}" if why else "")
    return text + ("; no other node has room for it either" if where is not None and not why else "")


def _lacking(snapshot: Snapshot, job: Job, host: Node, requests: Resources) -> str:
    """Return in words why no further worker of the job fits on that node; empty if a worker fits.

    ``requests``: the requests of one worker.
    """
    if host.closed:
        return f"{host.name} is {host.closed}"
    if host.name in barred(snapshot, job):
        return f"kube-scheduler refused {host.name} for it a short time ago"
    if job.worker is not None and not accepts(host, job.worker.constraints):
        return f"{host.name} does not match its workers' node selector, affinity or tolerations"
    free = snapshot.free(host.name)
    short = {name: max(0, free[name]) for name in requests if free[name] < requests[name]}
    return f"{host.name} has {lack_in_words(Resources(short))} free" if short else ""


def _why_here(snapshot: Snapshot, room: Room, job: Job, where: Where | None, policy: Policy) -> str:
    """Return in words why the job may not grow on nodes where it does not run yet; empty if it may."""
    if where is Where.TOGETHER and could_be_together(snapshot, room, job):
        return "a job that one node could hold whole grows only on nodes that it runs on (scale_out: together)"
    if where is Where.HOSTS:
        return f"{policy.name} grows a job only on nodes that it runs on"
    if where is Where.SERVERS:
        return f"{policy.name} grows a job only on the nodes of its ps"
    return ""


def _hosts(snapshot: Snapshot, job: Job) -> list[Node]:
    """Return the nodes that the job runs on, sorted by name."""
    names = sorted(set(snapshot.gang(job.uid).nodes.values()))
    return [snapshot.nodes[name] for name in names if name in snapshot.nodes]


def _may_grow_on(snapshot: Snapshot, job: Job, where: Where | None) -> list[Node]:
    servers = {node for slot, node in snapshot.gang(job.uid).nodes.items() if slot.role == PS}
    hosts = _hosts(snapshot, job)
    return [host for host in hosts if host.name in servers] if servers and where is Where.SERVERS else hosts
