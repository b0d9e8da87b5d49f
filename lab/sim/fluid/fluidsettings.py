"""The settings of the job-level simulator: what each activity costs, and when a run ends.

This simulator is called fluid because a job's work flows at a rate, and is not a sequence of single steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from lab.sim.fluid.speedmodels import Saturating, Speeds
from policy.cluster.snapshot import Rules


@dataclass(frozen=True, slots=True)
class FluidSettings:
    """Settings of a run of the job-level simulator; times are in seconds.

    start_seconds: from the binding of a gang until it computes, also when it starts again after it lost members.
    grow_seconds, shrink_seconds, migrate_seconds: how long a computing gang stops for a change of its members
    (checkpoint, restart). A change during start-up costs no more than the start.

    tick_seconds: the longest time between two steps.

    report_seconds: all computing gangs report their loss and their share of work at each multiple; None: no reports.

    patience: a job that holds pods this long without computing is ended, and counts in the results as terminated, with
    the time from its arrival to that end as its completion time; None: never.

    horizon: when the run ends. quiet_seconds: a run ends early when nothing but ticks has happened for this long, and
    for at least as long as the policy plans ahead.

    slot_seconds: length of the time slots in which utility curves count a job's delay; None: the trace's, or else the
    policy's.
    """

    rules: Rules = field(default_factory=Rules)
    speeds: Speeds = field(default_factory=Saturating)
    start_seconds: float = 1.0
    grow_seconds: float = 0.0
    shrink_seconds: float = 0.0
    migrate_seconds: float = 0.0
    tick_seconds: float = 10.0
    report_seconds: float | None = None
    patience: float | None = None
    horizon: float = math.inf
    quiet_seconds: float = 7200.0
    slot_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("tick_seconds", "report_seconds", "patience", "quiet_seconds", "slot_seconds", "horizon"):
            value = getattr(self, name)
            if not (value is None and name in NEVER) and not value > 0:
                raise ValueError(f"{name} is {value!r}, must be above 0")
        if self.slot_seconds is not None and math.isinf(self.slot_seconds):
            raise ValueError(f"slot_seconds is {self.slot_seconds!r}, must be finite")
        for name in [f.name for f in fields(self) if f.name in COSTS]:
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}, must be 0 or more, and finite")


# These settings may be None, which switches their feature off.
NEVER = frozenset({"report_seconds", "patience", "slot_seconds"})
COSTS = frozenset({"start_seconds", "grow_seconds", "shrink_seconds", "migrate_seconds"})
