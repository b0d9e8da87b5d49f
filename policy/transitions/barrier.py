"""The barrier: binds are held until the gang's minimum has passed kube-scheduler's checks, then all are created."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster import events
from policy.cluster.actions import Bind, Effect, RefuseBind
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.lifecycle import Move
from policy.cluster.model import Pod, Slot
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Draft, Rules, demand
from policy.transitions.gangs import bound_slots, complete, give_up, job_of, move, refuse_held, rules_of

FIRST_REFUSAL_SECONDS = 1.0


def apply_bind_event(draft: Draft, event: events.Event, now: float) -> list[Effect]:
    """Apply one event of the barrier; other events are not for this room."""
    match event:
        case events.BindHeld(uid, node):
            return hold(draft, uid, node, now)
        case events.BindDropped(uid):
            drop(draft, uid)
        case events.BindDone(uid, node):
            bound(draft, uid, node)
        case events.BindRefused(uid):
            unfly(draft, uid)
        case events.NodeNotOffered(uid, node):
            return not_offered(draft, uid, node, now)
        case _:
            pass  # BindUnknown: the reservation stays in flight until the watch decides.
    return []


def hold(draft: Draft, uid: str, node: str, now: float) -> list[Effect]:
    """kube-scheduler asks to bind: refuse, let through, or hold until the gang is complete."""
    pod: Pod | None = draft.read("pods").get(uid)
    if pod is None or pod.terminating or pod.slot is None:
        return [RefuseBind(uid, Reason.POD_GONE)]
    gang = draft.gang(pod.job_uid)
    if pod.node:
        return [_bind(pod, pod.slot, gang)] if pod.node == node else [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if gang.state not in ADMITTED or pod.slot not in gang.nodes:
        return [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if gang.nodes[pod.slot] != node:
        moved = _move_member(draft, gang, pod, pod.slot, node)
        if moved is None:
            return [RefuseBind(uid, Reason.PLAN_CHANGED)]
        gang = moved
    if gang.state is not State.PLANNED:
        draft.put_gang(replace(gang, in_flight=gang.in_flight | {uid}))
        return [_bind(pod, pod.slot, gang)]
    return _at_barrier(draft, gang, pod, pod.slot, now)


def _move_member(draft: Draft, gang: Gang, pod: Pod, slot: Slot, node: str) -> Gang | None:
    """``answer: ranked``: kube-scheduler chose another node; the plan follows if there is room."""
    if not rules_of(draft).ranked:
        return None
    draft.settle()
    job = job_of(draft, gang.job_uid)
    if job is None or not demand(job, slot, pod).fits(draft.view().free(node)):
        return None
    moved = replace(gang, nodes={**gang.nodes, slot: node})
    draft.put_gang(moved)
    return moved


def _at_barrier(draft: Draft, gang: Gang, pod: Pod, slot: Slot, now: float) -> list[Effect]:
    if gang.waits_for:
        return [RefuseBind(pod.uid, Reason.ROOM_BEING_FREED)]
    rules = rules_of(draft)
    if not gang.held and _gangs_at_barrier(draft) >= rules.gangs_at_once:
        return [RefuseBind(pod.uid, Reason.BARRIER_FULL)]
    window_ends = gang.window_ends if gang.held and gang.window_ends is not None else now + rules.window_seconds
    gang = replace(gang, held={**gang.held, pod.uid: slot}, window_ends=window_ends)
    draft.put_gang(gang)
    return commit_if_complete(draft, gang, now)


def _gangs_at_barrier(draft: Draft) -> int:
    return sum(1 for gang in draft.read("gangs").values() if gang.held)


def commit_if_complete(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """Create all bindings once the minimum is held or bound."""
    job = job_of(draft, gang.job_uid)
    if job is None or not complete(job, set(gang.held.values()) | bound_slots(draft, gang.job_uid)):
        return []
    pods = draft.read("pods")
    binds: list[Effect] = [_bind(pods[uid], slot, gang) for uid, slot in sorted(gang.held.items(), key=lambda h: h[1])]
    move(
        draft, gang, Move.COMMIT, held={}, window_ends=None, in_flight=gang.in_flight | frozenset(gang.held),
        deadline=now + rules_of(draft).repair_seconds,
    )  # fmt: skip
    return binds


def _bind(pod: Pod, slot: Slot, gang: Gang) -> Bind:
    return Bind(pod.uid, pod.namespace, pod.name, pod.node or gang.nodes[slot], pod.plan or gang.plan, slot)


def drop(draft: Draft, uid: str) -> None:
    """The scheduler that checked this pod is gone: the check no longer counts."""
    gang = _gang_of(draft, uid)
    if gang is not None and uid in gang.held:
        held = {other: slot for other, slot in gang.held.items() if other != uid}
        draft.put_gang(replace(gang, held=held, window_ends=gang.window_ends if held else None))


def _gang_of(draft: Draft, uid: str) -> Gang | None:
    pod: Pod | None = draft.read("pods").get(uid)
    return draft.gang(pod.job_uid) if pod is not None and pod.job_uid else None


def bound(draft: Draft, uid: str, node: str) -> None:
    """The API server answered that the pod is bound: count it there before the watch says so."""
    pod: Pod | None = draft.read("pods").get(uid)
    if pod is not None:
        gang = draft.gang(pod.job_uid)
        draft.put_pod(replace(pod, node=node, plan=pod.plan or gang.plan, gated=False))
    unfly(draft, uid)


def unfly(draft: Draft, uid: str) -> None:
    """The outcome of a binding is known."""
    gang = _gang_of(draft, uid)
    if gang is not None and uid in gang.in_flight:
        draft.put_gang(replace(gang, in_flight=gang.in_flight - {uid}))


def not_offered(draft: Draft, uid: str, node: str, now: float) -> list[Effect]:
    """Plugins or sampling kept the planned node from us: remember it, and plan that member elsewhere."""
    pod: Pod | None = draft.read("pods").get(uid)
    if pod is None or pod.slot is None or pod.node:
        return []
    gang = draft.gang(pod.job_uid)
    if gang.nodes.get(pod.slot) != node or gang.state not in ADMITTED:
        return []
    draft.edit("not_offered")[pod.job_uid, node] = now + _memory(rules_of(draft), gang.misses)
    gang = replace(gang, misses=gang.misses + 1)
    if gang.state is State.PLANNED and not bound_slots(draft, gang.job_uid):
        return give_up(draft, gang, now, Reason.NODE_NOT_OFFERED, back_off=False)
    nodes = {slot: planned for slot, planned in gang.nodes.items() if slot != pod.slot}
    draft.put_gang(replace(gang, nodes=nodes))
    return []


def _memory(rules: Rules, misses: int) -> float:
    """Short at first: kube-scheduler's cache may only be a moment behind the room that was just freed."""
    return min(rules.refusal_memory_seconds, FIRST_REFUSAL_SECONDS * 2.0 ** min(misses, 16))


def expire(draft: Draft, now: float) -> list[Effect]:
    """Everything whose time has come: barrier windows, plan and repair deadlines, remembered refusals."""
    for key in [key for key, until in draft.read("not_offered").items() if until <= now]:
        del draft.edit("not_offered")[key]
    effects: list[Effect] = []
    for _, gang in sorted(draft.read("gangs").items()):
        if gang.window_ends is not None and gang.window_ends <= now:
            effects += _end_window(draft, gang, now)
        elif gang.deadline is not None and gang.deadline <= now:
            effects += _end_plan(draft, gang, now)
    return effects


def _end_window(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """The plan and its nodes stay through one retry: kube-scheduler's error back-off sets the members apart."""
    if gang.retried or gang.state is not State.PLANNED:
        return give_up(draft, gang, now, Reason.BARRIER_TIMEOUT)
    rules = rules_of(draft)
    deadline = now + 2 * rules.window_seconds
    draft.put_gang(replace(gang, held={}, window_ends=None, retried=True, deadline=deadline))
    return refuse_held(gang, Reason.BARRIER_TIMEOUT)


def _end_plan(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    reason = Reason.ROOM_BEING_FREED if gang.waits_for else Reason.BARRIER_TIMEOUT
    if gang.state in (State.PLANNED, State.BINDING, State.REPAIRING):
        return give_up(draft, gang, now, reason)
    # Releasing: a binding whose answer was lost this long ago was either seen by the watch or never made.
    draft.put_gang(replace(gang, deadline=None, in_flight=frozenset(), nodes={}))
    return []
