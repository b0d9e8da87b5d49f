"""Defines a finding: one fault of a KubeSchedulerConfiguration, as it is shown to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One fault: an error breaks the gang or its safety, a warning costs speed or hints at a mistake.

    ``field`` is the field's path in the file, ``value`` its value, ``allowed`` which values it may have, ``why`` the
    consequence of this value, and ``mend`` how to correct it.
    """

    field: str
    value: str
    allowed: str
    why: str
    mend: str
    level: Literal["error", "warning"] = "error"


def shown(value: object, limit: int = 80) -> str:
    """Return a value as YAML writes it, shortened to ``limit`` characters."""
    if value is None:
        return "absent"
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
