"""What the API shows becomes fact. An older version of an object never replaces a newer one (S6)."""

from __future__ import annotations

from dataclasses import replace

from policy.cluster import events
from policy.cluster.actions import Effect
from policy.cluster.gang import ADMITTED, State
from policy.cluster.lifecycle import Move
from policy.cluster.model import WORKER, Job, Node, Pod
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Draft
from policy.transitions.gangs import cleared, job_of, move, refuse_held


def see_node(draft: Draft, node: Node) -> None:
    """A node was added or changed."""
    old: Node | None = draft.read("nodes").get(node.name)
    if old is not None and old.uid == node.uid and old.version > node.version:
        return
    draft.edit("nodes")[node.name] = node
    if old is not None and (old.ready, old.unschedulable) != (node.ready, node.unschedulable):
        _touch_planned_on(draft, node.name)


def lose_node(draft: Draft, name: str) -> None:
    """A node was deleted."""
    draft.edit("nodes").pop(name, None)
    _touch_planned_on(draft, name)


def _touch_planned_on(draft: Draft, name: str) -> None:
    gangs = draft.read("gangs")
    draft.touched.update(uid for uid, gang in gangs.items() if name in gang.nodes.values())


def see_job(draft: Draft, job: Job) -> None:
    """A job was added or changed; a replica count that a person changed becomes the target of a running gang."""
    old = job_of(draft, job.uid)
    if old is not None and old.version > job.version:
        return
    draft.put_job(job)
    if old is not None:
        _respect_edit(draft, old, job)


def _respect_edit(draft: Draft, old: Job, job: Job) -> None:
    gang = draft.gang(job.uid)
    if gang.state not in ADMITTED or old.worker is None or job.worker is None:
        return
    wanted = min(max(job.worker.replicas, job.min_workers), job.max_workers)
    if job.worker.replicas not in (old.worker.replicas, gang.workers) and wanted != gang.workers:
        kept = {slot: node for slot, node in gang.nodes.items() if slot.role != WORKER or slot.index < wanted}
        draft.put_gang(replace(gang, workers=wanted, nodes=kept))


def lose_job(draft: Draft, uid: str) -> list[Effect]:
    """A job was deleted: its plan and its held binds go with it; its pods hold their room until they are gone."""
    gang = draft.gang(uid)
    draft.edit("jobs").pop(uid, None)
    draft.drop_gang(uid)
    draft.edit("verdicts").pop(uid, None)
    return refuse_held(gang, Reason.POD_GONE)


def see_pod(draft: Draft, pod: Pod) -> None:
    """A pod was added or changed. What we know of a binding is not undone by an older view of the pod."""
    old: Pod | None = draft.read("pods").get(pod.uid)
    if old is not None and old.version > pod.version:
        return
    if old is not None and old.node and not pod.node:
        pod = replace(pod, node=old.node, plan=old.plan)
    draft.put_pod(pod)
    if pod.job_uid and pod.node in draft.read("nodes"):
        _learn_node(draft, pod)


def _learn_node(draft: Draft, pod: Pod) -> None:
    gang = draft.gang(pod.job_uid)
    if pod.slot is None or gang.state not in ADMITTED or pod.terminating:
        return
    held = {uid: slot for uid, slot in gang.held.items() if uid != pod.uid}
    nodes = {**gang.nodes, pod.slot: pod.node}
    if nodes != gang.nodes or pod.uid in gang.in_flight or len(held) != len(gang.held):
        draft.put_gang(replace(gang, nodes=nodes, held=held, in_flight=gang.in_flight - {pod.uid}))


def lose_pod(draft: Draft, uid: str) -> list[Effect]:
    """A pod was deleted; a bind that it was held in is refused."""
    pod: Pod | None = draft.read("pods").get(uid)
    draft.drop_pod(uid)
    if pod is None or not pod.job_uid:
        return []
    gang = draft.gang(pod.job_uid)
    if uid not in gang.held and uid not in gang.in_flight:
        return []
    held = {other: slot for other, slot in gang.held.items() if other != uid}
    draft.put_gang(replace(gang, held=held, in_flight=gang.in_flight - {uid}))
    return refuse_held(replace(gang, held={uid: gang.held[uid]}), Reason.POD_GONE) if uid in gang.held else []


def lead(draft: Draft, leading: bool) -> list[Effect]:
    """A replica that stops leading drops every plan that nothing is bound under: the next leader makes its own."""
    draft.set("leading", leading)
    if leading:
        return []
    effects: list[Effect] = []
    for _, gang in sorted(draft.read("gangs").items()):
        if gang.state is State.PLANNED:
            effects += refuse_held(gang, Reason.NOT_LEADING)
            move(draft, cleared(gang), Move.GIVE_UP)
        elif gang.held:
            effects += refuse_held(gang, Reason.NOT_LEADING)
            draft.put_gang(replace(gang, held={}, window_ends=None))
    return effects


def apply_fact(draft: Draft, event: events.Event) -> list[Effect]:
    """Apply one fact of the API; other events are not for this room."""
    match event:
        case events.NodeSeen(node):
            see_node(draft, node)
        case events.NodeGone(name):
            lose_node(draft, name)
        case events.JobSeen(job):
            see_job(draft, job)
        case events.JobGone(uid):
            return lose_job(draft, uid)
        case events.PodSeen(pod):
            see_pod(draft, pod)
        case events.PodGone(uid):
            return lose_pod(draft, uid)
        case events.Synced():
            draft.set("synced", True)
            draft.touched.update(draft.read("jobs"))
        case events.Led(leading):
            return lead(draft, leading)
        case _:
            pass
    return []
