"""Tells people on the job object what was decided: one Kubernetes Event for each admission, resize and release.

Events are a courtesy: one that cannot be written is lost, and nobody waits for it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from extender.kube.jobkinds import KINDS, LONE_POD
from extender.views import DecisionView, JobName

CONTROLLER: Final = "kohort.dev/controller"
ADMITTED: Final = "GangAdmitted"
SCALED_IN: Final = "GangScaledIn"
SCALED_OUT: Final = "GangScaledOut"
RELEASED: Final = "GangReleased"
REJECTED: Final = "JobRejected"
_NORMAL: Final = "Normal"
_WARNING: Final = "Warning"


def event_of(decision: DecisionView, instance: str, host: str) -> dict[str, Any] | None:
    """The Event for a decision; None for what is not told, or whose job is gone. Its name makes a repetition fail."""
    told = _told(decision)
    job = decision.job
    if told is None or job is None:
        return None
    reason, kind = told
    return {
        "metadata": {"name": f"{job.name[:200]}.{instance}.{decision.sequence:x}", "namespace": job.namespace},
        "eventTime": datetime.fromtimestamp(decision.at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": CONTROLLER,
        "reportingInstance": host[:128] or "unknown",
        "action": decision.action,
        "reason": reason,
        "type": kind,
        "note": decision.text[:1024],
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
