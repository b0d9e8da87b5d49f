"""What the controller should make true: gates, wake-ups, nominations, replica counts, releases, evictions.

Level-triggered. A function of the snapshot alone: asking twice gives the same list until the API shows it done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.kept import until_job_changes
from policy.cluster.kinds import waits
from policy.cluster.model import PS, WORKER, Job, Pod, lives, releasing
from policy.cluster.orders import Desired, NoteOrder, PodOrder, ReplicaOrder, SuspendOrder
from policy.cluster.reasons import Reason
from policy.cluster.refusal import refuse_pod, surplus_first
from policy.cluster.snapshot import Snapshot, queued, reason_of
from policy.cluster.training import write_reports

FOR_ROOM = frozenset(
    {
        Reason.NO_ROOM,
        Reason.ROOM_HELD,
        Reason.ROOM_BEING_FREED,
        Reason.RESIZES_LIMITED,
        Reason.BEHIND,
        Reason.BACKING_OFF,
        Reason.RELEASING,
        Reason.NODE_NOT_OFFERED,
    }
)
NO_HELP = frozenset(
    {
        Reason.UNKNOWN_JOB,
        Reason.INVALID,
        Reason.NOT_A_MEMBER,
        Reason.UNSUPPORTED,
        Reason.TOO_LARGE,
        Reason.NODES_CLOSED,
        Reason.ROOM_OF_OTHERS,
        Reason.WINDOW_TOO_SHORT,
        Reason.REJECTED,
    }
)

NOTED_SECONDS = 60.0
GIVES_ROOM_UP = (State.RELEASING, State.PAUSED)
Concerned = Sequence[tuple[Job, Gang]]


def desired(snapshot: Snapshot, nominate_above: int) -> Desired:
    """The orders for this snapshot; none at all while the ledger is being rebuilt or another replica leads."""
    if not (snapshot.synced and snapshot.leading):
        return Desired(gate=False)
    concerned = _concerned(snapshot)
    nominating = len(snapshot.nodes) > nominate_above
    orders = [_orders(snapshot, job.uid, nominating) for job, gang in concerned if _is_admitted(job, gang)]
    standing = [found for job, _ in concerned if (found := _standing(snapshot, job.uid)) is not None]
    return Desired(
        gate=_crowded(snapshot),
        ungate=(*_all(member.ungate for member in orders), *_hopeless(snapshot)),
        wake=(*_all(member.wake for member in orders),),
        nominate=(*_all(member.nominate for member in orders), *_all(found.clear for found in standing)),
        renumber=(*_all(found.renumber for found in standing),),
        replicas=(*_all(found.replicas for found in standing), *_too_few(snapshot, concerned)),
        suspend=(*_all(found.suspend for found in standing),),
        release=(*_all(found.release for found in standing),),
        evict=(*_all(found.evict for found in standing),),
        checkpoint=(*_all(found.checkpoint for found in standing),),
        note=tuple(_notes(snapshot)),
    )


_all = chain.from_iterable


def _concerned(snapshot: Snapshot) -> Concerned:
    """The jobs for which there may be something to do, with their gangs, by uid."""
    jobs = snapshot.jobs
    return [(jobs[uid], snapshot.gang(uid)) for uid in snapshot.index.unsettled if uid in jobs]


@until_job_changes
def _pods_of(snapshot: Snapshot, uid: str) -> tuple[Pod, ...]:
    """Return every pod of the job. The controller asks after each step, and most jobs have not changed."""
    return tuple(snapshot.every_pod_of(uid))


def _crowded(snapshot: Snapshot) -> bool:
    """Whether somebody waits for room. Who waits for its own pods, or could never start, gates nobody else."""
    return bool(snapshot.index.freeing) or any(
        reason_of(snapshot, job).reason in FOR_ROOM for job in snapshot.waiting()
    )


def _hopeless(snapshot: Snapshot) -> Iterator[PodOrder]:
    """Gated pods that no room would help: without the gate, filter writes the reason into the pod's condition."""
    jobs = [uid for uid in snapshot.index.unsettled if not _waits_for_room(snapshot, uid)]
    orphans = (snapshot.pods[uid] for uid in snapshot.index.orphans)
    for pod in (*_all(_gated(snapshot, uid) for uid in jobs), *filter(_is_gated, orphans)):
        if refuse_pod(snapshot, pod) in NO_HELP:
            yield _order(pod)


@until_job_changes
def _gated(snapshot: Snapshot, uid: str) -> tuple[Pod, ...]:
    """Return those of the job's pods that wait behind our gate."""
    return tuple(filter(_is_gated, _pods_of(snapshot, uid)))


def _is_gated(pod: Pod) -> bool:
    return pod.gated and pod.opted_in and not pod.terminating


def _waits_for_room(snapshot: Snapshot, uid: str) -> bool:
    job = snapshot.jobs.get(uid)
    if job is None or snapshot.gang(uid).state in ADMITTED:
        return False
    return reason_of(snapshot, job).reason not in NO_HELP


@dataclass(frozen=True, slots=True)
class _GangOrders:
    ungate: tuple[PodOrder, ...]
    wake: tuple[PodOrder, ...]
    nominate: tuple[PodOrder, ...]


def _is_admitted(job: Job, gang: Gang) -> bool:
    return gang.state in ADMITTED and queued(job) and not gang.waits_for


@until_job_changes
def _orders(snapshot: Snapshot, uid: str, nominating: bool) -> _GangOrders:
    """Return the orders for the members that have a node and are not bound to it yet."""
    job, gang = snapshot.jobs[uid], snapshot.gang(uid)
    if surplus_first(snapshot, job, gang):
        return _GangOrders((), (), ())
    ready = [
        (pod, gang.nodes[pod.slot])
        for pod in snapshot.pods_of(job.uid)
        if pod.slot is not None and pod.slot in gang.nodes and not (pod.node or pod.ended or pod.terminating)
    ]
    # A nominated node is looked at first and alone, so it would leave kube-scheduler nothing to rank.
    with_wake = not snapshot.rules.ranked
    return _GangOrders(
        ungate=tuple(_order(pod) for pod, _ in ready if pod.gated),
        wake=tuple(_order(pod, gang.plan) for pod, _ in ready if _asleep(pod, gang)),
        nominate=tuple(
            _order(pod, node)
            for pod, node in ready
            if pod.nominated != node and (nominating or (with_wake and _asleep(pod, gang)))
        ),
    )


def _asleep(pod: Pod, gang: Gang) -> bool:
    """Refused before, and not woken for this plan; a pod at the barrier or in flight is awake."""
    at_barrier = pod.uid in gang.held or pod.uid in gang.in_flight
    return pod.refused and not pod.gated and not at_barrier and pod.woken != gang.plan


def _order(pod: Pod, value: str = "") -> PodOrder:
    return PodOrder(pod.uid, pod.namespace, pod.name, value)


class _Standing(NamedTuple):
    """What is to be done for a gang wherever its members are to go."""

    clear: tuple[PodOrder, ...]
    renumber: tuple[PodOrder, ...]
    replicas: tuple[ReplicaOrder, ...]
    suspend: tuple[SuspendOrder, ...]
    release: tuple[PodOrder, ...]
    evict: tuple[PodOrder, ...]
    checkpoint: tuple[PodOrder, ...]


@until_job_changes
def _standing(snapshot: Snapshot, uid: str) -> _Standing | None:
    """Return the orders, or None where there are none, as for most gangs that are being bound."""
    job, gang = snapshot.jobs[uid], snapshot.gang(uid)
    found = _Standing(
        clear=tuple(_idle_nominations(snapshot, job, gang)),
        renumber=tuple(_renumberings(snapshot, job)),
        replicas=tuple(_replicas(snapshot, job, gang)),
        suspend=tuple(_suspensions(snapshot, job, gang)),
        release=tuple(_releases(snapshot, job, gang)),
        evict=tuple(_evictions(snapshot, job, gang)),
        checkpoint=tuple(_checkpoints(snapshot, job, gang)),
    )
    return found if any(found) else None


def _idle_nominations(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """They would keep room for pods that have no place in the plan."""
    for pod in _pods_of(snapshot, job.uid):
        if pod.opted_in and pod.nominated and not pod.node and pod.slot not in gang.nodes:
            yield _order(pod, "")


def _renumberings(snapshot: Snapshot, job: Job) -> Iterator[PodOrder]:
    """Pods that have moved into the place of one that is gone: what is written on them says who goes first."""
    if queued(job):
        yield from (_order(pod, str(pod.slot)) for pod in _misnumbered(snapshot, job))


def _misnumbered(snapshot: Snapshot, job: Job) -> Iterator[Pod]:
    return (pod for pod in _pods_of(snapshot, job.uid) if pod.misnumbered)


def _replicas(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[ReplicaOrder]:
    if queued(job) and gang.state in ADMITTED:
        yield from _replica_order(snapshot, job, gang.workers)


def _replica_order(snapshot: Snapshot, job: Job, workers: int) -> Iterator[ReplicaOrder]:
    """An order, where the job asks for another number and its last change has been carried out."""
    worker = job.worker
    if not job.elastic or worker is None or worker.replicas == workers:
        return
    if not ((job.one_by_one and _still_going(snapshot, job)) or any(_misnumbered(snapshot, job))):
        yield ReplicaOrder(
            job.uid, job.namespace, job.name, job.kind, _step(snapshot, job, workers), worker.replicas, job.version,
            min_workers=None if job.min_stated else job.min_workers,
            max_workers=None if job.max_stated else job.max_workers,
        )  # fmt: skip


def _step(snapshot: Snapshot, job: Job, workers: int) -> int:
    """The count to ask for next: the target, but on the way down only one worker that runs is taken at a time.

    Over a gap among the indices, which pods leave that end in any order, the training operator stumbles (1.8.1: index
    out of range). Those that were never bound may all go at once.
    """
    if not job.one_by_one:
        return workers
    return max((index for index in _bound_workers(snapshot, job) if index >= workers), default=workers)


def _still_going(snapshot: Snapshot, job: Job) -> bool:
    """Whether a worker beyond the count that the job asks for still holds its room."""
    asked = job.worker.replicas if job.worker else 0
    return any(index >= asked for index in _bound_workers(snapshot, job))


def _bound_workers(snapshot: Snapshot, job: Job) -> list[int]:
    pods = (pod for pod in _pods_of(snapshot, job.uid) if pod.holds_room)
    return [pod.slot.index for pod in pods if pod.slot is not None and pod.slot.role == WORKER]


def _too_few(snapshot: Snapshot, concerned: Concerned) -> Iterator[ReplicaOrder]:
    """Those that ask for fewer workers than their minimum: nobody else would ever create the pods they wait for."""
    for job, gang in concerned:
        asked = job.worker.replicas if job.worker else 0
        if asked < job.min_workers and waits(job, gang) and reason_of(snapshot, job).reason is Reason.WAITING_FOR_PODS:
            yield from _replica_order(snapshot, job, job.min_workers)


def _suspensions(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[SuspendOrder]:
    """A gang gives its room up, or moves, by its operator: a pod that somebody else deletes it takes for a failure.

    It is let go on when every pod is gone: the operator counts one that still terminates as failed (1.8.1).
    """
    if releasing(job):
        if not any(_has_to_go(job, pod) for pod in _pods_of(snapshot, job.uid)):
            yield _suspend_order(job, suspend=False, servers=_other_ps(job, gang))
    elif queued(job) and job.suspends and (_has_room_to_give_up(snapshot, gang) or _other_ps(job, gang)):
        yield _suspend_order(job, suspend=True)


def _has_to_go(job: Job, pod: Pod) -> bool:
    return pod.holds_room or (pod.slot is not None and not (job.keeps_ended and pod.ended))


def _has_room_to_give_up(snapshot: Snapshot, gang: Gang) -> bool:
    if gang.state is State.MIGRATING:
        return not gang.saving and next(_left_behind(snapshot, gang), None) is not None
    return gang.state in GIVES_ROOM_UP and any(pod.holds_room for pod in _pods_of(snapshot, gang.job_uid))


def _other_ps(job: Job, gang: Gang) -> int | None:
    """The ps that the job is to ask for before it starts, where it asks for another number now."""
    waits = gang.state in (State.WAITING, State.PAUSED)
    return gang.ps_next if waits and job.ps_restarts and gang.ps_next != job.servers else None


def _suspend_order(job: Job, *, suspend: bool, servers: int | None = None) -> SuspendOrder:
    return SuspendOrder(job.uid, job.namespace, job.name, job.kind, suspend, job.version, servers)


def _releases(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Bound members of a gang that is released whole or paused, and ps beyond those that a gang was given.

    What a user has suspended is the operator's.
    """
    whole = _ours_to_delete(job, gang)
    if whole or (queued(job) and gang.ps is not None and gang.state in ADMITTED):
        pods = (pod for pod in _pods_of(snapshot, job.uid) if pod.holds_room and not pod.terminating)
        yield from (_order(pod) for pod in pods if whole or _spare_ps(gang, pod))


def _ours_to_delete(job: Job, gang: Gang) -> bool:
    """Kinds that cannot be suspended; and where the operator is down, which counts no failure in a suspended job.

    Never pods that nobody would create anew.
    """
    if not job.replaced:
        return False
    if queued(job):
        return gang.state in GIVES_ROOM_UP and not job.suspends
    return gang.state is State.RELEASING and releasing(job) and gang.deadline is None


def _spare_ps(gang: Gang, pod: Pod) -> bool:
    return pod.slot is not None and pod.slot.role == PS and not gang.gives(pod.slot)


def _evictions(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Old members of a gang that is moved, of a kind that cannot be suspended: else its operator deletes them all."""
    if gang.state is State.MIGRATING and queued(job) and not (job.suspends or gang.saving):
        yield from map(_order, _left_behind(snapshot, gang))


def _checkpoints(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Members of a gang that is to be moved: their training is asked to save."""
    if gang.state is State.MIGRATING and gang.saving and queued(job):
        pods = (pod for pod in snapshot.pods_of(job.uid) if pod.holds_room and not pod.terminating)
        yield from (_order(pod, gang.plan) for pod in pods if pod.saves != gang.plan)


def _left_behind(snapshot: Snapshot, gang: Gang) -> Iterator[Pod]:
    """Members of a gang that is moved which still sit where they were; their successors are bound on the new nodes."""
    for pod in snapshot.pods_of(gang.job_uid):
        target = gang.nodes.get(pod.slot) if pod.slot is not None else None
        if target is not None and pod.node != target and pod.holds_room and not pod.terminating:
            yield pod


def _notes(snapshot: Snapshot) -> Iterator[NoteOrder]:
    """What job objects lack: reports, once a minute's worth of them has come, and what the policy remembers."""
    for uid in sorted({*snapshot.reports, *snapshot.texts}):
        job = snapshot.jobs.get(uid)
        if job is not None and job.holds_notes and lives(job):
            reports, text = snapshot.reports.get(uid), snapshot.texts.get(uid, job.memory)
            # The object's may be from the future, of a clock that has been set back since: that is mended at once.
            due = reports and not 0 <= reports[-1].at - job.reported < NOTED_SECONDS
            note = NoteOrder(
                uid, job.namespace, job.name, job.kind, job.version,
                write_reports(reports) if reports and due else None, text if text != job.memory else None,
            )  # fmt: skip
            if (note.reports, note.memory) != (None, None):
                yield note
