"""Gives up plans whose room is gone: another scheduler has taken it, or a node's resources have become smaller.

kube-scheduler would notice only when it next tries a member, and would not call Kohort if it found no other node. So
the plan is given up as soon as the fact is known; the policy plans the gang again in the same step, or lets it wait.
Room that another scheduler keeps for a nominated pod counts as taken, except for gangs of a higher priority than that
pod's.
"""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.actions import Effect
from policy.cluster.charges import held_on
from policy.cluster.draft import Draft
from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import Job, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import NOTHING_PROMISED, taken_on
from policy.cluster.reasons import Reason
from policy.cluster.resources import NOTHING, Resources
from policy.cluster.snapshot import priority_of
from policy.transitions.gangs import any_bound, forget
from policy.transitions.recovery.release import give_up


def give_up_taken(draft: Draft, now: float) -> list[Effect]:
    """Give up plans on nodes that a fact of this step has filled beyond their resources.

    The plan of the job that arrived last is given up first. A gang that has bound members keeps its plan; only members
    that are not bound yet lose the node, and the step finds other nodes for them.
    """
    effects: list[Effect] = []
    for name in sorted(draft.filled):
        draft.settle()
        if name not in draft.now.nodes or _charged(draft, name).fits(_allocatable(draft, name)):
            continue
        for gang in _latest_first(draft, name):
            if not _is_overfull(draft, name, gang):
                continue
            if gang.state is State.PLANNED and gang.whole and not any_bound(draft, gang.job_uid):
                effects += give_up(draft, gang, now, Reason.ROOM_TAKEN, back_off=False)
            else:
                effects += _drop_open_slots(draft, name, gang)
            draft.settle()
    draft.filled.clear()
    return effects


def is_taken(draft: Draft, gang: Gang, pod: Pod, name: str) -> bool:
    """Tell whether pods have taken the planned room of the member; plans of other gangs do not count.

    The question matters for a binding that is sent alone, because events of the same batch may be newer than the plan.
    For a gang that is bound together ``give_up_taken`` answers it before the bindings are sent.
    """
    draft.settle()
    if _charged(draft, name).fits(_allocatable(draft, name)):
        return False
    taken = held_on(draft.now, [name])[name]
    taken += taken_on(draft.now.preemptions, name, priority_of(draft.now, gang.job_uid))
    wanted = NOTHING if pod.uid in gang.in_flight else pod.requests
    return not (taken + wanted).fits(_allocatable(draft, name))


def _latest_first(draft: Draft, name: str) -> list[Gang]:
    """Return the gangs that have slots planned on the node, the latest arrival first.

    Gangs that wait for room to be freed are left out.
    """
    gangs = (
        gang
        for gang in draft.now.gangs.values()
        if gang.state in ADMITTED and not gang.waits_for and name in gang.nodes.values()
    )
    return sorted(gangs, key=lambda gang: _arrival(draft, gang), reverse=True)


def _drop_open_slots(draft: Draft, name: str, gang: Gang) -> list[Effect]:
    """Remove the node from the plan of the gang's unbound members, the last slots first, until the rest has room.

    Return refusals for the binds that are held for these slots. A migrating gang keeps its plan until its deadline.
    """
    effects: list[Effect] = []
    for slot in _open_slots(draft, name, gang):
        if not _is_overfull(draft, name, gang):
            break
        gang, refused = forget(draft, gang, [slot])
        effects += refused
        draft.settle()
    return effects


def _open_slots(draft: Draft, name: str, gang: Gang) -> Iterator[Slot]:
    """Yield the gang's slots that are planned on the node and neither bound nor being bound, the last slots first.

    Nothing is yielded for a migrating gang.
    """
    members, pods = draft.now.members.get(gang.job_uid, {}), draft.now.pods
    if gang.state is State.MIGRATING:
        return
    for slot in sorted(gang.nodes, reverse=True):
        pod = pods.get(members.get(slot, ""))
        there = pod is not None and (pod.holds_room or pod.phase is Phase.SUCCEEDED or pod.uid in gang.in_flight)
        if gang.nodes[slot] == name and not there:
            yield slot


def _charged(draft: Draft, name: str) -> Resources:
    charged: Resources = draft.now.charged.get(name, NOTHING)
    return charged


def _allocatable(draft: Draft, name: str) -> Resources:
    node: Node | None = draft.now.nodes.get(name)
    return node.allocatable if node is not None else NOTHING


def _arrival(draft: Draft, gang: Gang) -> tuple[float, str]:
    job: Job | None = draft.now.jobs.get(gang.job_uid)
    return (job.arrival if job is not None else 0.0), gang.job_uid


def _is_overfull(draft: Draft, name: str, gang: Gang) -> bool:
    """Tell whether the charges that the gang must respect on the node exceed the node's allocatable resources.

    These are bound pods, plans that do not wait for room, and room nominated for pods of the same or a higher priority.
    """
    charges = draft.now.charges
    waiting = (uid for uid, gang in draft.now.gangs.items() if gang.waits_for)
    later = [taken for uid in waiting for node, taken in charges.get(uid, {}).values() if node == name]
    promised = draft.now.preemptions.get(name, NOTHING_PROMISED)
    yielded = promised.outranked(priority_of(draft.now, gang.job_uid))
    now = _charged(draft, name) - sum(later, NOTHING) - yielded
    return not now.fits(_allocatable(draft, name))
