"""Composes Kubernetes Events on job objects for people: what was decided about a job, and why it waits.

Events are optional: an Event that cannot be written is lost. Kohort sets no condition on a job, because no operator of
a supported kind reads a condition that a scheduler writes, and each operator overwrites the status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from extender.control import eventreasons as reasons
from extender.control.eventreasons import EventReason
from extender.control.ratelimit import EventQuota
from extender.kube.jobkinds import KINDS, LONE_POD
from extender.present.views.base import JobName
from extender.present.views.decisions import DecisionView
from extender.present.views.jobs import QueuedJob, QueueView
from policy.answers.explanation import ProvedChange
from policy.answers.mends import MENDS
from policy.cluster.reasons import Reason, without_advice

CONTROLLER: Final = "kohort.dev/controller"
# A job gets its first Event after waiting for FIRST_SECONDS, because many jobs start sooner.
FIRST_SECONDS: Final = 20.0
# If the reason of a waiting job changes, its next Event comes at least so many seconds after the last one.
CHANGED_SECONDS: Final = 600.0
# If the reason stays the same, the Event is written again after so long, because the API server deletes it after an
# hour.
REPEAT_SECONDS: Final = 3000.0
NAMED_CHANGES: Final = 2


class DecisionEvents:
    """Composes the Events about decisions, such as a plan, and about their results, such as a gang that is bound.

    If several writes for a job are refused in one step, the job gets one Event for them.
    """

    def __init__(self, instance: str, host: str, quota: EventQuota) -> None:
        """Take the parts that all Events share.

        ``instance``: identifies the extender's process. An Event is named after it and the decision's sequence number,
        so that the API server refuses an Event that is written again. ``host``: the Event's reporting instance.
        """
        self._instance = instance
        self._host = host
        self._quota = quota
        self._refused: tuple[int, str] = (0, "")  # _refused holds the step and the job of the last refused write

    def events_of(self, decisions: Sequence[DecisionView]) -> Iterator[dict[str, Any]]:
        """Yield the Events for these decisions, oldest first; a decision about a deleted job gets none."""
        for decision in decisions:
            job = decision.job
            if job is None:
                continue
            word = _word(decision)
            if word is not None and not self._is_repeated(word, decision, job) and self._may(word, job, decision.at):
                yield self._event(decision, job, word, decision.text)

    def _is_repeated(self, word: EventReason, decision: DecisionView, job: JobName) -> bool:
        """Tell whether the decision is a further refused write for the same job in the same step.

        Writes for a gang's members are refused for the same reason, so one Event is enough.
        """
        if word is not reasons.WRITE_REFUSED:
            return False
        this = decision.generation, job.uid
        repeated, self._refused = self._refused == this, this
        return repeated

    def _may(self, word: EventReason, job: JobName, at: float) -> bool:
        """Tell whether the job's quota of Events allows an Event with this reason, and count the Event.

        The quota limits only the reasons that a waiting job may get repeatedly, such as a plan made and given up.
        """
        return word not in reasons.OF_WAITING or self._quota.take(job.uid, at)

    def _event(self, decision: DecisionView, job: JobName, word: EventReason, note: str) -> dict[str, Any]:
        name = f"{job.name[:200]}.{self._instance}.{decision.sequence:x}"
        return _event(job, name, decision.at, self._host, decision.action, word, note)


def _word(decision: DecisionView) -> EventReason | None:
    match decision.action, decision.direction:
        case "Resize", _ if decision.workers == 0 and not decision.nodes:
            return reasons.PAUSING
        case "Resize", "in":
            return reasons.SHRINKING
        case "Resize", "out":
            return reasons.GROWING
        case "Resize", _:
            return reasons.REPAIRING
        case action, _:
            return reasons.OF_ACTIONS.get(action)


class WaitingEvents:
    """Composes Events that say why a job waits: after the first seconds, when the reason has changed, and once an
    hour.
    """

    def __init__(self, host: str, quota: EventQuota) -> None:
        self._host = host
        self._quota = quota
        self._written: dict[str, tuple[str, float]] = {}
        self._starving: set[str] = set()
        self._turn = 0
        self._in_turn: Counter[str] = Counter()

    def news(self, queue: QueueView, now: float) -> list[QueuedJob]:
        """Return the waiting jobs that need an Event now, and count these Events. ``now``: seconds since the epoch."""
        waiting = {job.uid for job in queue.jobs}
        self._written = {uid: written for uid, written in self._written.items() if uid in waiting}
        self._starving &= waiting
        late = (job for job in queue.jobs if job.waited_seconds >= FIRST_SECONDS)
        found = [job for job in late if self._is_news(job, now) and self._quota.take(job.uid, now)]
        self._written |= {job.uid: (job.waits.reason, now) for job in found}
        return found

    def queued(self, job: QueuedJob, changes: Sequence[ProvedChange], now: float) -> dict[str, Any]:
        """Return the Event that says why a job waits.

        ``changes``: changes that would admit the job now, empty if none was computed. ``now``: seconds since the epoch.
        """
        turn = int(now // CHANGED_SECONDS)
        if turn != self._turn:
            self._turn, self._in_turn = turn, Counter()
        name = _once(job, f"waits.{turn:x}.{self._in_turn[job.uid]}")
        self._in_turn[job.uid] += 1
        return _event(job, name, now, self._host, "Wait", reasons.QUEUED, _note(job, changes))

    def starving(self, queue: QueueView, now: float) -> Iterator[dict[str, Any]]:
        """Yield an Event for each waiting job that has begun to starve since the last call of this method.

        ``now``: seconds since the epoch.
        """
        for job in queue.jobs:
            if job.starving and job.uid not in self._starving:
                self._starving.add(job.uid)
                if not self._quota.take(job.uid, now):
                    continue
                name = _once(job, "starves")
                rank = "now comes first in the queue, whatever its weight"
                note = f"has waited for {job.waited_seconds:.0f} s and {rank}; {job.waits.detail}"
                yield _event(job, name, now, self._host, "Wait", reasons.STARVING, note.rstrip("; "))

    def _is_news(self, job: QueuedJob, now: float) -> bool:
        if job.uid not in self._written:
            return True
        reason, at = self._written[job.uid]
        return now - at >= (REPEAT_SECONDS if reason == job.waits.reason else CHANGED_SECONDS)


def _note(job: QueuedJob, changes: Sequence[ProvedChange]) -> str:
    """Return the Event's note: the position in the queue, the reason with its figures, and what would admit the job.

    ``changes``: changes of which a trial decision of the policy has shown that each would admit the job. Changes that
    take effect at once come first, then those that mean waiting. Without changes the note has the general advice for
    the reason.
    """
    waits = job.waits
    advice = MENDS.get(Reason(waits.reason), "") if waits.reason in {reason.value for reason in Reason} else ""
    said = [f"position {job.position} in the queue", without_advice(waits.text).removeprefix("kohort: "), waits.detail]
    said += [one.text for one in job.refused[:NAMED_CHANGES]]
    if changes:
        proved = sorted(changes, key=lambda one: one.kind.only_waits)[:NAMED_CHANGES]
        said.append(f"would admit it now: {' | '.join(one.text for one in proved)}")
    elif advice:
        said.append(f"what helps: {advice}")
    return "; ".join(part for part in said if part)


def _once(job: JobName, what: str) -> str:
    """Return an Event name that follows only from the job and ``what``.

    The API server refuses a second Event of that name, so that a restarted controller or a new leader repeats no Event.
    """
    return f"{job.name[:180]}.{job.uid[:36]}.{what}"


def _event(job: JobName, name: str, at: float, host: str, action: str, word: EventReason, note: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": job.namespace},
        "eventTime": datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": CONTROLLER,
        "reportingInstance": host[:128] or "unknown",
        "action": action,
        "reason": word.reason,
        "type": word.type,
        "note": note[:1024],
        "regarding": _regarding(job),
    }


def _regarding(job: JobName) -> dict[str, str]:
    kind = KINDS.get(job.kind)
    version = "v1" if job.kind == LONE_POD or kind is None else kind.resource.api_version
    return {"apiVersion": version, "kind": job.kind, "namespace": job.namespace, "name": job.name, "uid": job.uid}
