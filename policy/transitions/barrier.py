"""The barrier: bind calls are held until the gang's minimum has passed kube-scheduler's checks; then all are sent.

With the setting ``barrier.commit: first`` an eligible gang does not wait: the first bind call of any member sends all
its bindings (``policy/placement/eligible.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policy.cluster import events
from policy.cluster.actions import Effect, RefuseBind
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import ADMITTED, Gang, HeldBinds, State
from policy.cluster.job import Slot, queued
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Rules, demand
from policy.placement.eligible import in_the_way
from policy.transitions.deadlines.patience import until
from policy.transitions.facts import land
from policy.transitions.gangs import bind, bound_slots, complete, let_go, move, none_made
from policy.transitions.recovery.taken import is_taken
from policy.transitions.refusals import hear_condition, not_offered
from policy.transitions.refusedwrites import refused_binding


def in_order(batch: Iterable[events.Event]) -> list[events.Event]:
    """Return the events of a batch in another order: dropped bind calls first, held bind calls last.

    A held call that is dropped later in the batch is left out. Drops come first because a gang must not be bound by
    calls that kube-scheduler has dropped in the same batch. Holds come last because outcomes in the batch belong to
    bindings of earlier steps: a hold that is applied first would take the outcome for its own. And if all bindings of a
    gang have failed, its members must pass the barrier together again; a hold that is applied before the failures are
    known would be bound alone.
    """
    drops: list[events.Event] = []
    rest: list[events.Event] = []
    holds: list[events.Event] = []
    dropped: set[str] = set()
    for event in reversed(tuple(batch)):
        match event:
            case events.BindDropped(uid):
                dropped.add(uid)
                drops.append(event)
            case events.BindHeld(uid):
                if uid not in dropped:
                    holds.append(event)
            case _:
                rest.append(event)
    return drops[::-1] + rest[::-1] + holds[::-1]


def apply_bind_event(draft: Draft, event: events.Event, now: float) -> list[Effect]:
    """Apply an event about a bind call, a binding or a pod's condition to the draft, and ignore all other events."""
    match event:
        case events.BindHeld(uid, node):
            return hold(draft, uid, node, now)
        case events.BindDropped(uid):
            drop(draft, uid)
        case events.BindDone(uid, node):
            bound(draft, uid, node, now)
        case events.BindRefused(uid, message):
            _landed(draft, uid)
            return refused_binding(draft, uid, message)
        case events.NodeNotOffered(uid, node):
            return not_offered(draft, uid, node, now)
        case events.PodSeen(pod):
            return hear_condition(draft, pod.uid, now)
        case _:
            pass  # After BindUnknown the binding stays in flight until the watch shows the pod.
    return []


def hold(draft: Draft, uid: str, node: str, now: float) -> list[Effect]:
    """Decide on a bind call of kube-scheduler: refuse it, send the binding, or hold it until the gang is complete."""
    pod = draft.now.pods.get(uid)
    if not draft.now.synced:
        return [RefuseBind(uid, Reason.NOT_SYNCED)]
    if pod is None or pod.terminating or pod.slot is None:
        return [RefuseBind(uid, Reason.POD_GONE)]
    gang = draft.gang(pod.job_uid)
    if pod.node:
        return [bind(pod, pod.slot, gang)] if pod.node == node else [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if not draft.now.leading:
        return [RefuseBind(uid, Reason.NOT_LEADING)]
    if gang.state not in ADMITTED or pod.slot not in gang.nodes or not _has_slot(draft, pod) or _is_barred(draft, gang):
        return [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if not _is_usable(draft, node):
        return [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if gang.waits_for:
        return [RefuseBind(uid, Reason.ROOM_BEING_FREED)]
    if none_made(draft, gang):
        return [RefuseBind(uid, Reason.PLAN_CHANGED)]
    if gang.nodes[pod.slot] != node:
        moved = _move_member(draft, gang, pod, pod.slot, node)
        if moved is None:
            return [RefuseBind(uid, Reason.PLAN_CHANGED)]
        gang = moved
    elif _follows_too_soon(draft, gang, pod, node):
        return [RefuseBind(uid, Reason.ROOM_BEING_FREED)]
    if gang.state is State.PLANNED and gang.whole:
        return _at_barrier(draft, gang, pod, pod.slot, now)
    return _straight_through(draft, gang, pod, pod.slot)


def _is_barred(draft: Draft, gang: Gang) -> bool:
    """Tell whether the gang's job must not run now, so that no member may be bound.

    This must be asked at each bind, because an event of the same batch may have made the job malformed. A malformed job
    has no roles, so the minimum of its gang would seem to be complete.
    """
    job = draft.now.jobs.get(gang.job_uid)
    return job is None or not queued(job)


def _has_slot(draft: Draft, pod: Pod) -> bool:
    """Tell whether the pod is the member in its slot; a replaced pod must not be bound, because it is in no plan."""
    return pod.slot is not None and draft.now.members.get(pod.job_uid, {}).get(pod.slot) == pod.uid


def _follows_too_soon(draft: Draft, gang: Gang, pod: Pod, node: str) -> bool:
    """Tell whether the pod's predecessor in its slot still holds room on the node, and the node has no room for both.

    kube-scheduler usually sees this itself. It does not if the predecessor is missing in its cache, because the answer
    to the predecessor's bind call was lost.
    """
    strays = (draft.now.pods.get(uid) for uid in draft.now.strays.get(pod.job_uid, ()))
    if pod.uid in gang.in_flight or not any(
        old is not None and old.slot == pod.slot and old.holds_room and old.node == node for old in strays
    ):
        return False
    draft.settle()
    return not pod.requests.fits(draft.view().free(node))


def _move_member(draft: Draft, gang: Gang, pod: Pod, slot: Slot, node: str) -> Gang | None:
    """Plan the slot on the node that kube-scheduler has chosen instead of the planned one, and return the gang.

    The result is None if the plan cannot be changed: without the setting ``answer: ranked``, while the pod's binding is
    in flight, or if the node has no room.
    """
    job = draft.now.jobs.get(gang.job_uid)
    if not draft.base.rules.ranked or job is None or pod.uid in gang.in_flight or node not in draft.now.nodes:
        return None
    draft.settle()
    if not demand(job, slot, pod).fits(draft.view().free(node)):
        return None
    moved = replace(gang, nodes={**gang.nodes, slot: node})
    draft.put_gang(moved)
    return moved


def _straight_through(draft: Draft, gang: Gang, pod: Pod, slot: Slot) -> list[Effect]:
    """Return the binding of one member, which does not wait at the barrier, or a refusal if its room is taken.

    Such members belong to a gang whose minimum is bound or being bound already, or whose members need not be bound
    together.
    """
    if is_taken(draft, gang, pod, gang.nodes[slot]):
        draft.filled.add(gang.nodes[slot])
        return [RefuseBind(pod.uid, Reason.ROOM_TAKEN)]
    in_flight = {**gang.in_flight, pod.uid: gang.nodes[slot]}
    if gang.state is State.PLANNED:
        move(draft, gang, Move.COMMIT, in_flight=in_flight)
    else:
        draft.put_gang(replace(gang, in_flight=in_flight))
    return [bind(pod, slot, gang)]


def _at_barrier(draft: Draft, gang: Gang, pod: Pod, slot: Slot, now: float) -> list[Effect]:
    rules = draft.base.rules
    if not gang.held and len(draft.index.held) >= rules.gangs_at_once:
        return [RefuseBind(pod.uid, Reason.BARRIER_FULL)]
    draft.put_gang(_arrived(gang, pod, slot, now, rules))
    return commit_if_complete(draft, draft.gang(gang.job_uid), now)


def _arrived(gang: Gang, pod: Pod, slot: Slot, now: float, rules: Rules) -> Gang:
    """Return the gang with the bind of this pod held at the barrier.

    The barrier's window starts again with each bind, because in a long queue of kube-scheduler a gang's pods may come
    far apart. The window ends at the latest when the oldest bind has been held for ``hold_seconds``.
    """
    if pod.uid in gang.held:
        return gang
    hold_ends = gang.barrier.hold_ends if gang.barrier is not None else now + rules.hold_seconds
    window_ends = min(hold_ends, now + rules.window_seconds)
    return replace(gang, barrier=HeldBinds({**gang.held, pod.uid: slot}, window_ends, hold_ends))


def commit_if_complete(draft: Draft, gang: Gang, now: float) -> list[Effect]:
    """Return the gang's bindings if it may be bound now; empty if it must wait.

    Under ``barrier.commit: first`` all bindings of an eligible gang are sent at its first held bind. Otherwise the held
    binds are sent once the whole minimum is held or bound, unless a node of the plan has changed in this step.
    """
    job = draft.now.jobs.get(gang.job_uid)
    if job is None or not gang.held:
        return []
    if draft.base.rules.commit_first and not _obstacle(draft, gang):
        return _send(draft, gang, _unbound(draft, gang), Move.COMMIT, deadline=until(draft, Awaits.BINDINGS, now))
    if _is_shaken(draft, gang):
        return []
    if not complete(job, _given(gang) | bound_slots(draft, gang.job_uid), job.min_workers, gang.ps):
        return []
    return send_held(draft, gang, Move.COMMIT, deadline=until(draft, Awaits.BINDINGS, now))


def _obstacle(draft: Draft, gang: Gang) -> str:
    """Return in words why the gang must not be bound by its first bind call; empty if it may.

    ``draft.filled`` (nodes that facts of this step have filled) is not used here, because Kohort's own bindings fill
    nodes too, although their plans had charged the room before.
    """
    draft.settle()
    return in_the_way(draft.view(), gang)


def _unbound(draft: Draft, gang: Gang) -> dict[str, Slot]:
    """Return the slots of all planned members that are not bound, by pod uid."""
    pods, members = draft.now.pods, draft.now.members.get(gang.job_uid, {})
    planned = {members[slot]: slot for slot in gang.nodes if slot in members}
    return {uid: slot for uid, slot in planned.items() if not (pods[uid].node or pods[uid].ended)}


def _given(gang: Gang) -> set[Slot]:
    """Return the slots of held binds for which the plan has a node.

    The plan has no node for a worker beyond the target, if the target was lowered after the worker's bind was held.
    """
    return {slot for slot in gang.held.values() if slot in gang.nodes}


def _is_shaken(draft: Draft, gang: Gang) -> bool:
    """Tell whether a node of a held member is no longer usable, or may have less room because of a fact of this step.

    The step checks such a plan later (``give_up_taken``), so its held binds must not be sent yet.
    """
    nodes = {gang.nodes[slot] for slot in _given(gang)}
    return not nodes.isdisjoint(draft.filled) or not all(_is_usable(draft, name) for name in nodes)


def _is_usable(draft: Draft, name: str) -> bool:
    node: Node | None = draft.now.nodes.get(name)
    return node is not None and node.usable


def send_held(draft: Draft, gang: Gang, how: Move, **changes: object) -> list[Effect]:
    """Return the bindings of all held binds, in the order of slots, and refusals for held members without a node.

    The gang then has no held binds. It makes the move ``how``, with ``changes`` to its fields.
    """
    held = {uid: slot for uid, slot in gang.held.items() if slot in gang.nodes}
    return _send(draft, gang, held, how, **changes)


def _send(draft: Draft, gang: Gang, slots: Mapping[str, Slot], how: Move, **changes: object) -> list[Effect]:
    """Return the bindings of these members, in the order of slots, and refusals for all other held binds.

    slots: the members' slots by pod uid. The gang makes the move ``how``, with ``changes`` to its fields.
    """
    pods = draft.now.pods
    sent = sorted(slots.items(), key=lambda item: item[1])
    in_flight = {**gang.in_flight, **{uid: gang.nodes[slot] for uid, slot in sent}}
    move(draft, gang, how, barrier=None, in_flight=in_flight, **changes)
    made: list[Effect] = [bind(pods[uid], slot, gang) for uid, slot in sent]
    return made + [RefuseBind(uid, Reason.PLAN_CHANGED) for uid in sorted(gang.held.keys() - slots.keys())]


def drop(draft: Draft, uid: str) -> None:
    """Remove the pod's held bind from the barrier, because kube-scheduler has given up the call."""
    gang = _gang_of(draft, uid)
    if gang is not None and uid in gang.held:
        let_go(draft, gang, uid)


def _gang_of(draft: Draft, uid: str) -> Gang | None:
    pod = draft.now.pods.get(uid)
    return draft.gang(pod.job_uid) if pod is not None and pod.job_uid else None


def bound(draft: Draft, uid: str, node: str, now: float) -> None:
    """Put the node on a pod whose binding the API server has confirmed, before the watch shows the bound pod.

    The deadline for the gang's other bindings starts again, because all bindings of a large gang together may take
    longer than one deadline.
    """
    pod = draft.now.pods.get(uid)
    if pod is not None and not pod.node:
        gang = draft.gang(pod.job_uid)
        draft.put_pod(replace(pod, node=node, plan=pod.plan or gang.plan, gated=False))
        if gang.state is State.BINDING and gang.deadline is not None:
            draft.put_gang(replace(gang, deadline=until(draft, Awaits.BINDINGS, now)))
    _landed(draft, uid)


def _landed(draft: Draft, uid: str) -> None:
    gang = _gang_of(draft, uid)
    if gang is not None and uid in gang.in_flight:
        land(draft, gang, uid)
