"""Checks of a system's parameters. Each function raises ValueError that names the parameter, its value and what is
allowed.
"""

from __future__ import annotations

import math
from typing import Any


def above_0(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is above 0 and finite."""
    for name in names:
        if not 0.0 < getattr(system, name) < math.inf:
            raise _error(system, name, "above 0, and finite")


def from_0(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is 0 or more, and finite."""
    for name in names:
        if not 0.0 <= getattr(system, name) < math.inf:
            raise _error(system, name, "0 or more, and finite")


def up_to(system: Any, most: float, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is from 0 to ``most``."""
    for name in names:
        if not 0 <= getattr(system, name) <= most:
            raise _error(system, name, f"from 0 to {most:,}")


def patience(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is a number of seconds of 0 or more; infinite means never."""
    for name in names:
        if not getattr(system, name) >= 0.0:
            raise _error(system, name, "0 or more")


def share(system: Any, *names: str) -> None:
    """Raise ValueError unless each parameter in ``names`` is from 0 to 1, as the share of a whole."""
    for name in names:
        if not 0.0 <= getattr(system, name) <= 1.0:
            raise _error(system, name, "from 0 to 1")


def _error(system: Any, name: str, allowed: str) -> ValueError:
    return ValueError(f"{system.name}: {name} is {getattr(system, name)!r}, must be {allowed}")
