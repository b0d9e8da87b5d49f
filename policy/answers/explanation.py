"""The classes of the answer to "why does this job wait, or run as it does?", which REST, command line and page show.

The descriptions in the fields' metadata go into OpenAPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from policy.answers.change import Kind
from policy.cluster.amounts import Amounts


def _text(description: str) -> Mapping[str, Any]:
    return {"description": description}


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a job waits: the reason's code and sentence, the job's figures, and the job that comes before it."""

    reason: str = field(
        metadata=_text("The reason's code, one of a closed set: filter's answers, metrics and REST use the same codes.")
    )
    text: str = field(metadata=_text("The reason's constant sentence."))
    detail: str = field(default="", metadata=_text("The figures of this job."))
    behind: str = field(
        default="", metadata=_text("namespace/name of the job that comes first, where that is the reason.")
    )


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """What each member of one role requests, and how many of them the gang's minimum has."""

    role: str
    members: int
    requests: Amounts


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node, what is free on it, and what it lacks for the job's whole gang."""

    node: str
    free: Amounts
    missing: Amounts
    refused: str = field(default="", metadata=_text("Why the job may not use the node; empty if it may."))
    avoided: str = field(
        default="",
        metadata=_text("Until when the node is avoided because members of different jobs have failed there."),
    )
    promised: tuple[str, ...] = field(
        default=(),
        metadata=_text("Pods of other schedulers (namespace/name) that are nominated to the node; they keep room."),
    )


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """Resources that a pod of a finished job still holds (cleanPodPolicy None)."""

    job: str
    pod: str
    node: str
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Ahead:
    """A job (namespace/name) that the policy considers before the explained job, and why."""

    job: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ProvedChange:
    """One change after which the policy would admit the job now, tested on a copy of the ledger."""

    kind: Kind
    size: float = field(
        metadata=_text("How large the change is, in seconds, workers, utility, nodes or jobs, depending on its kind.")
    )
    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """When a waiting job may start if no further job arrives; both times are null if that is not known."""

    at: float | None = field(metadata=_text("Seconds since the epoch."))
    basis: str = field(metadata=_text("What the estimate is based on, or why there is none."))
    in_seconds: float | None = None

    def seen_at(self, now: float) -> Start:
        """Return the start with ``in_seconds`` counted from ``now`` (seconds since the epoch)."""
        return self if self.at is None else replace(self, in_seconds=self.at - now)


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why a job runs as it does: its nodes, its traffic between nodes, and what holds its growth back."""

    placement: str
    pairs: int = field(metadata=_text("The number of its ps-worker pairs."))
    crossing: int = field(metadata=_text("The number of pairs whose ps and worker are on different nodes."))
    traffic: str
    growth: str = field(metadata=_text("What limits the job's growth."))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How far a job is ahead of its schedule or behind it, by its last report.

    One worker-slot is the work of one worker in one time slot.
    """

    needed: float = field(metadata=_text("The worker-slots that it still needed at the time of that report."))
    scheduled: float = field(metadata=_text("The worker-slots that its schedule has for it from then on."))
    behind: float = field(metadata=_text("``needed`` minus ``scheduled``; below 0 the job is ahead of its schedule."))
    percent: float = field(metadata=_text("``behind`` as a percentage of all its work."))
    text: str


@dataclass(frozen=True)
class Explanation:
    """Why a job is in its present state, and what would help it. Names of jobs and pods are ``namespace/name``.

    A field that does not apply to the job has its default value.
    """

    waits: Waits | None = field(default=None, metadata=_text("Why the job does not run as planned; null if it does."))
    mend: str = field(default="", metadata=_text("What a person can do so that the job starts."))
    needs: tuple[RoleNeed, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    plan: dict[str, str] = field(default_factory=dict, metadata=_text("The node of each member (worker-0)."))
    missing_pods: str = ""
    checked_singly: str = field(
        default="",
        metadata=_text(
            "With barrier.commit: first, why kube-scheduler has to check each member before the gang is bound."
        ),
    )
    shrunk_for: str = field(default="", metadata=_text("The job for which this one was shrunk last."))
    waits_for: tuple[str, ...] = field(default=(), metadata=_text("The pods (namespace/name) that must be gone first."))
    nodes: tuple[NodeRoom, ...] = field(
        default=(),
        metadata=_text("The nodes that lack least for the whole gang come first, those that it may not use last."),
    )
    held: tuple[HeldRoom, ...] = field(
        default=(),
        metadata=_text(
            "For a waiting job: resources that finished jobs hold. For a finished job: those that it holds itself."
        ),
    )
    arithmetic: str = field(
        default="", metadata=_text("How much of the gang would fit now, and which node comes closest.")
    )
    running: Grounds | None = field(
        default=None,
        metadata=_text("Why it runs where it does; null for a job that waits, or if not asked for."),
    )
    schedule: Schedule | None = field(
        default=None, metadata=_text("Only for a job that is scheduled by slots and reports its progress.")
    )
    expected: Start | None = field(
        default=None, metadata=_text("When the job may start; null if it does not wait, or if not asked for.")
    )
    unblock: tuple[ProvedChange, ...] | None = field(
        default=None, metadata=_text("The changes that would admit the job now; null if not asked for.")
    )
