"""The time in seconds for which a gang waits for each thing, such as room or members (``PATIENCE``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from policy.cluster.draft import Draft
from policy.cluster.gang import Deadline, Gang
from policy.cluster.job import Job
from policy.cluster.lifecycle import Awaits
from policy.cluster.snapshot import Rules

LOST_BINDING_SECONDS: Final = 120.0
"""The outcome of a binding whose answer was lost is read back within seconds. After ``LOST_BINDING_SECONDS`` no report
of the outcome will come any more; the watch, which may stall for most of a minute, has shown the binding by then if the
binding was made.
"""

PATIENCE: Final[Mapping[Awaits, Callable[[Rules], float]]] = {
    Awaits.ROOM: lambda rules: rules.freeing_seconds,
    Awaits.MEMBERS: lambda rules: rules.plan_seconds,
    # The second window is longer, because kube-scheduler's back-off after errors makes members come at different times.
    Awaits.SECOND_WINDOW: lambda rules: 2 * rules.window_seconds,
    Awaits.BINDINGS: lambda rules: rules.repair_seconds,
    Awaits.GROWTH: lambda rules: rules.growing_seconds,
    Awaits.CHECKPOINT: lambda rules: rules.checkpoint_seconds,
    Awaits.MIGRATION: lambda rules: rules.freeing_seconds,
    Awaits.REPAIR: lambda rules: rules.repair_seconds,
    Awaits.RELEASE: lambda rules: LOST_BINDING_SECONDS,
    Awaits.OUTCOMES: lambda rules: LOST_BINDING_SECONDS,
    Awaits.EARLIER_TERM: lambda rules: rules.repair_seconds,
}


class Expired(NamedTuple):
    """A gang whose deadline is over at ``now`` (seconds since the epoch), with its job.

    gives_back: whether the policy grows a job again by itself, so that workers which do not come may be given back.
    """

    job: Job
    gang: Gang
    now: float
    gives_back: bool


def until(draft: Draft, awaits: Awaits, now: float) -> Deadline:
    """Return the deadline of a gang that begins to wait for ``awaits`` at ``now`` (seconds since the epoch)."""
    return Deadline(awaits, now + PATIENCE[awaits](draft.base.rules))
