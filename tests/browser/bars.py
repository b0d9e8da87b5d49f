"""Bars on time that neighbours on the machine can neither break nor hide.

Judged is the CPU that page and service take, always: that no neighbour adds much to. The wall clock is judged by the
same bar where the machine is quiet all the while, which an empty page of the same service tells, painted in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

QUIET_SECONDS = 0.25  # within which a quiet machine paints a page with nothing on it


def usual(seconds: list[float]) -> float:
    """The third part of the measurements is at least so fast: neighbours on the machine only ever add to it."""
    return sorted(seconds)[len(seconds) // 3]


@dataclass
class Bar:
    """Measurements of one thing. seconds: within which it must be; empty: first paints of the empty page."""

    name: str
    seconds: float
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)

    def judge(self) -> None:
        """AssertionError where it takes too long."""
        quiet = max(self.empty) <= QUIET_SECONDS
        for name, found in (("wall", self.wall), ("cpu", self.cpu), ("empty page", self.empty)):
            print(f"{self.name}, {name}:", [f"{seconds:.3f}" for seconds in found])
        assert usual(self.cpu) <= self.seconds, self.name
        assert not quiet or usual(self.wall) <= self.seconds, self.name
