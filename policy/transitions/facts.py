"""Puts the facts of the API server into the draft.

An older version of an object never replaces a newer one (rule S6 of docs/reliability.md).
"""

from __future__ import annotations

from itertools import takewhile

from policy.cluster import events
from policy.cluster.actions import Effect, RefuseBind
from policy.cluster.constraints import Constraints
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import Job
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.training import AHEAD_SECONDS, REPORTS_KEPT, Report
from policy.transitions.deadlines.patience import until
from policy.transitions.edits import edited_bounds, respect_edit
from policy.transitions.failing import learn_failures, left, lose_failures, suspect, with_judgement
from policy.transitions.gangs import bind, let_go, move, refuse_held
from policy.transitions.migrate import leave
from policy.transitions.recovery.release import cleared
from policy.transitions.recovery.repair import lose_room
from policy.transitions.refusedwrites import take_refused
from policy.transitions.shortage import lose_quota, see_quota

# A filter call may still name a pod for REMEMBER_GONE_SECONDS after its deletion, because kube-scheduler's own view is
# older than Kohort's.
REMEMBER_GONE_SECONDS = 300.0


def apply_fact(draft: Draft, event: events.Event, now: float) -> list[Effect]:
    """Apply one fact to the draft and return the effects; ignore events that are not facts.

    Facts are about API objects, leading, the policy, progress reports, measured usage, refused writes and checkpoints.
    """
    match event:
        case events.NodeSeen(node):
            see_node(draft, node, now)
        case events.NodeGone(name):
            draft.drop_node(name)
            lose_failures(draft, name)
        case events.JobSeen(job):
            return see_job(draft, job, now)
        case events.JobGone(uid):
            return lose_job(draft, uid)
        case events.PodSeen(pod):
            return see_pod(draft, pod, now)
        case events.PodGone(uid):
            return lose_pod(draft, uid, now)
        case events.QuotaSeen(quota):
            see_quota(draft, quota)
        case events.QuotaGone(key):
            lose_quota(draft, key)
        case events.Synced():
            draft.set("synced", True)
            draft.touch_all()
        case events.Led(leading):
            return lead(draft, leading, now)
        case events.PolicyChanged(stays):
            kept = {key: value for key, value in draft.now.memory.items() if key.partition("/")[0] in stays}
            draft.set("memory", kept)
            if not kept:
                draft.set("texts", {})
        case events.Reported(uid, report):
            take_report(draft, uid, report, now)
        case events.UsageSeen(usage):
            draft.set("usage", usage)
        case events.WritesRefused(refused):
            return take_refused(draft, refused)
        case events.Saved(uid):
            leave(draft, draft.gang(uid), now)
        case _:
            pass
    return []


def take_report(draft: Draft, job_uid: str, report: Report, now: float) -> None:
    """Keep a job's progress report; of each job the first report and the last few are kept.

    A report is ignored if a newer one is known already. A report from the future is ignored, too, because every report
    before that time would then count as late.
    """
    known = draft.now.reports.get(job_uid, ())
    in_time = report.at <= now + AHEAD_SECONDS and (not known or report.at > known[-1].at)
    if in_time and job_uid in draft.now.jobs:
        draft.edit("reports")[job_uid] = (*known[:1], *known[1:][-(REPORTS_KEPT - 2) :], report)


def see_node(draft: Draft, node: Node, now: float) -> None:
    """Add or replace a node, unless a newer version of it is known."""
    old: Node | None = draft.now.nodes.get(node.name)
    if old is not None and old.uid == node.uid and old.version > node.version:
        return
    draft.put_node(with_judgement(old, node))
    learn_failures(draft, old, node, now)
    if old is not None and old.allocatable != node.allocatable:
        draft.filled.add(node.name)


def see_job(draft: Draft, job: Job, now: float) -> list[Effect]:
    """Add or replace a job, unless a newer version is known, and return a report of each number that a user has
    changed.

    Reported numbers are the replicas and the bounds of workers.
    """
    old = draft.now.jobs.get(job.uid)
    if old is not None and old.version > job.version:
        return []
    draft.put_job(_as_its_pods_go(draft, job))
    if old is None:
        _strike_forged(draft, job)
        return []
    edits = list(edited_bounds(old, job))
    if old.worker is not None and job.worker is not None:
        edits += respect_edit(draft, old, old.worker.replicas, job, job.worker.replicas, now)
    return [*edits] if draft.now.synced and draft.now.leading and not job.counted else []


def _strike_forged(draft: Draft, job: Job) -> None:
    """Take the slot from pods whose owner reference has this job's uid but another name (``_is_forged``).

    Such pods may have been seen before their job, when the name could not be checked yet.
    """
    claimants = {*draft.now.members.get(job.uid, {}).values(), *draft.now.strays.get(job.uid, ())}
    for uid in sorted(claimants):
        pod: Pod = draft.now.pods[uid]
        if _is_forged(pod, job):
            draft.put_pod(replace(pod, slot=None))


def _is_forged(pod: Pod, job: Job) -> bool:
    """Tell whether the pod's owner reference has another name than the job, although it has the job's uid.

    The pod's slot was found by the name in the owner reference, so such a pod must not have a slot.
    """
    return bool(pod.owner) and pod.owner != job.name


def lose_job(draft: Draft, uid: str) -> list[Effect]:
    """Remove a deleted job with its plan, and refuse its held binds; its pods hold their room until they are gone."""
    gang = draft.gang(uid)
    draft.drop_job(uid)
    draft.drop_gang(uid)
    if uid in draft.now.verdicts:
        del draft.edit("verdicts")[uid]
    if uid in draft.now.reports:
        del draft.edit("reports")[uid]
    for key in [key for key in draft.now.not_offered if key[0] == uid]:
        draft.drop_refusal(*key)
    return refuse_held(gang, Reason.POD_GONE)


def see_pod(draft: Draft, pod: Pod, now: float) -> list[Effect]:
    """Add or replace a pod, unless a newer version is known or the pod is known to be gone.

    A pod that is known to be bound stays bound, even if this view of it does not have the node yet.
    """
    old = draft.now.pods.get(pod.uid)
    if pod.uid in draft.now.gone or (old is not None and old.version > pod.version):
        return []
    if old is not None and old.node and not pod.node:
        pod = replace(pod, node=old.node, plan=old.plan)
    job = draft.now.jobs.get(pod.job_uid)
    if job is not None and _is_forged(pod, job):
        pod = replace(pod, slot=None)
    effects = _leave_slot(draft, old, pod) if old is not None else []
    draft.put_pod(pod, now)
    if pod.terminating or pod.ended:
        lose_room(draft, pod)
    if job is not None and pod.slot is not None and pod.places is not None:
        role = job.role(pod.slot.role)
        if role is not None and pod.places != role.constraints:
            draft.put_job(_as_its_pods_go(draft, job))
    effects += _learn_node(draft, pod, draft.gang(pod.job_uid)) if pod.job_uid and pod.node else []
    suspect(draft, old, pod, now)
    return effects


def _as_its_pods_go(draft: Draft, job: Job) -> Job:
    """Return the job with each role's placement constraints taken from the role's first pod instead of its template.

    When pods are created, webhooks and admission plugins may add constraints to those of the template: for taints of
    GPU nodes, for a RuntimeClass, or for a namespace's node selector.
    """
    pods, first = draft.now.pods, dict[str, Constraints]()
    for slot, uid in sorted(draft.now.members.get(job.uid, {}).items()):
        if (places := pods[uid].places) is not None:
            first.setdefault(slot.role, places)
    if all(first.get(role.name, role.constraints) == role.constraints for role in job.roles):
        return job
    roles = (replace(role, constraints=first.get(role.name, role.constraints)) for role in job.roles)
    return replace(job, roles=tuple(roles))


def _leave_slot(draft: Draft, old: Pod, pod: Pod) -> list[Effect]:
    """Refuse the held bind of a pod whose job or slot has changed since the bind was held."""
    gang = draft.gang(old.job_uid) if old.job_uid else None
    if gang is None or gang.held.get(pod.uid) is None or (old.job_uid, gang.held[pod.uid]) == (pod.job_uid, pod.slot):
        return []
    let_go(draft, gang, pod.uid)
    return [RefuseBind(pod.uid, Reason.PLAN_CHANGED)]


def _learn_node(draft: Draft, pod: Pod, gang: Gang) -> list[Effect]:
    """Plan the slot of a pod that the watch shows as bound on the pod's node, and answer a bind held for the pod."""
    effects: list[Effect] = []
    if pod.uid in gang.held and pod.slot is not None:
        same = gang.nodes.get(pod.slot) == pod.node
        effects.append(bind(pod, pod.slot, gang) if same else RefuseBind(pod.uid, Reason.PLAN_CHANGED))
        gang = let_go(draft, gang, pod.uid)
    if pod.uid in gang.in_flight:
        gang = land(draft, gang, pod.uid)
    stays = gang.state in ADMITTED and gang.state is not State.MIGRATING and not (pod.terminating or left(draft, pod))
    slot = pod.slot if stays and pod.node in draft.now.nodes else None
    if slot is not None and gang.gives(slot) and gang.nodes.get(slot) != pod.node:
        draft.put_gang(replace(gang, nodes={**gang.nodes, slot: pod.node}))
    return effects


def land(draft: Draft, gang: Gang, uid: str) -> Gang:
    """Remove the binding of the pod ``uid`` from those in flight, because its outcome is known; return the gang."""
    gang = replace(gang, in_flight={other: node for other, node in gang.in_flight.items() if other != uid})
    draft.put_gang(gang)
    return gang


def lose_pod(draft: Draft, uid: str, now: float) -> list[Effect]:
    """Remove a deleted pod, and refuse a bind that is held for it."""
    pod = draft.now.pods.get(uid)
    draft.drop_pod(uid, now)
    if pod is None or not pod.job_uid:
        return []
    lose_room(draft, pod)
    suspect(draft, pod, pod, now, gone=True)
    _remember_gone(draft, uid, now)
    gang = draft.gang(pod.job_uid)
    if uid in gang.in_flight:
        gang = land(draft, gang, uid)
    if gang.state is State.REPAIRING and pod.node and pod.terminating:
        # The slot's new pod can be created only now, so the time that the old pod took to stop must not count.
        gang = replace(gang, deadline=until(draft, Awaits.REPAIR, now))
        draft.put_gang(gang)
    if uid not in gang.held:
        return []
    let_go(draft, gang, uid)
    return [RefuseBind(uid, Reason.POD_GONE)]


def _remember_gone(draft: Draft, uid: str, now: float) -> None:
    """Remember the uid of a deleted pod for ``REMEMBER_GONE_SECONDS``, so that a late filter call does not add it
    again.

    Entries whose time is over are dropped; they come first, because the mapping is in the order of time.
    """
    gone = draft.edit("gone")
    for old in [*takewhile(lambda uid: gone[uid] <= now, gone)]:
        del gone[old]
    gone[uid] = now + REMEMBER_GONE_SECONDS


def lead(draft: Draft, leading: bool, now: float) -> list[Effect]:
    """Note that this replica begins to lead or stops leading, and return refusals for binds that it may not make.

    A replica that stops leading drops its plans, but keeps the bindings in flight; from then on the state of each gang
    is found from its pods. When it begins to lead, the deadlines of gangs start again, such as those of a repair or of
    a growth.
    """
    if leading == draft.now.leading:
        return []
    draft.set("leading", leading)
    if draft.now.suspected:
        draft.set("suspected", {})
    draft.set("refused_writes", {})  # The refused writes known so far were reported by the controller of another term.
    effects: list[Effect] = []
    for _, gang in sorted(draft.now.gangs.items()):
        settled = gang.state in (State.RUNNING, State.WAITING, State.COMPLETED)
        if settled and not (leading and (gang.in_flight or gang.awaited)):
            continue
        if leading:
            once, deadline = replace(gang.tries, retried=False), until(draft, _awaited_again(gang), now)
            draft.put_gang(replace(gang, tries=once, deadline=deadline))
        else:
            effects += refuse_held(gang, Reason.NOT_LEADING)
            move(draft, cleared(gang), Move.FORGET)
    return effects


def _awaited_again(gang: Gang) -> Awaits:
    """Return what this gang waits for from now on, when the replica begins to lead."""
    if gang.state is State.RUNNING:
        return Awaits.GROWTH if gang.awaited else Awaits.OUTCOMES
    return Awaits.REPAIR if gang.state is State.REPAIRING else Awaits.EARLIER_TERM
