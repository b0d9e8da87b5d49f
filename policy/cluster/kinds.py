"""What a step looks for: the lists of the index that a job is on, and the moments that are kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.model import WORKER, Job, Node, Phase, Pod, queued, releasing


class IndexedJob(NamedTuple):
    """One job as the index looks at it; ``job`` is None where only pods name it."""

    job: Job | None
    gang: Gang
    pods: list[Pod]
    nodes: Mapping[str, Node]


def leaves(pod: Pod, job: Job | None, gang: Gang) -> bool:
    """Tell whether the pod holds room that it will give back, and that is not promised to whoever preempts it.

    These are terminating pods that do not come back, workers beyond what their job was given, and pods of finished jobs
    whose operator removes them.
    """
    if not pod.holds_room or pod.preempted:
        return False
    if pod.terminating and not _comes_back(pod, gang):
        return True
    if job is None:
        return False
    if gang.state is State.COMPLETED:
        return not job.keeps_pods
    return gang.state is State.RUNNING and _surplus(pod, gang)


def _comes_back(pod: Pod, gang: Gang) -> bool:
    """Tell whether a member's successor will take its place: the gang keeps its plan, so the room stays the gang's."""
    return gang.state in ADMITTED and pod.slot is not None and gang.nodes.get(pod.slot) == pod.node


def _surplus(pod: Pod, gang: Gang) -> bool:
    return pod.slot is not None and pod.slot.role == WORKER and pod.slot.index >= gang.workers


QUEUED = (State.WAITING, State.RELEASING, State.PAUSED)
GIVING_UP = (State.RELEASING, State.PAUSED, State.MIGRATING)


def waits(job: Job, gang: Gang) -> bool:
    """Tell whether the job is in the queue: valid, not finished, not suspended by a user, without a plan."""
    return gang.state in QUEUED and (queued(job) or releasing(job))


def lists_of(case: IndexedJob) -> Iterator[str]:
    """Yield the lists of the index on which the job is."""
    job, gang = case.job, case.gang
    if job is not None and waits(job, gang):
        yield "waiting"
    if job is not None and gang.state in ADMITTED:
        yield "admitted"
        ends = _ends(job, case.pods)
        if job.elastic and gang.workers < job.max_workers and not ends:
            yield "growing"
        if job.elastic and gang.workers > job.min_workers and not (ends and job.keeps_ended):
            yield "yielding"
        if gang.whole and queued(job) and _lacks(job, gang, case.nodes):
            yield "lacking"
        if gang.state is State.REPAIRING:
            yield "repairing"
    if gang.waits_for:
        yield "freeing"
    if gang.held:
        yield "held"
    if any(leaves(pod, job, gang) for pod in case.pods):
        yield "leaving"
    if keeps(case):
        yield "keeping"
    if _unsettled(case):
        yield "unsettled"


def _ends(job: Job, pods: list[Pod]) -> bool:
    """Tell whether workers are done already: another one would come too late.

    Where each of them has work of its own (``keeps_ended``: batch/v1 and what is made of it), one that is taken now
    would leave its part undone, and the job would count as complete.
    """
    return bool(job.over) or any(pod.phase is Phase.SUCCEEDED and _is_worker(pod) for pod in pods)


def _is_worker(pod: Pod) -> bool:
    return pod.slot is not None and pod.slot.role == WORKER


def _lacks(job: Job, gang: Gang, nodes: Mapping[str, Node]) -> bool:
    """Tell whether the plan has too few nodes, or names one to which no pod can be sent."""
    if len(gang.nodes) < job.members(gang.workers, gang.ps):
        return True
    return not all(name in nodes and nodes[name].usable for name in gang.nodes.values())


def keeps(case: IndexedJob) -> bool:
    return case.gang.state is State.COMPLETED and case.job is not None and case.job.keeps_pods


def _unsettled(case: IndexedJob) -> bool:
    """Tell whether the controller may have something to do: a wider net than the questions of desired.py."""
    job, gang = case.job, case.gang
    if (
        gang.state in GIVING_UP
        or (job is not None and releasing(job))
        or any(pod.gated or (pod.nominated and not pod.node) for pod in case.pods)
    ):
        return True
    if job is None or not (gang.state in ADMITTED or gang.state is State.WAITING):
        return False
    asked = job.worker.replicas if job.worker else 0
    if gang.state is State.WAITING:
        return asked < job.min_workers or gang.ps_next is not None
    if asked != gang.workers or gang.ps is not None:
        return True
    return any(pod.misnumbered or not (pod.node or pod.ended or pod.terminating) for pod in case.pods)


def is_orphan(pod: Pod | None) -> bool:
    return pod is not None and pod.gated and pod.opted_in and not pod.job_uid


def deadline(gang: Gang) -> float | None:
    """Return when its window or its plan ends, whichever is first; None where neither does."""
    if gang.deadline is None:
        return gang.window_ends
    return gang.deadline.at if gang.window_ends is None else min(gang.window_ends, gang.deadline.at)


MOMENTS: Mapping[str, Callable[[IndexedJob], float | None]] = {
    "deadlines": lambda case: deadline(case.gang),
    "rests": lambda case: case.gang.tries.not_before or None,
}
