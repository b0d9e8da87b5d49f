"""State what a paper publishes about a bar's value, and tell whether our value has its direction and its size.

Direction and size are two verdicts beside the bar's own: a bound that we chose says nothing about the paper's number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Our value has the size of the paper's if it differs from it by at most this share of the paper's effect. The share was
# fixed on 2026-11-28, before any experiment was judged by it.
SAME_SIZE = 0.25


@dataclass(frozen=True, slots=True)
class Published:
    """What a paper states about a value, in the unit of the bar.

    ``holds``: whether a value has the direction that the paper states; None if the statement has no direction.
    ``number``: the paper's number; None if the paper states only the direction. ``nothing``: the value at which there
    is no effect, from which sizes are counted.
    """

    holds: Callable[[float], bool] | None = None
    number: float | None = None
    nothing: float = 0.0

    def direction(self, value: float) -> bool | None:
        """Tell whether the value has the paper's direction; None if the paper states none."""
        return None if self.holds is None else self.holds(value)

    def size(self, value: float) -> bool | None:
        """Tell whether the value has the paper's size (`SAME_SIZE`); None if the paper states no number."""
        if self.number is None:
            return None
        return abs(value - self.number) <= SAME_SIZE * abs(self.number - self.nothing)


def effect(number: float, nothing: float = 0.0) -> Published:
    """Return the statement that the value is ``number``, on this side of ``nothing``, at which there is no effect."""
    sign = 1.0 if number > nothing else -1.0
    return Published(lambda value: sign * (value - nothing) > 0, number, nothing)


def level(number: float) -> Published:
    """Return the statement that the value is ``number``, which is a level and no change, so that it has no
    direction.
    """
    return Published(number=number)


def above(nothing: float = 0.0) -> Published:
    """Return the statement that the value is above ``nothing``, without a number."""
    return Published(lambda value: value > nothing, nothing=nothing)


def below(nothing: float = 0.0) -> Published:
    """Return the statement that the value is below ``nothing``, without a number."""
    return Published(lambda value: value < nothing, nothing=nothing)


def at_least(least: float) -> Published:
    """Return the statement that the value is ``least`` or more, such as "all" of a count."""
    return Published(lambda value: value >= least)


def at_most(most: float) -> Published:
    """Return the statement that the value is ``most`` or less."""
    return Published(lambda value: value <= most)
