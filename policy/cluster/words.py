"""Amounts as people say them."""

from __future__ import annotations

from policy.cluster.resources import Resources

BYTES = ("memory", "ephemeral-storage")
SIZES = {"EiB": 2**60, "PiB": 2**50, "TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def in_words(resources: Resources) -> str:
    """``3.5 cpu, 8 GiB memory, 2 nvidia.com/gpu``; how many pods is left out."""
    return ", ".join(_said(name, resources[name]) for name in resources if name != "pods")


def _said(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:.4g} cpu"
    if name in BYTES:
        return f"{_bytes(amount)} {name}"
    return f"{amount} {name}"


def _bytes(amount: int) -> str:
    unit = next((unit for unit, size in SIZES.items() if abs(amount) >= size), "")
    return f"{amount / SIZES[unit]:.4g} {unit}" if unit else f"{amount} B"
