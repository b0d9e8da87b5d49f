"""Amounts as people say them."""

from __future__ import annotations

from policy.cluster.resources import Resources

UNITS = {"cpu": (1000, "cpu"), "memory": (2**30, "GiB")}


def in_words(resources: Resources) -> str:
    """``3.5 cpu, 8 GiB, 2 nvidia.com/gpu``; how many pods is left out."""
    told = (
        f"{resources[name] / UNITS[name][0]:.4g} {UNITS[name][1]}" if name in UNITS else f"{resources[name]} {name}"
        for name in resources
        if name != "pods"
    )
    return ", ".join(told)
