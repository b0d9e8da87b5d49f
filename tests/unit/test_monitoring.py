"""The shipped dashboard and alert rules use only metrics that exist, and the dashboard shows each metric."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.documents.facts import metric_families

FOLDER = Path(__file__).parents[2] / "manifests" / "components" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NOT_DRAWN = {"kohort_build_info"}  # the labels of this metric state a version, which a graph cannot show
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "gaugehistogram": ("_bucket", "_gsum", "_gcount")}


def series() -> dict[str, str]:
    """Return the metric of each time series that Prometheus reads, by the name of the series."""
    found: dict[str, str] = {}
    for family in metric_families():
        suffixes = SUFFIXES.get(family.type, ("_total",) if family.type == "counter" else ("",))
        found |= {f"{family.name}{suffix}": family.name for suffix in suffixes}
    return found


def spoken(text: str) -> set[str]:
    return set(re.findall(r"\bkohort_\w+", text))


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def test_every_metric_of_dashboard_and_rules_is_there() -> None:
    named = spoken(" ".join([*expressions(), *(rule["expr"] for rule in RULES)]))
    assert named - series().keys() == set()


def test_every_metric_is_drawn() -> None:
    drawn = {series()[name] for name in spoken(" ".join(expressions()))}
    assert {family.name for family in metric_families()} - drawn == NOT_DRAWN


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert max(Counter(panel["id"] for panel in DASHBOARD["panels"]).values()) == 1
    cells = Counter(
        (x, y)
        for grid in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    )
    assert max(cells.values()) == 1
    assert max(x for x, _ in cells) < 24, "Grafana's grid"


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket", "info"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_where_an_alert_sends_its_reader_there_is_something() -> None:
    cited = re.findall(r'(docs/\S+\.md), "([^"]+)"', (FOLDER / "alerts.yaml").read_text())
    assert cited
    for page, heading in cited:
        assert f"\n## {heading}\n" in (FOLDER.parents[2] / page).read_text()


CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "e2e/monitoring/alerts_test.yaml").read_text()
)["tests"]


def test_what_promtool_is_asked_besides_is_what_panels_show() -> None:
    asked = {case["expr"] for test in CASES for case in test.get("promql_expr_test", ())}
    assert asked
    assert asked <= set(expressions())


def test_every_alert_has_cases() -> None:
    fires = {case["alertname"] for test in CASES for case in test["alert_rule_test"] if case.get("exp_alerts")}
    silent = {case["alertname"] for test in CASES for case in test["alert_rule_test"] if not case.get("exp_alerts")}
    assert fires == silent == {rule["alert"] for rule in RULES}
