"""Facts that the reference pages take from the code: settings, metrics, checks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from pydantic import BaseModel

from extender.clock import Clock
from extender.observe.controllermetrics import ControllerMetrics
from extender.observe.metrics import Metrics
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Rules
from policy.systems import make_policy


class _Part:
    held = 0

    def leading(self) -> bool:
        return True


def extender_families() -> list[Metric]:
    """Return every metric of ``kohort serve``."""
    metrics = Metrics()
    metrics.watch(Ledger(make_policy("kod2"), Rules(), Clock(), Journal()), [], _Part(), _Part())
    return [family for family in metrics.registry.collect() if family.name.startswith("kohort_")]


def controller_families() -> list[Metric]:
    """Return every metric of ``kohort controller``."""
    return [family for family in ControllerMetrics().registry.collect() if family.name.startswith("kohort_")]


def metric_families() -> list[Metric]:
    """Return every metric of both processes once."""
    return list({family.name: family for family in (*extender_families(), *controller_families())}.values())


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of each setting; nested names are joined by dots."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _shown(field.default), field.description or ""


def _shown(default: object) -> str:
    """Format a default as it is written in the settings file."""
    match default:
        case bool():
            return str(default).lower()
        case tuple():
            return f"[{', '.join(map(str, default))}]"
        case _:
            return str(default)


def label_names(family: str) -> tuple[str, ...]:
    """Return the label names of a metric; () if it has none, or if a collector computes it only at a scrape."""
    for registry in (Metrics().registry, ControllerMetrics().registry):
        for collector, names in registry._collector_to_names.items():
            if family in names or f"{family}_total" in names:
                return tuple(getattr(collector, "_labelnames", ()))
    return ()
