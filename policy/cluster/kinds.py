"""The rules of the index: on which of its lists a job belongs, and when the job's deadline and its back-off end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from policy.cluster.gang import ADMITTED, Gang, State
from policy.cluster.job import WORKER, Job, queued, releasing
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod


class IndexedJob(NamedTuple):
    """All facts about one job that decide its lists; ``job`` is None if only pods of the job have been seen.

    ``nodes`` has all nodes by name.
    """

    job: Job | None
    gang: Gang
    pods: list[Pod]
    nodes: Mapping[str, Node]


def leaves(pod: Pod, job: Job | None, gang: Gang) -> bool:
    """Tell whether the pod holds room that will soon be free for other jobs.

    Such pods are terminating ones whose slot is not planned on the same node again, running workers beyond the job's
    target, and pods of a finished job whose operator deletes them. The room of a preempted pod does not count: it is
    promised to the preemptor.
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
    """Tell whether the plan still has the pod's slot on the same node, so that a successor will take the room."""
    return gang.state in ADMITTED and pod.slot is not None and gang.nodes.get(pod.slot) == pod.node


def _surplus(pod: Pod, gang: Gang) -> bool:
    return pod.slot is not None and pod.slot.role == WORKER and pod.slot.index >= gang.workers


QUEUED = (State.WAITING, State.RELEASING, State.PAUSED)
GIVING_UP = (State.RELEASING, State.PAUSED, State.MIGRATING)


def waits(job: Job, gang: Gang) -> bool:
    """Tell whether the job is in the queue: valid, not finished, not suspended by a user, and without a plan.

    A job that is being released or is paused is in the queue, too.
    """
    return gang.state in QUEUED and (queued(job) or releasing(job))


def lists_of(case: IndexedJob) -> Iterator[str]:
    """Yield the names of the lists of ``Index`` (fields such as ``waiting``) to which the job belongs."""
    job, gang = case.job, case.gang
    if job is not None and waits(job, gang):
        yield "waiting"
    if job is not None and gang.state in ADMITTED:
        yield "admitted"
        ends = _ends(job, case.pods)
        if job.elastic and gang.workers < job.max_workers and not ends:
            yield "growing"
        # Where each worker has work of its own (``keeps_ended``: a batch/v1 Job and what is made of Jobs), a worker
        # that is taken would leave its part undone, and yet the job would count as complete.
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
    """Tell whether some workers of the job have finished already, so that a new worker would come too late to help."""
    return bool(job.over) or any(pod.phase is Phase.SUCCEEDED and _is_worker(pod) for pod in pods)


def _is_worker(pod: Pod) -> bool:
    return pod.slot is not None and pod.slot.role == WORKER


def _lacks(job: Job, gang: Gang, nodes: Mapping[str, Node]) -> bool:
    """Tell whether some slot of the gang has no node in the plan, or a node that is missing, cordoned or not ready."""
    if len(gang.nodes) < job.members(gang.workers, gang.ps):
        return True
    return not all(name in nodes and nodes[name].usable for name in gang.nodes.values())


def keeps(case: IndexedJob) -> bool:
    return case.gang.state is State.COMPLETED and case.job is not None and case.job.keeps_pods


def _unsettled(case: IndexedJob) -> bool:
    """Tell whether the controller may have something to do for the job.

    A false result is certain: ``desired.py`` has no order for the job. A true result may turn out to be needless.
    """
    job, gang = case.job, case.gang
    if (
        gang.state in GIVING_UP
        or (job is not None and releasing(job))
        or any(pod.gated or (pod.nominated and not pod.node) or pod.misreported for pod in case.pods)
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
    """Return the time (seconds since the epoch) at which the gang's barrier window or its deadline ends.

    It is the earlier of both, and None if the gang has neither.
    """
    if gang.deadline is None:
        return gang.window_ends
    return gang.deadline.at if gang.window_ends is None else min(gang.window_ends, gang.deadline.at)


MOMENTS: Mapping[str, Callable[[IndexedJob], float | None]] = {
    "deadlines": lambda case: deadline(case.gang),
    "rests": lambda case: case.gang.tries.not_before or None,
}
