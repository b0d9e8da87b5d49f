"""How long a job still trains, from what its training reports."""

from __future__ import annotations

from collections.abc import Sequence

from policy.cluster.training import Report


def remaining_seconds(reports: Sequence[Report], now: float) -> float | None:
    """Return for how many seconds from ``now`` the job still trains, at the pace between its last two progress reports.

    None: the pace is not known.
    """
    told = [(report.at, report.done) for report in reports if report.done is not None]
    if len(told) < 2:
        return None
    (before, less), (at, done) = told[-2:]
    pace = (done - less) / (at - before) if at > before else 0.0
    if pace <= 0:
        return None
    return max(0.0, (1.0 - done) / pace - (now - at))
