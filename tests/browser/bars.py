"""Time limits that other load on the machine can neither break nor hide.

The CPU time of page and service is always judged, because other load hardly adds to it. The wall-clock time is judged
by the same limit only if the machine is idle throughout, which is measured by painting an empty page of the same
service in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

QUIET_SECONDS = 0.25  # within which an idle machine paints an empty page


def usual(seconds: list[float]) -> float:
    """Return a time that a third of the measurements reach, because other load can only make them longer."""
    return sorted(seconds)[len(seconds) // 3]


@dataclass
class Bar:
    """Measurements of one thing; ``seconds`` is the limit, ``empty`` has the first paints of the empty page."""

    name: str
    seconds: float
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)

    def judge(self) -> None:
        """Raise AssertionError if it takes too long."""
        quiet = max(self.empty) <= QUIET_SECONDS
        for name, found in (("wall", self.wall), ("cpu", self.cpu), ("empty page", self.empty)):
            print(f"{self.name}, {name}:", [f"{seconds:.3f}" for seconds in found])
        assert usual(self.cpu) <= self.seconds, self.name
        assert not quiet or usual(self.wall) <= self.seconds, self.name
