"""Finds changes after which a waiting job might be admitted, kind by kind, the smallest first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations_with_replacement

from policy.answers.change import Change, Kind, with_job
from policy.answers.operated import without
from policy.answers.worth import higher_utilities
from policy.cluster.draft import Draft
from policy.cluster.job import WORKER, Job
from policy.cluster.node import Node
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import kept_in_words, listed
from policy.placement.ask import Ask
from policy.placement.binding import needed_of
from policy.placement.gang import ask_of, fits
from policy.placement.holders import MOST_NAMED, Holders
from policy.placement.room import Room
from policy.placement.shrink import Reclaimable, plan_shrink, reclaimable_of
from policy.systems.base import Policy

MOST_NODES = 64
MOST_LOOKS = 2000
A_LITTLE_MORE = 1.001


def candidates(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Iterable[Change]]:
    """Yield, for each kind of change, the candidates of that kind that may admit the job, smallest first."""
    yield _waits(snapshot, job, policy, now)
    yield _gone(snapshot, job)
    yield chain(_lower_minima(job), _fewer_asked(job))
    yield higher_utilities(snapshot, job, policy, now)
    yield _uncordoned(snapshot, job)
    yield _forgiven(snapshot, job)
    yield _fewer_workers(snapshot, job)
    yield _ended(snapshot, job)
    yield _more_nodes(snapshot)


# -- The functions below find changes of the job itself. -------------------------------------------


def _waits(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Iterator[Change]:
    """Yield up to two waits, the shorter first: until the job's back-off ends, and until the job starves."""
    limit = policy.base.starve_limit
    moments = [snapshot.gang(job.uid).tries.not_before, *([job.arrival + limit * A_LITTLE_MORE] if limit else [])]
    for at in sorted(moments):
        if at > now:
            yield Change(Kind.WAIT, f"wait {math.ceil(at - now)} s", at - now, lambda s: s, wait=at - now)


def _lower_minima(job: Job) -> Iterator[Change]:
    """Yield changes that lower an elastic job's minimum of workers, each by one more worker.

    Under a policy that resizes no job, such changes never help.
    """
    if not job.elastic:
        return
    for least in range(job.min_workers - 1, 0, -1):
        text = f"lower kohort.dev/min-workers from {job.min_workers} to {least}"
        yield Change(Kind.MIN_WORKERS, text, job.min_workers - least, with_job(replace(job, min_workers=least)))


def _fewer_asked(job: Job) -> Iterator[Change]:
    """Yield changes that lower the number of workers that the job asks for, each by one more worker.

    Such changes help a rigid job, and any job under a policy that starts jobs with all the workers they ask for.
    """
    asked = job.worker.replicas if job.worker is not None else 0
    for fewer in range(asked - 1, 0, -1):
        roles = tuple(replace(role, replicas=fewer) if role.name == WORKER else role for role in job.roles)
        most = job.max_workers if job.elastic else fewer
        made = replace(job, roles=roles, min_workers=min(job.min_workers, fewer), max_workers=most)
        text = f"ask for {fewer} {'worker' if fewer == 1 else 'workers'} instead of {asked}"
        yield Change(Kind.REPLICAS, text, asked - fewer, with_job(made))


# -- The functions below find changes of nodes. ----------------------------------------------------


def _uncordoned(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    """Yield changes that uncordon a node: each cordoned node alone, then those that the gang needs together."""
    cordoned = [node.reopened for _, node in sorted(snapshot.nodes.items()) if node.unschedulable and node.ready]
    return _opened(snapshot, job, cordoned, Kind.UNCORDON, "uncordon {}")


def _forgiven(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    """Yield changes that forgive the failures of members on a node on which nothing is placed because of them."""
    names = sorted(name for name in snapshot.failures if name in snapshot.nodes)
    barred = [node for name in names if (node := snapshot.nodes[name]).closed and node.closed == node.avoided]
    text = "forgive {} the failures there (annotation kohort.dev/forgive: true)"
    return _opened(snapshot, job, [replace(node.reopened, forgiven=True) for node in barred], Kind.FORGIVE, text)


def _opened(snapshot: Snapshot, job: Job, nodes: Sequence[Node], kind: Kind, text: str) -> Iterator[Change]:
    """Yield changes that open each of these nodes alone, then those that the gang needs together."""
    for node in nodes:
        yield Change(kind, text.format(f"node {node.name}"), 1, partial(_with_nodes, (node,)))
    ask = ask_of(snapshot, job, job.min_workers)
    needed = needed_of(nodes, lambda some: fits(Room.of(_with_nodes(some, snapshot)), ask))
    if len(needed) > 1:
        names = ", ".join(node.name for node in needed)
        yield Change(kind, text.format(f"nodes {names}"), len(needed), partial(_with_nodes, needed))


def _more_nodes(snapshot: Snapshot) -> Iterator[Change]:
    """Yield the addition of 1, 2 and more nodes like the largest usable node, up to ``MOST_NODES``."""
    usable = [node for _, node in sorted(snapshot.nodes.items()) if node.usable]
    like = max(usable, key=lambda node: sorted(node.allocatable.amounts.items()), default=None)
    if like is None:
        return
    for count in range(1, MOST_NODES + 1):
        added = tuple(replace(like, name=f"{like.name}+{index}", uid=f"+{index}") for index in range(count))
        text = f"add {count} {'node' if count == 1 else 'nodes'} like {like.name}"
        yield Change(Kind.NODES, text, count, partial(_with_nodes, added))


def _with_nodes(nodes: Sequence[Node], snapshot: Snapshot) -> Snapshot:
    draft = Draft(snapshot)
    for node in nodes:
        draft.put_node(node)
    return draft.freeze()


# -- The functions below find changes of other pods and jobs. --------------------------------------


def _gone(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    """Yield the change that certain terminating pods are gone, if the gang would fit without them; else nothing."""
    pods = Holders(snapshot, job.uid).terminating(ask_of(snapshot, job, job.min_workers))
    if pods:
        kept = [f"{pod.key} ({in_words})" if (in_words := kept_in_words(pod)) else pod.key for pod in pods]
        verb = "is" if len(pods) == 1 else "are"
        text = f"wait until {listed(kept, MOST_NAMED)} {verb} gone"
        yield Change(Kind.GONE, text, len(pods), partial(_without_pods, [pod.uid for pod in pods]))


def _without_pods(uids: Sequence[str], snapshot: Snapshot) -> Snapshot:
    draft = Draft(snapshot)
    for uid in uids:
        draft.drop_pod(uid)
    return draft.freeze()


def _fewer_workers(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    """Yield the change that takes the fewest workers from running elastic jobs so that the gang fits.

    The jobs keep their minima; their weight does not matter.
    """
    room, ask = Room.of(snapshot), ask_of(snapshot, job, job.min_workers)
    running = sorted((other for other in snapshot.running() if other.elastic), key=lambda other: other.key)
    victims = [victim for one in running if (victim := reclaimable_of(snapshot, one.uid)).rooms]
    plan = plan_shrink(room, ask, victims)
    if plan is None:
        return
    most = sum(plan.taken.values())
    counts = _fewest(room, ask, victims, most) or dict(plan.taken)
    names = ", ".join(f"{count} from {snapshot.jobs[uid].key}" for uid, count in sorted(counts.items()))
    size = sum(counts.values())
    text = f"take {size} {'worker' if size == 1 else 'workers'}: {names}"
    yield Change(Kind.WORKERS, text, size, lambda s: _without_workers(counts, s))


def _fewest(room: Room, ask: Ask, victims: Sequence[Reclaimable], most: int) -> dict[str, int] | None:
    """Return by job uid how many workers must go so that the gang fits, as few as possible in all.

    The result is None if fewer than ``most`` workers do not suffice, or if nothing is found in ``MOST_LOOKS`` trials.
    ``victims``: the room that the workers of each job would give back.
    """
    looks = 0
    for size in range(1, most):
        for chosen in combinations_with_replacement(range(len(victims)), size):
            counts = {index: chosen.count(index) for index in set(chosen)}
            if any(count > len(victims[index].rooms) for index, count in counts.items()):
                continue
            looks += 1
            if looks > MOST_LOOKS:
                return None
            if fits(_given(room, victims, counts), ask):
                return {victims[index].job_uid: count for index, count in counts.items()}
    return None


def _given(room: Room, victims: Sequence[Reclaimable], counts: dict[int, int]) -> Room:
    trial = room.branch()
    for index, count in counts.items():
        for freed_room in victims[index].rooms[:count]:
            trial.give(freed_room.node, freed_room.requests)
    return trial


def _without_workers(counts: dict[str, int], snapshot: Snapshot) -> Snapshot:
    """Return a copy of the snapshot in which jobs have lost their last workers, those with the highest indices.

    counts: how many workers each job has lost, by uid.
    """
    draft = Draft(snapshot)
    for uid, count in counts.items():
        job, gang = snapshot.jobs[uid], snapshot.gang(uid)
        left = gang.workers - count
        roles = tuple(replace(role, replicas=left) if role.name == WORKER else role for role in job.roles)
        for pod in list(snapshot.every_pod_of(uid)):
            if pod.slot is not None and pod.slot.role == WORKER and pod.slot.index >= left and not pod.kept:
                draft.drop_pod(pod.uid)
        nodes = {slot: node for slot, node in gang.nodes.items() if slot.role != WORKER or slot.index < left}
        draft.put_job(replace(job, roles=roles))
        draft.put_gang(replace(gang, workers=left, nodes=nodes))
    return draft.freeze()


def _ended(snapshot: Snapshot, job: Job) -> Iterator[Change]:
    """Yield, for each other job that holds room, the change that the job is gone.

    Finished jobs, which must be deleted, come before running ones. In both groups jobs that request less CPU come
    first.
    """
    holders = [one for one in snapshot.jobs.values() if one.uid != job.uid and _holds(snapshot, one)]
    whole = {one.uid: sum(pod.requests["cpu"] for pod in snapshot.every_pod_of(one.uid)) for one in holders}
    for other in sorted(holders, key=lambda one: (not one.finished, whole[one.uid], one.key)):
        kind, what = (Kind.DELETE, "delete finished job") if other.finished else (Kind.END, "wait for the end of")
        yield Change(kind, f"{what} {other.key}", 1, partial(_without, other.uid))


def _holds(snapshot: Snapshot, job: Job) -> bool:
    return any(pod.holds_room for pod in snapshot.every_pod_of(job.uid))


def _without(uid: str, snapshot: Snapshot) -> Snapshot:
    return without(snapshot, uid)
