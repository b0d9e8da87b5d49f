"""Nodes on which members fail: which failures count, which nodes are avoided for them, and when they are forgiven.

A failure of a member does not count at once. The job's members on other nodes must live on for ``watch_seconds``; if
they fail too, the job itself is the likely cause, and no node is blamed. Once members of two different jobs have failed
on a node, the node is avoided (``policy/cluster/failures.py`` says for how long).

All of this is done only with the setting ``nodes.avoid_failing``, and the replica that leads does it.
"""

from __future__ import annotations

from collections.abc import Mapping

from policy.cluster.actions import Effect, NodeFailed, NodeForgiven
from policy.cluster.draft import Draft
from policy.cluster.failures import (
    EVERYWHERE,
    SHARE_BARRED,
    Failures,
    avoided_until,
    read_failures,
    remembered,
    with_failure,
)
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.job import queued
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod

LIVES = (State.RUNNING, State.REPAIRING)  # Only in these states a member's end may be a failure of its node.


# -- The functions below note what the API shows. ----------------------------------------------------


def with_judgement(old: Node | None, node: Node) -> Node:
    """Return the node as the API shows it now, with what was decided about it; a node that was made anew has nothing
    of that.
    """
    if old is None or old.uid != node.uid or not old.shunned:
        return node
    return replace(node, shunned=old.shunned, barred=old.barred)


def learn_failures(draft: Draft, old: Node | None, node: Node, now: float) -> None:
    """Take over the failures that the node's annotation keeps, and forget all of them if the node is forgiven.

    While this replica leads, what it knows itself counts, and the annotation is read only when the node is new.
    """
    if not draft.base.rules.half_life_seconds or not (node.failures or node.forgiven or draft.now.failures):
        return
    leads = draft.now.synced and draft.now.leading and draft.base.synced and draft.base.leading
    if node.forgiven or not leads or old is None or old.uid != node.uid:
        _recall_node(draft, node, now)


def lose_failures(draft: Draft, name: str) -> None:
    """Forget the failures on a node that was deleted."""
    if name in draft.now.failures:
        del draft.edit("failures")[name]


def recall_failures(draft: Draft, now: float) -> None:
    """Read the failures from the annotations of all nodes, when this replica begins to decide."""
    if draft.base.rules.half_life_seconds:
        for node in [node for node in draft.now.nodes.values() if node.failures or node.forgiven or node.shunned]:
            _recall_node(draft, node, now)


def _recall_node(draft: Draft, node: Node, now: float) -> None:
    """Replace what is known of the node's failures by what its annotation says.

    An empty entry stays until the API shows that the annotations are gone (``policy/desirednotes.py``).
    """
    found = read_failures(node, now)
    if found or node.failures or node.forgiven or node.shunned:
        draft.edit("failures")[node.name] = found
    else:
        lose_failures(draft, node.name)


def suspect(draft: Draft, old: Pod | None, pod: Pod, now: float, *, gone: bool = False) -> None:
    """Note that a running member has failed on its node, and give its slot another node.

    old, pod: the pod before and after the change. gone: whether the pod was deleted. A member counts as failed if its
    pod fails, or if it is deleted while its node is not ready. It does not count if another scheduler has preempted it,
    if its node is cordoned, or if the job has no member on another node whose fate could be compared.
    """
    if not draft.base.rules.half_life_seconds or old is None or pod.slot is None or not old.holds_room:
        return
    gang = draft.gang(pod.job_uid)
    if not (_has_failed(draft, old, pod, gone) and _may_be_the_nodes_fault(draft, gang, pod)):
        return
    until = now + draft.base.rules.watch_seconds
    of_job = [key for key in draft.now.suspected if key[0] == pod.job_uid]
    if any(node != old.node for _, node in of_job):
        # Members on different nodes have failed, so the cause is the job, or what all of them share.
        for key in of_job:
            del draft.edit("suspected")[key]
        draft.edit("suspected")[pod.job_uid, EVERYWHERE] = until
    elif _lives_elsewhere(draft, pod.job_uid, old.node):
        draft.edit("suspected").setdefault((pod.job_uid, old.node), until)
    else:
        return
    if draft.now.jobs[pod.job_uid].replaced and gang.nodes.get(pod.slot) == old.node:
        left = {slot: node for slot, node in gang.nodes.items() if slot != pod.slot}
        draft.put_gang(replace(gang, nodes=left))


def left(draft: Draft, pod: Pod) -> bool:
    """Tell whether the pod has failed, so that its slot may have another node already."""
    return pod.phase is Phase.FAILED and draft.base.rules.half_life_seconds > 0


def _has_failed(draft: Draft, old: Pod, pod: Pod, gone: bool) -> bool:
    """Tell whether the change of the pod is the failure of a member; ``suspect`` says what counts."""
    if old.terminating or pod.preempted or (old.job_uid, old.slot) != (pod.job_uid, pod.slot):
        return False
    node = draft.now.nodes.get(old.node)
    if node is None or node.unschedulable:
        return False
    if pod.terminating or gone:
        return not node.ready
    return pod.phase is Phase.FAILED


def _may_be_the_nodes_fault(draft: Draft, gang: Gang, pod: Pod) -> bool:
    """Tell whether the gang runs and its plan has the pod's slot, so that nobody has taken the member away."""
    return _runs(draft, gang) and pod.slot is not None and gang.gives(pod.slot)


def _runs(draft: Draft, gang: Gang) -> bool:
    job = draft.now.jobs.get(gang.job_uid)
    return job is not None and queued(job) and not job.finished and gang.state in LIVES


def _lives_elsewhere(draft: Draft, job_uid: str, node: str) -> bool:
    """Tell whether a member of the job lives on another node that is ready."""
    pods, nodes = draft.now.pods, draft.now.nodes
    members = (pods[uid] for uid in draft.now.members.get(job_uid, {}).values())
    others = (pod for pod in members if pod.holds_room and not pod.terminating and pod.node != node)
    return any(pod.node in nodes and nodes[pod.node].ready for pod in others)


# -- The functions below decide. ---------------------------------------------------------------------


def judge_nodes(draft: Draft, now: float) -> list[Effect]:
    """Count the failures that are due, forget old ones, and say which nodes are avoided from now on.

    Return a record of each failure that counts and of each node that is no longer avoided.
    """
    if not draft.base.rules.half_life_seconds or not (draft.now.suspected or draft.now.failures):
        return []
    counted, known = _count(draft, now), dict(draft.now.failures)
    for name, found in known.items():
        _forget(draft, name, found, now)
    before = {name: node for name in sorted(known) if (node := draft.now.nodes.get(name)) is not None}
    _mark(draft, before, now)
    nodes, left = draft.now.nodes, draft.now.failures
    failed = (NodeFailed(uid, name, len(left[name]), nodes[name].shunned, nodes[name].barred) for uid, name in counted)
    forgiven = (
        NodeForgiven(name, by_hand=nodes[name].forgiven)
        for name, node in before.items()
        if node.shunned and not nodes[name].shunned
    )
    return [*failed, *forgiven]


def _count(draft: Draft, now: float) -> list[tuple[str, str]]:
    """Count the failures whose watch is over, and return job and node of each; the others are dropped."""
    due = sorted(key for key, until in draft.now.suspected.items() if until <= now)
    counted = []
    for job_uid, name in due:
        at = draft.edit("suspected").pop((job_uid, name)) - draft.base.rules.watch_seconds
        node = draft.now.nodes.get(name)
        if node is None or node.forgiven or not _lived_on(draft, job_uid, name):
            continue
        draft.edit("failures")[name] = with_failure(draft.now.failures.get(name, ()), job_uid, at)
        counted.append((job_uid, name))
    return counted


def _lived_on(draft: Draft, job_uid: str, node: str) -> bool:
    """Tell whether the job still runs, with a member on another node."""
    return _runs(draft, draft.gang(job_uid)) and _lives_elsewhere(draft, job_uid, node)


def _forget(draft: Draft, name: str, found: Failures, now: float) -> None:
    """Drop what is forgotten or forgiven of the node; the entry goes once the API shows no annotation any more."""
    node = draft.now.nodes.get(name)
    if node is None:
        lose_failures(draft, name)
        return
    left = () if node.forgiven else remembered(found, draft.base.rules.half_life_seconds, now)
    if left != found:
        draft.edit("failures")[name] = left
    if not (left or node.failures or node.forgiven):
        lose_failures(draft, name)


def _mark(draft: Draft, known: Mapping[str, Node], now: float) -> None:
    """Mark which of these nodes are avoided, and which of these are barred: of the usable ones, those to be avoided for
    the longest time, but at most one in ``SHARE_BARRED`` of all nodes.
    """
    nodes, half_life = draft.now.nodes, draft.base.rules.half_life_seconds
    until = {name: avoided_until(draft.now.failures.get(name, ()), half_life) for name in known}
    shunned = {name: at for name, at in until.items() if at > now}
    ranked = sorted(shunned, key=lambda name: (not _open(nodes[name]), -shunned[name], name))
    barred = set(ranked[: len(nodes) // SHARE_BARRED])
    for name in until:
        marks = (shunned.get(name, 0.0), name in barred)
        if (nodes[name].shunned, nodes[name].barred) != marks:
            draft.put_node(replace(nodes[name], shunned=marks[0], barred=marks[1]))


def _open(node: Node) -> bool:
    return node.ready and not node.unschedulable
