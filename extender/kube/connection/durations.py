"""Reads --request-timeout as kubectl does: seconds, or a duration in Go's syntax."""

from __future__ import annotations

import re
from typing import Final

from extender.kube.connection.target import OptionError

UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"


def seconds_of(text: str) -> float | None:
    """Return seconds: None where nothing is given, 0 for no limit. Raises OptionError."""
    if not text:
        return None
    if re.fullmatch(r"\+?\d+", text, re.ASCII):
        return float(text)
    if re.fullmatch(rf"[+-]?({PART})+", text, re.ASCII):
        found = sum(float(number) * UNITS[unit] for number, unit in re.findall(PART, text, re.ASCII))
        return 0.0 if text.startswith("-") else found
    raise OptionError(f"--request-timeout: {text!r} is not allowed; allowed: seconds, or a duration such as 30s or 2m")
