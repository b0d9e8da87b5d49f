"""The answers to the verbs, as pure functions of the snapshot, the pod and the offered nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policy.cluster.gang import ADMITTED, State
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot, demand

TOP_SCORE = 10


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The answer to the filter verb: the nodes that the pod may use, or why there are none.

    ``missed``: the planned node that kube-scheduler did not offer, for which a NodeNotOffered event is due; empty if
    none.
    """

    nodes: tuple[str, ...] = ()
    reason: Reason | None = None
    missed: str = ""


def filter_pod(snapshot: Snapshot, uid: str, offered: Sequence[str]) -> FilterAnswer:
    """Return which of the offered nodes this pod may use, or the reason why it may use none.

    A member may use its planned node. Under ``rules.ranked`` it may use every node on which it fits beside all other
    plans.
    """
    pod = snapshot.pods.get(uid)
    refusal = refuse_pod(snapshot, pod)
    if refusal is not None or pod is None or pod.slot is None:
        return FilterAnswer(reason=refusal or Reason.UNKNOWN_JOB)
    gang = snapshot.gang(pod.job_uid)
    planned = pod.node or gang.nodes[pod.slot]
    if snapshot.rules.ranked and not pod.node:
        nodes = tuple(name for name in offered if name == planned or _could_move(snapshot, pod, pod.slot, name))
        return FilterAnswer(nodes) if nodes else FilterAnswer(reason=Reason.NODE_NOT_OFFERED, missed=planned)
    if planned in offered:
        return FilterAnswer((planned,))
    return FilterAnswer(reason=Reason.NODE_NOT_OFFERED, missed=planned)


def _could_move(snapshot: Snapshot, pod: Pod, slot: Slot, node: str) -> bool:
    """Tell whether the member fits on that node while all other members stay where they are planned."""
    job = snapshot.jobs[pod.job_uid]
    known = snapshot.nodes.get(node)
    return known is not None and demand(job, slot, pod).fits(snapshot.free(node))


def prioritize_pod(snapshot: Snapshot, uid: str, offered: Sequence[str]) -> dict[str, int]:
    """Return a score from 0 to 10 for each offered node, by name.

    The planned node has the score 10. The score of any other node is 9 times the share of the gang's other members that
    are planned on that node, rounded down.
    """
    pod = snapshot.pods.get(uid)
    if pod is None or pod.slot is None:
        return dict.fromkeys(offered, 0)
    gang = snapshot.gang(pod.job_uid)
    others = [node for slot, node in gang.nodes.items() if slot != pod.slot]
    planned = gang.nodes.get(pod.slot)
    return {name: _score(name, planned, others) for name in offered}


def _score(name: str, planned: str | None, others: Sequence[str]) -> int:
    if name == planned:
        return TOP_SCORE
    return (TOP_SCORE - 1) * others.count(name) // len(others) if others else 0


def preempt_pod(snapshot: Snapshot, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the nodes on which pods may be preempted for another pod, with the uids of these victims.

    victims: the pods (uids by node) that kube-scheduler wants to preempt. A node is left out if a gang would have bound
    members left, but fewer than its minimum, because these could not train. The gang's members on other nodes cannot be
    added to the victims.
    """
    return {node: list(uids) for node, uids in sorted(victims.items()) if not _breaks_a_gang(snapshot, set(uids))}


def _breaks_a_gang(snapshot: Snapshot, victims: set[str]) -> bool:
    hit = {snapshot.pods[uid].job_uid for uid in victims if uid in snapshot.pods and snapshot.pods[uid].job_uid}
    return any(_left_partial(snapshot, job_uid, victims) for job_uid in hit)


def _left_partial(snapshot: Snapshot, job_uid: str, victims: set[str]) -> bool:
    job, gang = snapshot.jobs.get(job_uid), snapshot.gang(job_uid)
    if job is None or gang.state not in (*ADMITTED, State.RELEASING):
        return False
    bound = [pod for pod in snapshot.pods_of(job_uid) if pod.holds_room and not pod.terminating]
    left = [pod.slot for pod in bound if pod.uid not in victims and pod.slot is not None]
    workers = sum(1 for slot in left if slot.role == WORKER)
    rigid = all(slot in left for slot in job.slots(0, gang.ps))
    return bool(left) and not (rigid and workers >= job.min_workers)
