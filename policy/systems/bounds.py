"""Checks of a system's parameters. Each raises ValueError that names the field, its value and what is allowed."""

from __future__ import annotations

import math
from typing import Any


def above_0(system: Any, *names: str) -> None:
    """Check that the numbers are above 0, and finite."""
    for name in names:
        if not 0.0 < getattr(system, name) < math.inf:
            raise _error(system, name, "above 0, and finite")


def from_0(system: Any, *names: str) -> None:
    """Check that the numbers are 0 or more, and finite."""
    for name in names:
        if not 0.0 <= getattr(system, name) < math.inf:
            raise _error(system, name, "0 or more, and finite")


def up_to(system: Any, most: float, *names: str) -> None:
    """Check that the numbers are from 0 to ``most``."""
    for name in names:
        if not 0 <= getattr(system, name) <= most:
            raise _error(system, name, f"from 0 to {most:,}")


def patience(system: Any, *names: str) -> None:
    """Check that the numbers of seconds are 0 or more; they may be infinite, which means never."""
    for name in names:
        if not getattr(system, name) >= 0.0:
            raise _error(system, name, "0 or more")


def share(system: Any, *names: str) -> None:
    """Check that the numbers are shares of a whole, from 0 to 1."""
    for name in names:
        if not 0.0 <= getattr(system, name) <= 1.0:
            raise _error(system, name, "from 0 to 1")


def _error(system: Any, name: str, allowed: str) -> ValueError:
    return ValueError(f"{system.name}: {name} is {getattr(system, name)!r}, must be {allowed}")
