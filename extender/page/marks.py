"""A colour and a shape for every job, and the marks of its members as SVG paths.

A member's mark is filled if the ps or workers with which it exchanges data are all on its own node, and hollow if some
are on another node; a ps has a dot. Colours are classes of kohort.css, because the page's Content-Security-Policy
allows no inline style.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

COLOURS: Final = 10
SHAPES: Final = ("square", "circle", "diamond", "triangle", "hexagon", "wedge")
# The corners of each shape around its middle, for a mark of size 2 by 2. A circle has no corners; it is drawn by arcs.
_CORNERS: Final = {
    "square": ((-0.82, -0.82), (0.82, -0.82), (0.82, 0.82), (-0.82, 0.82)),
    "diamond": ((0, -1.05), (1.05, 0), (0, 1.05), (-1.05, 0)),
    "triangle": ((0, -0.95), (1.02, 0.82), (-1.02, 0.82)),
    "hexagon": ((-0.55, -0.95), (0.55, -0.95), (1.08, 0), (0.55, 0.95), (-0.55, 0.95), (-1.08, 0)),
    "wedge": ((-1.02, -0.82), (1.02, -0.82), (0, 0.95)),
}
DOT: Final = 0.34  # a ps's dot has this radius, as a share of half the mark's size


@dataclass(frozen=True, slots=True)
class Look:
    """How a job is drawn: the CSS class ``cN`` and a shape."""

    colour: int
    shape: str


class Looks:
    """Gives each job a look and keeps it. No two jobs share a look as long as there are enough looks."""

    def __init__(self) -> None:
        self._of: dict[str, Look] = {}
        self._taken: Counter[int] = Counter()

    def of(self, uid: str) -> Look:
        """Return the job's look (colour and shape), and choose one if the job is new."""
        found = self._of.get(uid)
        if found is None:
            found = self._of[uid] = self._choose(uid)
        return found

    def keep(self, uids: Collection[str]) -> None:
        """Forget the looks of all jobs except those with these UIDs, so that new jobs can get the looks."""
        for uid in self._of.keys() - set(uids):
            self._taken[_number(self._of.pop(uid))] -= 1

    def _choose(self, uid: str) -> Look:
        """Return a look that the fewest jobs have; among several, a hash of the UID says which one.

        Because of the hash, most jobs look the same after a restart.
        """
        every = COLOURS * len(SHAPES)
        start = zlib.crc32(uid.encode("utf-8", "replace")) % every
        number = min(range(every), key=lambda at: (self._taken[at], (at - start) % every))
        self._taken[number] += 1
        return Look(number % COLOURS, SHAPES[number // COLOURS])


def _number(look: Look) -> int:
    return SHAPES.index(look.shape) * COLOURS + look.colour


@lru_cache(maxsize=20_000)
def outline(shape: str, x: float, y: float, half: float) -> str:
    """Return the SVG path of a mark around (x, y); ``half`` is half its size."""
    if shape == "circle":
        return _circle(x, y, half * 0.95)
    points = (f"{x + half * dx:.1f} {y + half * dy:.1f}" for dx, dy in _CORNERS[shape])
    return "M" + "L".join(points) + "Z"


@lru_cache(maxsize=5_000)
def dot(x: float, y: float, half: float) -> str:
    """Return the SVG path of the dot on a ps's mark around (x, y); ``half`` is half the mark's size."""
    return _circle(x, y, half * DOT)


def _circle(x: float, y: float, radius: float) -> str:
    half_way = f"a{radius:.1f} {radius:.1f} 0 1 0 "
    return f"M{x - radius:.1f} {y:.1f}{half_way}{2 * radius:.1f} 0{half_way}{-2 * radius:.1f} 0Z"


def icon(look: Look) -> str:
    """Return the SVG of a job's mark for lists, where it stands beside the job's name; 12 by 12 units."""
    path = outline(look.shape, 6, 6, 5)
    return f'<svg class="mark c{look.colour}" viewBox="0 0 12 12" aria-hidden="true"><path d="{path}"/></svg>'
