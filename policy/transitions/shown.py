"""Reports that a decision has been carried out (bound, repaired, moved, shrunk ...), as soon as the API server shows
it.
"""

from __future__ import annotations

from policy.cluster.actions import Effect, Shown, What
from policy.cluster.draft import Draft
from policy.cluster.frozen import replace
from policy.cluster.gang import Gang, State
from policy.cluster.job import WORKER, Job
from policy.transitions.gangs import any_holds_room, bound_slots, pods_of


def report_shown(draft: Draft) -> list[Effect]:
    """Return a report of each decision that the API server shows as carried out since the last step.

    Only jobs that this step has touched are looked at.
    """
    effects: list[Effect] = []
    for uid in sorted(draft.touched()):
        job = draft.now.jobs.get(uid)
        if job is not None:
            effects += _report(draft, job)
    return effects


def _report(draft: Draft, job: Job) -> list[Effect]:
    was, gang = draft.base.gang(job.uid), draft.gang(job.uid)
    effects: list[Effect] = []
    arrived = _arrival(was, gang)
    if arrived is not None or _has_paused(draft, was, gang):
        effects.append(_shown(draft, gang, arrived or "Paused"))
    before = gang.scaling.before
    if gang.state is State.RUNNING and before is not None and _is_resized(draft, job, gang, before):
        effects += _resized(draft, gang, before)
    return effects


def _arrival(was: Gang, gang: Gang) -> What | None:
    """Return what a gang that begins to run in this step has completed: its start, a repair or a migration.

    The result is None if the gang does not begin to run in this step, or if it was found running after a restart.
    ``was``: the gang before the step.
    """
    if gang.state is not State.RUNNING:
        return None
    if was.state in (State.PLANNED, State.BINDING):
        return "Bound"
    if was.state is State.REPAIRING:
        return "Repaired"
    return "Moved" if was.state is State.MIGRATING and was.nodes == gang.nodes else None


def _has_paused(draft: Draft, was: Gang, gang: Gang) -> bool:
    """Tell whether a paused gang's last pod gave up its room in this step; ``was`` is the gang before the step."""
    if was.state is not State.PAUSED or gang.state is not State.PAUSED or any_holds_room(draft, gang.job_uid):
        return False
    return any(pod.holds_room for pod in draft.base.every_pod_of(gang.job_uid))


def _is_resized(draft: Draft, job: Job, gang: Gang, before: int) -> bool:
    """Tell whether the last resize has been carried out.

    That is so if the job object asks for the new number of workers, and the workers beyond it are gone (after a shrink)
    or all workers are bound (after a growth). ``before``: the number of workers before the resize.
    """
    if job.worker is None or job.worker.replicas != gang.workers:
        return False
    if gang.workers < before:
        pods = (pod.slot for pod in pods_of(draft, job.uid) if pod.holds_room)
        return all(slot is None or slot.role != WORKER or slot.index < gang.workers for slot in pods)
    workers = (slot for slot in bound_slots(draft, job.uid) if slot.role == WORKER)
    return sum(1 for slot in workers if slot.index < gang.workers) >= gang.workers


def _resized(draft: Draft, gang: Gang, before: int) -> list[Effect]:
    """Return the report that a resize has been carried out; none if the gang has its old number of workers again.

    ``before``: the number of workers before the resize.
    """
    shown = replace(gang, scaling=replace(gang.scaling, before=None))
    if gang.workers == before:
        draft.put_gang(shown)
        return []
    draft.put_gang(replace(shown, refused=None))
    shrunk = gang.workers < before
    report = _shown(draft, gang, "Shrunk" if shrunk else "Grown")
    return [replace(report, before=before, on_behalf_of=gang.scaling.on_behalf_of if shrunk else "")]


def _shown(draft: Draft, gang: Gang, what: What) -> Shown:
    pods = [pod for pod in pods_of(draft, gang.job_uid) if pod.holds_room and not pod.terminating]
    return Shown(gang.job_uid, what, gang.workers, len(pods), len({pod.node for pod in pods}))
