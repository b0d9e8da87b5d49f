"""Amounts in two forms: as Kubernetes writes them (``500m``, ``8Gi``), and as an exact integer.

The exact form is millicores for cpu, bytes for memory and storage, and a number of pieces for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from policy.cluster.resources import Resources
from policy.cluster.words import BYTES

BINARY: Final = (("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount of one resource in both forms."""

    quantity: str = field(metadata={"description": "The amount as Kubernetes writes it: 500m, 8Gi, 2."})
    exact: int = field(
        metadata={
            "description": "The exact amount: millicores for cpu, bytes for memory and storage, else pieces.",
        }
    )


Amounts = dict[str, Quantity]


def amounts(resources: Resources) -> Amounts:
    """Return the amount of each resource in both forms, by the resource's name."""
    return {name: Quantity(quantity=quantity(name, resources[name]), exact=resources[name]) for name in resources}


def quantity(name: str, amount: int) -> str:
    """Return an exact amount as Kubernetes writes it, without loss."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name.startswith(BYTES):
        for suffix, size in BINARY:
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)
