"""What the controller has to bring about: gates, wake-ups, nominations, replica counts, releases, evictions.

``desired`` is level-triggered: it depends on the snapshot alone, and returns the same orders until the API shows that
they are done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import PS, WORKER, Job, queued, releasing
from policy.cluster.kept import until_job_changes
from policy.cluster.kinds import waits
from policy.cluster.orders import Desired, PodOrder, ReplicaOrder, SuspendOrder
from policy.cluster.pod import Pod
from policy.cluster.reasons import Concern, Reason
from policy.cluster.refusal import refuse_pod, surplus_first
from policy.cluster.snapshot import Snapshot, reason_of
from policy.desirednotes import node_notes, notes
from policy.placement.eligible import sends_all

GIVES_ROOM_UP = (State.RELEASING, State.PAUSED)
NO_ORDERS = Desired(gate=False)


def desired(snapshot: Snapshot, nominate_above: int) -> Desired:
    """Return the orders for this snapshot; none while the ledger is being rebuilt or another replica leads.

    On clusters of more than ``nominate_above`` nodes, every member that has a planned node is also nominated for it.
    """
    if not (snapshot.synced and snapshot.leading):
        return NO_ORDERS
    jobs, nominating = snapshot.jobs, len(snapshot.nodes) > nominate_above
    concerned = [(jobs[uid], snapshot.gang(uid)) for uid in snapshot.index.unsettled if uid in jobs]
    placing = [
        _placing(snapshot, job.uid, nominating)
        for job, gang in concerned
        if gang.state in ADMITTED and queued(job) and not gang.waits_for
    ]
    standing = [found for job, _ in concerned if (found := _standing(snapshot, job.uid)) is not None]
    return Desired(
        gate=_crowded(snapshot),
        ungate=(*_all(found.ungate for found in placing), *_hopeless(snapshot)),
        wake=(*_all(found.wake for found in placing),),
        nominate=(*_all(found.nominate for found in placing), *_all(found.nominate for found in standing)),
        renumber=(*_all(found.renumber for found in standing),),
        scheduled=(*_all(found.scheduled for found in standing),),
        replicas=(*_all(found.replicas for found in standing), *_too_few(snapshot, concerned)),
        suspend=(*_all(found.suspend for found in standing),),
        release=(*_all(found.release for found in standing),),
        evict=(*_all(found.evict for found in standing),),
        checkpoint=(*_all(found.checkpoint for found in standing),),
        note=tuple(notes(snapshot)),
        mark=tuple(node_notes(snapshot)),
    )


_all = chain.from_iterable


@until_job_changes
def _pods_of(snapshot: Snapshot, uid: str) -> tuple[Pod, ...]:
    """Return every pod of the job, cached until the job changes, because most jobs do not change in a step."""
    return tuple(snapshot.every_pod_of(uid))


def _crowded(snapshot: Snapshot) -> bool:
    """Tell whether a job waits for room, so that new pods are to be gated.

    A job that waits for its own pods, or that could never start, is no reason to gate the pods of other jobs.
    """
    return bool(snapshot.index.freeing) or any(
        (reason := reason_of(snapshot, job).reason).concern in (Concern.ROOM, Concern.RELEASE)
        and not reason.needs_change
        for job in snapshot.waiting()
    )


def _hopeless(snapshot: Snapshot) -> Iterator[PodOrder]:
    """Yield orders to remove the gate of pods that could not start even if room became free.

    Without the gate, kube-scheduler calls filter for the pod and writes the reason into the pod's condition.
    """
    jobs = [uid for uid in snapshot.index.unsettled if not _room_would_help(snapshot, uid)]
    orphans = (snapshot.pods[uid] for uid in snapshot.index.orphans)
    for pod in (*_all(_gated(snapshot, uid) for uid in jobs), *filter(_is_gated, orphans)):
        refusal = refuse_pod(snapshot, pod)
        if refusal is not None and refusal.needs_change:
            yield _order(pod)


@until_job_changes
def _gated(snapshot: Snapshot, uid: str) -> tuple[Pod, ...]:
    """Return the pods of the job that have Kohort's scheduling gate and are not terminating."""
    return tuple(filter(_is_gated, _pods_of(snapshot, uid)))


def _is_gated(pod: Pod) -> bool:
    return pod.gated and pod.opted_in and not pod.terminating


def _room_would_help(snapshot: Snapshot, uid: str) -> bool:
    job = snapshot.jobs.get(uid)
    if job is None or snapshot.gang(uid).state in ADMITTED:
        return False
    return not reason_of(snapshot, job).reason.needs_change


@until_job_changes
def _placing(snapshot: Snapshot, uid: str, nominating: bool) -> Desired:
    """Return the orders for the members of one gang that have a planned node and are not bound yet.

    ``nominating``: whether all these members are nominated for their nodes, or only those that must be woken.
    """
    job, gang = snapshot.jobs[uid], snapshot.gang(uid)
    if surplus_first(snapshot, job, gang):
        return NO_ORDERS
    ready = [
        (pod, gang.nodes[pod.slot])
        for pod in snapshot.pods_of(job.uid)
        if pod.slot is not None and pod.slot in gang.nodes and not (pod.node or pod.ended or pod.terminating)
    ]
    asleep = {pod.uid for pod, _ in ready if _asleep(pod, gang)}
    if asleep and sends_all(snapshot, ready[0][0].uid) and not gang.held:
        # One member is woken, because its bind call binds the whole gang. kube-scheduler does not try the other
        # members before they are bound, so no such attempt can fail.
        asleep = {ready[0][0].uid} if len(asleep) == len(ready) else set()
    # kube-scheduler tries a nominated node alone at first, so a nomination would leave kube-scheduler no nodes to rank.
    with_wake = not snapshot.rules.ranked
    return Desired(
        gate=False,
        ungate=tuple(_order(pod) for pod, _ in ready if pod.gated),
        wake=tuple(_order(pod, gang.plan) for pod, _ in ready if pod.uid in asleep),
        nominate=tuple(
            _order(pod, node)
            for pod, node in ready
            if pod.nominated != node and (nominating or (with_wake and pod.uid in asleep))
        ),
    )


def _asleep(pod: Pod, gang: Gang) -> bool:
    """Tell whether kube-scheduler has refused the pod and must be made to try it again for this plan.

    A pod that is held at the barrier or whose binding is in flight needs no wake-up.
    """
    at_barrier = pod.uid in gang.held or pod.uid in gang.in_flight
    return pod.refused and not pod.gated and not at_barrier and pod.woken != gang.plan


def _order(pod: Pod, value: str = "") -> PodOrder:
    return PodOrder(pod.uid, pod.namespace, pod.name, value)


@until_job_changes
def _standing(snapshot: Snapshot, uid: str) -> Desired | None:
    """Return the orders for the gang that do not place members; None if there are none.

    They concern nominations without a planned node, the number of workers, suspension, migration, the deletion of pods,
    and what is written on pods. The orders that place members come from ``_placing``.
    """
    job, gang = snapshot.jobs[uid], snapshot.gang(uid)
    found = Desired(
        gate=False,
        nominate=tuple(_idle_nominations(snapshot, job, gang)),
        renumber=tuple(_order(pod, str(pod.slot)) for pod in _misnumbered(snapshot, job) if queued(job)),
        scheduled=tuple(_order(pod) for pod in _misreported(snapshot, job)),
        replicas=tuple(_replica_order(snapshot, job, gang.workers) if gang.state in ADMITTED and queued(job) else ()),
        suspend=tuple(_suspensions(snapshot, job, gang)),
        release=tuple(_releases(snapshot, job, gang)),
        evict=tuple(_evictions(snapshot, job, gang)),
        checkpoint=tuple(_checkpoints(snapshot, job, gang)),
    )
    return found if found != NO_ORDERS else None


def _idle_nominations(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Yield orders to remove the nominations of unbound pods for which the plan has no node.

    With the nomination, kube-scheduler would keep room for the pod.
    """
    for pod in _pods_of(snapshot, job.uid):
        if pod.opted_in and pod.nominated and not pod.node and pod.slot not in gang.nodes:
            yield _order(pod, "")


def _misreported(snapshot: Snapshot, job: Job) -> Iterator[Pod]:
    """Yield the bound pods whose condition PodScheduled must be set to True.

    Only with ``barrier.commit: first`` does Kohort bind pods that kube-scheduler may be trying at that moment.
    """
    return (pod for pod in _pods_of(snapshot, job.uid) if pod.misreported and snapshot.rules.commit_first)


def _misnumbered(snapshot: Snapshot, job: Job) -> Iterator[Pod]:
    """Yield the pods whose annotation with their slot is out of date; their controller orders deletions by it."""
    return (pod for pod in _pods_of(snapshot, job.uid) if pod.misnumbered)


def _replica_order(snapshot: Snapshot, job: Job, workers: int) -> Iterator[ReplicaOrder]:
    """Yield an order to set the job's worker replicas to ``workers``, or to the next number on the way there.

    No order is yielded if the job asks for that number already, or while its previous change is not carried out yet.
    """
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
    """Return the number of replicas to ask for next: ``workers``, or more if workers must be removed one at a time.

    The training operator (1.8.1) fails (index out of range) if an index below the highest one is missing, and pods that
    are deleted together end in any order. Workers that were never bound may all go at once.
    """
    if not job.one_by_one:
        return workers
    return max((index for index in _bound_workers(snapshot, job) if index >= workers), default=workers)


def _still_going(snapshot: Snapshot, job: Job) -> bool:
    """Tell whether a worker with an index beyond the replicas that the job object asks for still holds room."""
    asked = job.worker.replicas if job.worker else 0
    return any(index >= asked for index in _bound_workers(snapshot, job))


def _bound_workers(snapshot: Snapshot, job: Job) -> list[int]:
    pods = (pod for pod in _pods_of(snapshot, job.uid) if pod.holds_room)
    return [pod.slot.index for pod in pods if pod.slot is not None and pod.slot.role == WORKER]


def _too_few(snapshot: Snapshot, concerned: Sequence[tuple[Job, Gang]]) -> Iterator[ReplicaOrder]:
    """Yield orders for waiting jobs whose object asks for fewer workers than their minimum, so that their pods come."""
    for job, gang in concerned:
        asked = job.worker.replicas if job.worker else 0
        if asked < job.min_workers and waits(job, gang) and reason_of(snapshot, job).reason is Reason.WAITING_FOR_PODS:
            yield from _replica_order(snapshot, job, job.min_workers)


def _suspensions(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[SuspendOrder]:
    """Yield an order to suspend a gang that gives up its room or moves, and one to resume it when every pod is gone.

    The operator has to delete the pods itself: it counts a pod that anybody else deletes as failed, and also a pod that
    is still terminating when the job is resumed (training-operator 1.8.1).
    """
    if releasing(job):
        left = (pod for pod in _pods_of(snapshot, job.uid) if not (job.keeps_ended and pod.ended))
        if not any(pod.holds_room or pod.slot is not None for pod in left):
            yield _suspend_order(job, suspend=False, servers=_other_ps(job, gang))
    elif queued(job) and job.suspends and (_has_room_to_give_up(snapshot, gang) or _other_ps(job, gang)):
        yield _suspend_order(job, suspend=True)


def _has_room_to_give_up(snapshot: Snapshot, gang: Gang) -> bool:
    if gang.state is State.MIGRATING:
        return not gang.saving and next(_left_behind(snapshot, gang), None) is not None
    return gang.state in GIVES_ROOM_UP and any(pod.holds_room for pod in _pods_of(snapshot, gang.job_uid))


def _other_ps(job: Job, gang: Gang) -> int | None:
    """Return how many ps the waiting job's object must ask for before the job starts; None if it need not change."""
    waits = gang.state in (State.WAITING, State.PAUSED)
    return gang.ps_next if waits and job.ps_restarts and gang.ps_next != job.servers else None


def _suspend_order(job: Job, *, suspend: bool, servers: int | None = None) -> SuspendOrder:
    return SuspendOrder(job.uid, job.namespace, job.name, job.kind, suspend, job.version, servers)


def _releases(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Yield orders to delete bound pods: all pods of a gang that is released or paused, or else its surplus ps.

    A ps is surplus if its index is beyond the number of ps that the policy has given the job. The pods of a job that
    its user has suspended are left to its operator.
    """
    whole = _ours_to_delete(job, gang)
    if whole or (queued(job) and gang.ps is not None and gang.state in ADMITTED):
        for pod in _pods_of(snapshot, job.uid):
            spare = pod.slot is not None and pod.slot.role == PS and not gang.gives(pod.slot)
            if (whole or spare) and pod.holds_room and not pod.terminating:
                yield _order(pod)


def _ours_to_delete(job: Job, gang: Gang) -> bool:
    """Tell whether Kohort itself deletes the pods of a gang that gives up its room.

    It does so for kinds that cannot be suspended, and for a suspended job whose operator has not deleted the pods in
    time; in a suspended job the operator does not count deleted pods as failed. Pods that would not be replaced by
    new ones (``Job.replaced``) are never deleted.
    """
    if not job.replaced:
        return False
    if queued(job):
        return gang.state in GIVES_ROOM_UP and not job.suspends
    return gang.state is State.RELEASING and releasing(job) and gang.deadline is None


def _evictions(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Yield orders to evict the old members of a gang that is moved.

    There are none for kinds that can be suspended, because their operator deletes the pods.
    """
    if gang.state is State.MIGRATING and queued(job) and not (job.suspends or gang.saving):
        yield from map(_order, _left_behind(snapshot, gang))


def _checkpoints(snapshot: Snapshot, job: Job, gang: Gang) -> Iterator[PodOrder]:
    """Yield orders to ask the members of a gang that is to be moved for a checkpoint."""
    if gang.state is State.MIGRATING and gang.saving and queued(job):
        pods = (pod for pod in snapshot.pods_of(job.uid) if pod.holds_room and not pod.terminating)
        yield from (_order(pod, gang.plan) for pod in pods if pod.saves != gang.plan)


def _left_behind(snapshot: Snapshot, gang: Gang) -> Iterator[Pod]:
    """Yield the members of a migrating gang that are still bound to their old nodes and are not terminating."""
    for pod in snapshot.pods_of(gang.job_uid):
        target = gang.nodes.get(pod.slot) if pod.slot is not None else None
        if target is not None and pod.node != target and pod.holds_room and not pod.terminating:
            yield pod
