"""Reads --request-timeout as kubectl does: seconds, or a duration in Go's syntax."""

from __future__ import annotations

import re

from extender.config.goduration import go_duration_seconds
from extender.kube.connection.target import OptionError


def seconds_of(text: str) -> float | None:
    """Return the limit for one request in seconds: None where no option is given, 0 for no limit. Raises
    OptionError.
    """
    if not text:
        return None
    if re.fullmatch(r"\+?\d+", text, re.ASCII):
        return float(text)
    if (seconds := go_duration_seconds(text)) is not None:
        return max(0.0, seconds)
    raise OptionError(f"--request-timeout: {text!r} is not allowed; allowed: seconds, or a duration such as 30s or 2m")
