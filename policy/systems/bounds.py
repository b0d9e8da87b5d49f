"""What a system's numbers may be. Each raises ValueError that names the field, its value and what is allowed."""

from __future__ import annotations

import math
from typing import Any


def above_0(system: Any, *names: str) -> None:
    """Finite, and more than nothing."""
    for name in names:
        if not 0.0 < getattr(system, name) < math.inf:
            raise _error(system, name, "above 0, and finite")


def from_0(system: Any, *names: str) -> None:
    """Finite, or nothing."""
    for name in names:
        if not 0.0 <= getattr(system, name) < math.inf:
            raise _error(system, name, "0 or more, and finite")


def up_to(system: Any, most: float, *names: str) -> None:
    """From nothing to that much: what is far beyond it means nothing and is no number to reckon with."""
    for name in names:
        if not 0 <= getattr(system, name) <= most:
            raise _error(system, name, f"from 0 to {most:,}")


def patience(system: Any, *names: str) -> None:
    """Seconds that somebody waits; infinite: for ever."""
    for name in names:
        if not getattr(system, name) >= 0.0:
            raise _error(system, name, "0 or more")


def share(system: Any, *names: str) -> None:
    """Of a whole."""
    for name in names:
        if not 0.0 <= getattr(system, name) <= 1.0:
            raise _error(system, name, "from 0 to 1")


def _error(system: Any, name: str, allowed: str) -> ValueError:
    return ValueError(f"{system.name}: {name} is {getattr(system, name)!r}, must be {allowed}")
