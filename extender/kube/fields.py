"""Reads fields of API objects (plain dicts) in two ways, strictly and leniently.

Strict readers raise ObjectError with the path of a malformed field and what is allowed. Lenient readers treat a
malformed field as absent and never raise. Both treat null as absent. This module knows JSON; it must not know any kind
of object.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

Json = Mapping[str, Any]

MOST: Final = 2**63 - 1  # this is the largest int64 of Go, the type in which kube-scheduler counts resources
QUANTITY: Final = "a Kubernetes quantity such as 500m or 8Gi"
_SYNTAX: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?", re.ASCII)
_LONGEST: Final = 64  # a quantity with more characters is refused
_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 2, 80, 40, 80


class ObjectError(Exception):
    """A field of an API object cannot be used; the message has its path, its value, and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field[:200]}: {_shown(value)} is not allowed; allowed: {allowed}")
        self.field, self.value, self.allowed = field[:200], value, allowed


def _shown(value: object) -> str:
    """Return a short text for a value of any size and depth, for messages."""
    if isinstance(value, int) and not -MOST <= value <= MOST:
        return "an integer beyond 64 bits"
    return _SHORT.repr(value)[:80]


# -- The functions below read strictly: a malformed field is an error. -------------------------------


def mapping(value: object, field: str) -> Json:
    """Return the value as a mapping, null as an empty one. Raises ObjectError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ObjectError(field, value, "a mapping")
    return value


def items(value: object, field: str) -> list[Any]:
    """Return the value as a list, null as an empty one. Raises ObjectError for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ObjectError(field, value, "a list")
    return value


def each(parent: Json, field: str, key: str) -> Iterator[tuple[str, Json]]:
    """Yield the mappings in the list that ``parent`` has under ``key``, each with its path for messages.

    ``field``: the path of ``parent``.
    """
    for index, value in enumerate(items(parent.get(key), f"{field}.{key}")):
        path = f"{field}.{key}[{index}]"
        yield path, mapping(value, path)


def string(value: object, field: str, allowed: str = "a string") -> str:
    """Return the value as a string, null as an empty one. Raises ObjectError for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ObjectError(field, value, allowed)
    return value


def boolean(value: object, field: str) -> bool:
    """Return the value as a boolean, null as false. Raises ObjectError for anything else."""
    if value is not None and not isinstance(value, bool):
        raise ObjectError(field, value, "true or false")
    return value is True


def whole_number(value: object, field: str, most: int) -> int:
    """Return the value, a count in an object's spec, if it is a whole number from 0 to ``most``.

    Raises ObjectError for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ObjectError(field, value, f"a whole number from 0 to {most}")
    return value


def written_number(value: object, field: str, most: int) -> int:
    """Return a count that stands in an annotation as text: a whole number from 0 to ``most`` in decimal digits.

    Raises ObjectError for any other text, such as one with a sign or spaces.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(most)):
        return whole_number(int(value), field, most)
    raise ObjectError(field, value, f"a whole number from 0 to {most}")


def amount(name: str, value: object, field: str) -> int:
    """Return a quantity in its integer unit, rounded up: millicores for cpu, whole units for other resources."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ObjectError(f"{field}.{name}", value, QUANTITY)
    if isinstance(value, int) and not -MOST <= value <= MOST:
        raise ObjectError(f"{field}.{name}", value, f"at most {MOST}")
    text = str(value)
    number = _units(text, 1000 if name == "cpu" else 1) if len(text) <= _LONGEST else None
    if number is None:
        raise ObjectError(f"{field}.{name}", value, QUANTITY)
    if not 0 <= number <= MOST:
        raise ObjectError(f"{field}.{name}", value, "0 or more" if number < 0 else f"at most {MOST}")
    return number


@lru_cache(maxsize=4096)
def _units(text: str, units: int) -> int | None:
    """Return the quantity in multiples of 1/``units``; -1 where it is negative, None where it is not a quantity."""
    if not _SYNTAX.fullmatch(text):
        return None
    value: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    # The exponent has at most three digits by `_SYNTAX`, so that no integer of a million digits is made here.
    return -1 if value < 0 else int((value * units).to_integral_value(ROUND_CEILING))


# -- The functions below read leniently: a malformed field counts as absent. -------------------------


def part(item: object, key: str) -> dict[str, Any]:
    """Return the mapping that ``item`` has under the key, or an empty one where it has none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, dict) else {}


def listed(item: object, key: str) -> list[Any]:
    """Return the list that ``item`` has under the key, or an empty one where it has none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, list) else []


def text(item: object, key: str) -> str:
    """Return the string that ``item`` has under the key, or an empty one where it has none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def condition(status: object, kind: str) -> dict[str, Any]:
    """Return the status condition of that type, or an empty mapping where there is none."""
    found = (c for c in listed(status, "conditions") if isinstance(c, dict) and c.get("type") == kind)
    return next(found, {})


def whole(item: object, key: str) -> int:
    """Return the integer that ``item`` has under the key, or 0. A string of digits counts, as in resourceVersion."""
    value = item.get(key) if isinstance(item, dict) else None
    if isinstance(value, str):
        return digits(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST else 0


def digits(value: str) -> int:
    """Return a string of digits, such as a resourceVersion, as a number; 0 for any other string."""
    return int(value) if len(value) <= _LONGEST and value.isascii() and value.isdigit() else 0


def seconds(item: object, key: str) -> float:
    """Return the time stamp that ``item`` has under the key, in seconds since the epoch, or 0 where it has none."""
    try:
        found = datetime.fromisoformat(text(item, key))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
