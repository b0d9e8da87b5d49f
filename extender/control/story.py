"""What people are told on the job object, as Kubernetes Events: each admission, resize, migration and release, and why
a job waits.

Events are a courtesy: one that cannot be written is lost, and nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from extender.kube.jobkinds import KINDS, LONE_POD
from extender.present.views import DecisionView, JobName, QueuedJob, QueueView
from policy.answers.explain import MENDS
from policy.cluster.reasons import Reason

CONTROLLER: Final = "kohort.dev/controller"
ADMITTED: Final = "GangAdmitted"
SCALED_IN: Final = "GangScaledIn"
SCALED_OUT: Final = "GangScaledOut"
RELEASED: Final = "GangReleased"
REJECTED: Final = "JobRejected"
MIGRATED: Final = "GangMigrated"
WAITING: Final = "GangWaiting"
FIRST_SECONDS: Final = 20.0  # a job that starts sooner has hardly waited
CHANGED_SECONDS: Final = 420.0  # at least, between two that tell different reasons: no more than 9 an hour
REPEAT_SECONDS: Final = 3000.0  # the API server forgets an Event after an hour
_NORMAL: Final = "Normal"
_WARNING: Final = "Warning"


def event_of(decision: DecisionView, instance: str, host: str) -> dict[str, Any] | None:
    """The Event for a decision; None for what is not told, or whose job is gone. Its name makes a repetition fail."""
    told = _told(decision)
    job = decision.job
    if told is None or job is None:
        return None
    reason, kind = told
    name = f"{job.name[:200]}.{instance}.{decision.sequence:x}"
    return _event(job, name, decision.at, host, (decision.action, reason, kind), decision.text)


class WaitingStory:
    """Why each job waits: once it has waited for a moment, when the reason has changed for good, and once an hour."""

    def __init__(self, host: str) -> None:
        """Nobody has been told anything yet."""
        self._host = host
        self._told: dict[str, tuple[str, float]] = {}

    def tell(self, queue: QueueView, now: float) -> Iterator[dict[str, Any]]:
        """Events for the jobs that wait now; ``now``: seconds since the epoch."""
        waiting = {job.uid for job in queue.jobs}
        self._told = {uid: told for uid, told in self._told.items() if uid in waiting}
        for job in queue.jobs:
            if job.waited_seconds >= FIRST_SECONDS and self._is_news(job, now):
                self._told[job.uid] = job.waits.reason, now
                name = f"{job.name[:200]}.waits.{int(now):x}"
                yield _event(job, name, now, self._host, ("Wait", WAITING, _NORMAL), _note(job))

    def _is_news(self, job: QueuedJob, now: float) -> bool:
        if job.uid not in self._told:
            return True
        reason, at = self._told[job.uid]
        return now - at >= (REPEAT_SECONDS if reason == job.waits.reason else CHANGED_SECONDS)


def _note(job: QueuedJob) -> str:
    """The place in the queue, the reason with its figures, and what helps."""
    waits = job.waits
    mend = MENDS.get(Reason(waits.reason), "") if waits.reason in {reason.value for reason in Reason} else ""
    said = (f"number {job.position} in the queue", waits.text.removeprefix("kohort: "), waits.detail)
    return "; ".join((*(part for part in said if part), *([f"to mend it: {mend}"] if mend else [])))


def _event(job: JobName, name: str, at: float, host: str, what: tuple[str, str, str], note: str) -> dict[str, Any]:
    action, reason, kind = what
    return {
        "metadata": {"name": name, "namespace": job.namespace},
        "eventTime": datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": CONTROLLER,
        "reportingInstance": host[:128] or "unknown",
        "action": action,
        "reason": reason,
        "type": kind,
        "note": note[:1024],
        "regarding": _regarding(job),
    }


def _told(decision: DecisionView) -> tuple[str, str] | None:
    match decision.action, decision.direction:
        case "Admit", _:
            return ADMITTED, _NORMAL
        case "Resize", "in":
            return SCALED_IN, _NORMAL
        case "Resize", "out":
            return SCALED_OUT, _NORMAL
        case "Migrate", _:
            return MIGRATED, _NORMAL
        case "Released", _:
            return RELEASED, _WARNING
        case "Reject", _:
            return REJECTED, _WARNING
        case _:
            return None


def _regarding(job: JobName) -> dict[str, str]:
    kind = KINDS.get(job.kind)
    version = "v1" if job.kind == LONE_POD or kind is None else f"{kind.resource.group}/{kind.resource.version}"
    return {"apiVersion": version, "kind": job.kind, "namespace": job.namespace, "name": job.name, "uid": job.uid}
