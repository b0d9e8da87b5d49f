"""Planned nodes that kube-scheduler refuses: such a node is avoided for a while, and the member is planned elsewhere.

Kohort sees a refusal in one of two ways. Either a filter call does not offer the node; or kube-scheduler's plugins let
no node through, so that there is no filter call, and the pod's condition PodScheduled says why.
"""

from __future__ import annotations

from policy.cluster.actions import Effect, RefuseBind
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Rules
from policy.cluster.trouble import is_turned_away
from policy.transitions.gangs import any_bound, let_go
from policy.transitions.recovery.release import give_up

FIRST_REFUSAL_SECONDS = 1.0


def hear_condition(draft: Draft, uid: str, now: float) -> list[Effect]:
    """Avoid the planned node of a member if its pod's PodScheduled condition has a new refusal by kube-scheduler.

    Return the effects, such as a plan that is given up.
    """
    pod, before = draft.now.pods.get(uid), draft.base.pods.get(uid)
    if pod is None or pod.slot is None or not is_turned_away(pod):
        return []
    gang = draft.gang(pod.job_uid)
    if pod.slot not in gang.nodes or gang.waits_for or pod.uid in gang.held or not _is_news(pod, before, gang):
        return []
    return not_offered(draft, uid, gang.nodes[pod.slot], now)


def _is_news(pod: Pod, before: Pod | None, gang: Gang) -> bool:
    """Tell whether the pod's condition is a new refusal that belongs to the present plan.

    before: the pod before this step. If the pod had been refused before, kube-scheduler tries it under the present plan
    only after the controller has woken the pod for this plan.
    """
    if before is None or (before.refused, before.refusal) == (pod.refused, pod.refusal):
        return False
    return not before.refused or pod.woken == gang.plan


def not_offered(draft: Draft, uid: str, node: str, now: float) -> list[Effect]:
    """Avoid the planned node of a member for a while, because kube-scheduler did not offer it.

    If no member of the gang is bound yet, the whole plan is given up; otherwise only this member's slot loses the node,
    and the step looks for another one.
    """
    pod = draft.now.pods.get(uid)
    if pod is None or pod.slot is None or pod.node:
        return []
    gang = draft.gang(pod.job_uid)
    if gang.nodes.get(pod.slot) != node or gang.state not in ADMITTED or uid in gang.in_flight:
        return []
    draft.put_refusal(pod.job_uid, node, now + _memory(draft.base.rules, gang.tries.misses))
    gang = replace(gang, tries=replace(gang.tries, misses=gang.tries.misses + 1))
    if gang.state is State.PLANNED and not any_bound(draft, gang.job_uid):
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    effects: list[Effect] = []
    if uid in gang.held:
        effects.append(RefuseBind(uid, Reason.PLAN_CHANGED))
        gang = let_go(draft, gang, uid)
    draft.put_gang(replace(gang, nodes={slot: other for slot, other in gang.nodes.items() if slot != pod.slot}))
    return effects


def avoid_refused(draft: Draft, gang: Gang, now: float) -> Gang:
    """Avoid, after a failed plan, the planned nodes of members that kube-scheduler's plugins still refuse.

    ``hear_condition`` does not notice a refusal with the same message as before, because the pod's condition does not
    change. The gang is returned; it is the same object if no node is avoided.
    """
    pods, members = draft.now.pods, draft.now.members.get(gang.job_uid, {})
    missing = (slot for slot in gang.nodes if slot in members and members[slot] not in gang.held)
    nodes = {gang.nodes[slot] for slot in missing if is_turned_away(pods[members[slot]])}
    for node in sorted(nodes):
        draft.put_refusal(gang.job_uid, node, now + _memory(draft.base.rules, gang.tries.misses))
    if not nodes:
        return gang
    gang = replace(gang, tries=replace(gang.tries, misses=gang.tries.misses + 1))
    draft.put_gang(gang)
    return gang


def _memory(rules: Rules, misses: int) -> float:
    """Return for how many seconds a node is avoided after ``misses`` earlier refusals in a row.

    The first refusal counts only for a short time, because kube-scheduler's cache may not yet show room that was just
    freed.
    """
    return min(rules.refusal_memory_seconds, FIRST_REFUSAL_SECONDS * 2.0 ** min(misses, 16))
