"""docs/operations.md names every setting with its default, every metric and every check, and none that is not there."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from extender.clock import Clock
from extender.config.settings import Settings
from extender.observe.health import Heartbeat, extender_readiness
from extender.observe.metrics import ControllerMetrics, Metrics
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems import make_policy

TEXT = (Path(__file__).parents[2] / "docs/operations.md").read_text()


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """One row of the table for each setting."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings(kind, f"{prefix}{name}.")
        else:
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            yield f"| `{prefix}{name}` | {f'`{default}`' if default else ''} | {field.description} |"


def test_every_setting_is_in_the_table_as_it_is() -> None:
    assert TEXT.splitlines()[-len(list(settings(Settings))) :] == list(settings(Settings))


class Part:
    held = 0

    def leading(self) -> bool:
        return True


def test_every_metric_is_explained_and_none_that_is_not_there() -> None:
    metrics = Metrics()
    metrics.watch(Ledger(make_policy("kod2"), Rules(), Clock(), Journal()), [], Part(), Part())
    registries = (metrics.registry, ControllerMetrics().registry)
    families = [family for registry in registries for family in registry.collect()]
    there = {f"{f.name}_total" if f.type == "counter" else f.name for f in families if f.name.startswith("kohort_")}
    assert set(re.findall(r"^\| `(kohort_\w+)`", TEXT, re.MULTILINE)) == there


def test_every_check_is_explained() -> None:
    clock = Clock()
    names = {check.name for check in extender_readiness(Snapshot(), [], True, Heartbeat(clock), clock).checks}
    assert {name for name in names if f"\n| `{name}` | " not in TEXT} == set()
