"""Time limits for the page that do not fail because of other load on the machine.

The CPU time of page and service is always judged, because other load hardly adds to it. The wall-clock time is judged
by the same limit only if the machine was idle, which the time for painting an empty page shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

QUIET_SECONDS = 0.25  # An idle machine paints an empty page within so many seconds.


def usual(seconds: list[float]) -> float:
    """Return the value below which a third of the measurements lie, because other load can only make them longer."""
    return sorted(seconds)[len(seconds) // 3]


@dataclass
class Bar:
    """A time limit (``seconds``) with its measurements in seconds; ``empty`` has those of painting an empty page."""

    name: str
    seconds: float
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)

    def judge(self) -> None:
        """Raise AssertionError if the CPU time, or on an idle machine the wall-clock time, is over the limit."""
        quiet = max(self.empty) <= QUIET_SECONDS
        for name, found in (("wall", self.wall), ("cpu", self.cpu), ("empty page", self.empty)):
            print(f"{self.name}, {name}:", [f"{seconds:.3f}" for seconds in found])
        assert usual(self.cpu) <= self.seconds, self.name
        assert not quiet or usual(self.wall) <= self.seconds, self.name
