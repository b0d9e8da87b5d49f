"""Makes a registry with the metrics that both processes (extender and controller) have: the process and its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector


def kohort_version() -> str:
    """Return the installed version; ``unknown`` where Kohort runs without being installed."""
    try:
        return version("kohort")
    except PackageNotFoundError:
        return "unknown"


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process and ``kohort_build_info``."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    info = Gauge("kohort_build_info", "Always 1; the label has the version.", ["version"], registry=registry)
    info.labels(kohort_version()).set(1)
    return registry
