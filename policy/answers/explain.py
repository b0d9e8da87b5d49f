"""Explains to people why a job is in its state: its needs, what each node lacks, the jobs ahead, and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from policy.answers.explanation import Ahead, Explanation, HeldRoom, NodeRoom, ProvedChange, RoleNeed, Schedule, Waits
from policy.answers.foresee import foresee
from policy.answers.mends import MEND_REFUSED, MENDS
from policy.answers.outranked import outranked_in_words
from policy.answers.queue import Place, places
from policy.answers.refusals import backs_off_from_refusal
from policy.answers.standing import grounds
from policy.answers.unblock import unblock
from policy.answers.unplaced import unplaced_in_words, unplaced_of
from policy.cluster.amounts import Amounts, amounts
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import Job, Slot
from policy.cluster.preemption import preemptors
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources, largest_share
from policy.cluster.snapshot import Snapshot, missing_pods, priority_of, reason_of
from policy.cluster.trouble import is_kept_by_gates, trouble_of
from policy.cluster.words import counted, ending_in_words, lack_in_words, listed
from policy.placement.eligible import looked_at
from policy.placement.gang import ask_of, place, takes_all
from policy.placement.holders import Holders
from policy.placement.quotaroom import left_in_words, workers_to_come
from policy.placement.room import Room
from policy.systems.base import Policy

BARRED = frozenset({Reason.INVALID, Reason.UNSUPPORTED})
"""The reasons that lie in the job object itself; neither room nor other jobs have to do with them."""
NAMED = 3  # NAMED is the largest number of members or pods that a sentence names.
KEEPS_ROOM = "its pods hold room: set spec.runPolicy.cleanPodPolicy: Running, or delete the job"


def explain(snapshot: Snapshot, job_uid: str, policy: Policy, now: float) -> Explanation | None:
    """Return the explanation why the job is in its present state; None if there is no such job.

    The fields that need trial decisions, and so take long, are left empty; ``with_trials`` adds them.
    """
    job = snapshot.jobs.get(job_uid)
    if job is None:
        return None
    gang, verdict = snapshot.gang(job_uid), verdict_of(snapshot, job)
    completed = gang.state is State.COMPLETED
    waits = gang.state not in ADMITTED and not completed
    held = held_room(snapshot, None if waits else job)
    asks = waits and (verdict is None or verdict.reason not in BARRED)
    sized = asks and job.size > 0  # A job that is scaled to 0, or a pod group without pods yet, needs no room.
    nodes = _nodes(snapshot, job) if sized else ()
    return Explanation(
        waits=in_words(snapshot, verdict) if verdict else None,
        mend=_mend(verdict, held, gang) if verdict else "",
        needs=() if completed else _needs(job),
        ahead=_ahead(snapshot, job, policy, now) if asks else (),
        plan={str(slot): node for slot, node in sorted(gang.nodes.items())},
        missing_pods="" if completed else missing_pods(snapshot, job),
        checked_singly="" if completed or not snapshot.rules.commit_first else looked_at(snapshot, job_uid),
        shrunk_for="" if gang.scaling.grew else _name(snapshot, gang.scaling.on_behalf_of),
        waits_for=_pods(snapshot, gang),
        nodes=nodes,
        held=held,
        arithmetic=_arithmetic(snapshot, job, nodes) if sized else "",
        schedule=_schedule(snapshot, job_uid, policy, now),
    )


def with_trials(told: Explanation, snapshot: Snapshot, job: Job, policy: Policy, now: float) -> Explanation:
    """Return the explanation ``told`` with the fields added that need dozens of trial decisions on copies of the
    snapshot.

    These fields say what would admit the job and when it may start, or why it runs where it does. Because they take
    long, they must not be computed on the event loop.
    """
    start = foresee(snapshot, policy, now).get(job.uid) if snapshot.leading else None
    changes = unblock(snapshot, job.uid, policy, now)
    return replace(
        told,
        running=grounds(snapshot, job, policy, now),
        expected=None if start is None else start.seen_at(now),
        unblock=tuple(ProvedChange(change.kind, change.size, change.text) for change in changes),
    )


def in_words(snapshot: Snapshot, verdict: Verdict) -> Waits:
    """Return a verdict in words: the reason's code, its sentence, its figures, and the job that must come first."""
    return Waits(verdict.reason.value, verdict.reason.text, verdict.detail, _name(snapshot, verdict.behind))


def _mend(verdict: Verdict, held: tuple[HeldRoom, ...], gang: Gang) -> str:
    if verdict.reason is Reason.BACKING_OFF and backs_off_from_refusal(gang):
        return MEND_REFUSED
    if verdict.reason is Reason.FINISHED:
        return KEEPS_ROOM if held else ""
    return MENDS.get(verdict.reason, "")


def verdict_of(snapshot: Snapshot, job: Job) -> Verdict | None:
    """Return the verdict that says why the job does not run as it should.

    The result is None if the job runs as planned, or if all that it lacks is on its way, such as its bindings.
    """
    gang = snapshot.gang(job.uid)
    if not snapshot.synced:
        return Verdict(Reason.NOT_SYNCED)
    if gang.state not in ADMITTED or job.invalid:
        return reason_of(snapshot, job)
    if gang.waits_for:
        return Verdict(Reason.ROOM_BEING_FREED, _to_go(snapshot, gang))
    if missing := missing_pods(snapshot, job):
        return Verdict(Reason.WAITING_FOR_PODS, missing)
    if robbed := gang.preempted:
        return Verdict(Reason.PREEMPTED, _robbed(snapshot, gang.job_uid, robbed))
    if trouble := _trouble_with_plan(snapshot, gang):
        return Verdict(Reason.MEMBER_REFUSED, trouble)
    if missing_nodes := unplaced_of(snapshot, job):
        return Verdict(Reason.MEMBERS_UNPLACED, unplaced_in_words(snapshot, job, gang, missing_nodes))
    return _growth(snapshot, job, gang) if gang.awaited else None


def _growth(snapshot: Snapshot, job: Job, gang: Gang) -> Verdict | None:
    """Return the verdict that says why workers that the job was given do not come; None if they are not late yet.

    Either the deadline for them has been over once, or a ResourceQuota has no room for their pods.
    """
    missing, quotas = workers_to_come(snapshot, job, gang), left_in_words(snapshot, job)
    if gang.tries.retried:
        told = f"the job was given {counted(gang.workers, 'worker')}, and {gang.awaited} of them have not arrived"
        return Verdict(Reason.STALLED, "; ".join(part for part in (told, quotas) if part))
    if missing and quotas:
        given = f"the job was given {counted(gang.workers, 'worker')}, and {missing} of them have no pod"
        return Verdict(Reason.WAITING_FOR_PODS, f"{given}; {quotas}")
    return None


def _trouble_with_plan(snapshot: Snapshot, gang: Gang) -> str:
    """Return in words why kube-scheduler does not place members that have a planned node; empty if it places them.

    Refusals from before the members had their planned nodes do not count; scheduling gates do.
    """
    pods, members = snapshot.pods, snapshot.members.get(gang.job_uid, {})
    planned = ((slot, pods[members[slot]]) for slot in gang.nodes if slot in members)
    tried = {
        slot for slot, pod in planned
        if pod.failed_attempt or pod.woken == gang.plan or gang.tries.misses or is_kept_by_gates(pod)
    }  # fmt: skip
    return trouble_of(snapshot, gang.job_uid, tried) if tried else ""


def _robbed(snapshot: Snapshot, job_uid: str, robbed: Mapping[Slot, str]) -> str:
    """Return in words which members have lost their nodes to preemption, and to which pods.

    robbed: the lost node by slot. A preemptor that is bound is no longer nominated; so if no pod is nominated to these
    nodes, the foreign pods of higher priority that are bound there are named.
    """
    lost = [f"{slot} lost its room on {node}" for slot, node in sorted(robbed.items())]
    nodes, own = frozenset(robbed.values()), priority_of(snapshot, job_uid)
    there = (pod for pod in snapshot.pods.values() if pod.node in nodes and pod.holds_room and not pod.opted_in)
    whom = preemptors(snapshot.preemptions, snapshot.pods, nodes) or sorted(
        pod.key for pod in there if pod.priority > own
    )
    return listed(lost, NAMED) + (f" to {listed(whom, NAMED)}" if whom else "")


def _to_go(snapshot: Snapshot, gang: Gang) -> str:
    """Return in words how many pods must go before the gang gets their room, and which of them have a finalizer."""
    pods = [snapshot.pods[uid] for uid in gang.waits_for if uid in snapshot.pods]
    kept = [ending_in_words(pod) for pod in pods if pod.finalizers]
    return "; ".join([f"{counted(len(gang.waits_for), 'pod')} must go first", *kept[:NAMED]])


def held_room(snapshot: Snapshot, job: Job | None = None) -> tuple[HeldRoom, ...]:
    """Return the pods of finished jobs that hold room until their job is deleted; with ``job``, only the job's own."""
    jobs = [job] if job is not None else [snapshot.jobs[uid] for uid in sorted(snapshot.jobs)]
    return tuple(
        HeldRoom(one.key, pod.name, pod.node, amounts(pod.requests))
        for one in jobs
        if one.finished and one.keeps_pods
        for pod in snapshot.every_pod_of(one.uid)
        if pod.holds_room
    )


def _ahead(snapshot: Snapshot, job: Job, policy: Policy, now: float) -> tuple[Ahead, ...]:
    """Return the waiting jobs that the policy considers before ``job``, in the order of the queue.

    The job that the verdict of ``job`` names as coming first is put in front, unless it waits in the queue itself.
    """
    verdict, order = reason_of(snapshot, job), places(snapshot, policy, now)
    own = next((place for place in order if place.job.uid == job.uid), None)
    before = tuple(Ahead(place.job.key, _why(place, own)) for place in order[: own.position - 1]) if own else ()
    named = _name(snapshot, verdict.behind)
    if not named or named in {ahead.job for ahead in before}:
        return before
    return (Ahead(named, verdict.detail), *before)


def _why(place: Place, own: Place) -> str:
    if place.starving:
        return (
            "has waited for longer than the starvation limit"
            if not own.starving
            else "has waited for longer than this job, too"
        )
    if place.weight == own.weight or place.weight is None:
        return "arrived before this job"
    told = f"{place.weight:.4f}"
    same = own.weight is not None and told == f"{own.weight:.4f}"
    return "has more weight, by less than 0.0001" if same else f"has more weight ({told})"


def _needs(job: Job) -> tuple[RoleNeed, ...]:
    rigid = [RoleNeed(role.name, role.replicas, amounts(role.requests)) for role in job.rigid]
    worker = [RoleNeed(job.worker.name, job.min_workers, amounts(job.worker.requests))] if job.worker else []
    return tuple(need for need in (*rigid, *worker) if need.members)


def _nodes(snapshot: Snapshot, job: Job) -> tuple[NodeRoom, ...]:
    """Return what each node has free and lacks for the whole gang.

    The nodes that lack least come first, and those that the gang may not use come last.
    """
    ask = ask_of(snapshot, job, job.min_workers)

    @cache  # Many nodes have the same amounts free.
    def figures(free: Resources) -> tuple[Amounts, Amounts, float]:
        missing = ask.whole.shortfall(free)
        return amounts(free), amounts(missing), largest_share(missing.amounts, ask.whole.amounts)

    promised = {name: preemptors(snapshot.preemptions, snapshot.pods, [name]) for name in snapshot.preemptions}
    rows = []
    for name, node in sorted(snapshot.nodes.items()):
        refused = node.closed
        if not refused and name in ask.barred:
            refused = "not offered by kube-scheduler"
        elif not refused and not takes_all(node, ask):
            refused = "its taints or labels keep members off it"
        free, missing, share = figures(snapshot.free(name))
        row = NodeRoom(name, free, missing, refused, node.avoided, promised.get(name, ()))
        rows.append((bool(refused), share, name, row))
    return tuple(row for *_, row in sorted(rows))


def _arithmetic(snapshot: Snapshot, job: Job, nodes: Sequence[NodeRoom]) -> str:
    """Return in words how much of the gang's minimum would fit now, and what the closest node lacks for all of it.

    nodes: what each node lacks, the closest first.
    """
    ask, room = ask_of(snapshot, job, job.min_workers), Room.of(snapshot)
    if place(room, ask) is not None:
        refused = snapshot.gang(job.uid).refused
        but = refused.text if refused is not None else _gated(snapshot, job)
        return f"all members would fit, but {but}" if but else "all members would fit now"
    told = [blocker.text for blocker in Holders(snapshot, job.uid).blockers(ask)]
    told += outranked_in_words(snapshot, job.uid, ask)
    rows = [row for row in nodes if not row.refused]
    if not rows:
        return "; ".join([*told, "no node takes all members: the list of nodes says why"])
    closest = rows[0].node
    lacks = lack_in_words(ask.whole.shortfall(snapshot.free(closest))) or "nothing"
    workers = sum(ask.worker.how_many(room.free(row.node)) for row in rows if ask.worker.fits(room.free(row.node)))
    workers_asked = counted(job.min_workers, "worker")
    told.append(f"{min(workers, job.min_workers)} of {workers_asked} would fit on all nodes together")
    told.append(f"{closest} comes closest to holding the whole gang alone and lacks {lacks}")
    return "; ".join(told)


def _gated(snapshot: Snapshot, job: Job) -> str:
    """Return which members are kept from kube-scheduler by scheduling gates that are not Kohort's; empty if none is."""
    kept = {slot for slot, uid in snapshot.members.get(job.uid, {}).items() if is_kept_by_gates(snapshot.pods[uid])}
    return trouble_of(snapshot, job.uid, kept) if kept else ""


def _name(snapshot: Snapshot, job_uid: str) -> str:
    job = snapshot.jobs.get(job_uid)
    return job.key if job else ""


def _pods(snapshot: Snapshot, gang: Gang) -> tuple[str, ...]:
    pods = [snapshot.pods[uid] for uid in gang.waits_for if uid in snapshot.pods]
    return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods))


def _schedule(snapshot: Snapshot, job_uid: str, policy: Policy, now: float) -> Schedule | None:
    drift = policy.base.against_schedule(snapshot, job_uid, now)
    if drift is None:
        return None
    behind, percent = round(drift.behind, 2), 100.0 * drift.behind / drift.whole
    slots = "1 worker-slot" if abs(behind) == 1 else f"{abs(behind):g} worker-slots"
    way = f"{slots} ({abs(percent):.0f} % of its work) {'behind' if behind > 0 else 'ahead of'} its schedule"
    said = (
        f"{way if behind else 'on time'}: it still needs {drift.needed:.4g} worker-slots, and its schedule has "
        f"{drift.scheduled:.4g}"
    )
    said += f", by its report of {max(0.0, now - drift.at):.0f} s ago" + (f"; {drift.follows}" if drift.follows else "")
    return Schedule(drift.needed, drift.scheduled, behind, percent, said)
