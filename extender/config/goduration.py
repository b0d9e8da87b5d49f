"""Parses durations in Go's syntax (time.ParseDuration), which kubectl and kube-scheduler's configuration use."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"


def go_duration_seconds(text: str) -> float | None:
    """Return a duration such as 1m30s in seconds, which may be negative; None where the text is malformed."""
    if re.fullmatch(r"[+-]?0", text):
        return 0.0
    if not re.fullmatch(rf"[+-]?({PART})+", text, re.ASCII):
        return None
    seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(PART, text, re.ASCII))
    return -seconds if text.startswith("-") else seconds
