"""The scheduling systems by name: the only place that lists them."""

from __future__ import annotations

from policy.systems.base import Policy
from policy.systems.kod2 import Gate, Kod2, WeightMode

NAMES = ("kod2",)


def make_policy(name: str, **parameters: object) -> Policy:
    """The system of that name with these parameters. Raises ValueError for an unknown name or parameter."""
    if name != "kod2":
        raise ValueError(f"policy: {name!r} is not known; allowed: {', '.join(NAMES)}")
    values = dict(parameters)
    if "gate" in values:
        values["gate"] = Gate(values["gate"])
    if "weight_mode" in values:
        values["weight_mode"] = WeightMode(values["weight_mode"])
    try:
        return Kod2(**values)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(f"policy kod2: {error}") from None
