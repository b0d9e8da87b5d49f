"""Tests with a real Prometheus: the alert rules load, and every panel of the dashboard has data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.controlplane import ControlPlane
from tests.controlplane.build import build
from tests.controlplane.kohort import CHECKOUT, Kohort, start_kohort
from tests.controlplane.ports import LOOPBACK, free_ports
from tests.controlplane.recipes import MONITORING
from tests.e2e.asking import nodes_of
from tests.e2e.gangs import create_pod, lone_pod, own_namespace, submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

FOLDER = CHECKOUT / "manifests" / "components" / "monitoring"
ALERTS = FOLDER / "alerts.yaml"
CASES = Path(__file__).parent / "monitoring" / "alerts_test.yaml"
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
EXPRESSIONS = {
    f"{panel['title']}, {target['refId']}": target["expr"] for panel in PANELS for target in panel.get("targets", ())
}
NODE_METRICS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodes.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
    "spec": {
        "group": "metrics.k8s.io", "scope": "Cluster", "names": {"plural": "nodes", "kind": "NodeMetrics"},
        "versions": [{
            "name": "v1beta1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip
# Panels without data in this test: no such event has happened, or the policy has no such metric.
EMPTY = {
    "Admissions, migrations and plans given up, B", "Admissions, migrations and plans given up, C",
    "Bindings by outcome, A", "Price by resource, A", "Job completion time, A", "Job completion time, B",
    "Resizes by direction and cause, A", "Ledger against API server, A",
}  # fmt: skip


@dataclass(slots=True)
class Prometheus:
    """A client of Prometheus' HTTP API."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=60, trust_env=False).json()
        assert answer["status"] == "success", answer
        assert not answer.get("warnings"), answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def alerts(self) -> dict[str, str]:
        """Return the state of each alert (inactive, pending or firing) by name; fail if a rule has an error."""
        (group,) = self.get("rules")["groups"]
        assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}, group
        return {rule["name"]: rule["state"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("monitoring")) as started:
        _serve_node_metrics(started)
        yield started


def _serve_node_metrics(plane: ControlPlane) -> None:
    """Serve node metrics as a metrics server would, by a custom resource: node-0 uses 2.5 of its 10 cores."""
    plane.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", NODE_METRICS)
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    until(lambda: plane.api.ok(path), "node metrics served")
    usage = {"cpu": "2500000000n", "memory": "1Gi"}
    plane.api.create(path, {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics",
                            "metadata": {"name": "node-0"}, "usage": usage})  # fmt: skip


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    # kube-scheduler does not try gated pods, so Kohort would never refuse them.
    started = start_kohort(plane, {"gate": "never"})
    yield started
    started.stop()


@pytest.fixture(scope="module")
def prometheus(plane: ControlPlane, kohort: Kohort) -> Iterator[Prometheus]:
    (port,) = free_ports(1)
    targets = [url.removeprefix("http://") for url in (kohort.health, kohort.controller_health)]
    config = plane.workdir / "prometheus.yaml"
    config.write_text(
        yaml.safe_dump({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "kohort", "static_configs": [{"targets": targets}]}],
        })
    )  # fmt: skip
    url = f"http://{LOOPBACK}:{port}"
    process = plane.start_process(
        "prometheus", str(build(MONITORING)["prometheus"]), f"--config.file={config}",
        f"--storage.tsdb.path={plane.workdir / 'prometheus'}", f"--web.listen-address={LOOPBACK}:{port}", url=url,
    )  # fmt: skip
    asked = Prometheus(url)
    process.wait_until(lambda: _scrapes(asked), "both processes were scraped", 180)
    yield asked
    process.stop()


def _scrapes(prometheus: Prometheus) -> bool:
    try:
        return [one["value"][1] for one in prometheus.query("up == 1")] == ["1", "1"]
    except (httpx.TransportError, ValueError):  # Prometheus may not be ready yet.
        return False


def promtool(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [build(MONITORING)["promtool"], *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_passes_the_rules_and_their_cases(tmp_path: Path) -> None:
    (tmp_path / CASES.name).write_text(CASES.read_text())
    rules = yaml.safe_load(ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]  # promtool compares annotations too, so every case would have to repeat them.
    (tmp_path / ALERTS.name).write_text(yaml.safe_dump(rules))
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS), folder=tmp_path)
    assert "SUCCESS" in promtool("test", "rules", CASES.name, folder=tmp_path)


def test_what_the_processes_serve_is_as_prometheus_wants_it(plane: ControlPlane, kohort: Kohort) -> None:
    for url in (kohort.health, kohort.controller_health):
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        done = subprocess.run(
            [build(MONITORING)["promtool"], "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        ours = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("kohort_")]
        assert ours == []


@pytest.fixture
def busy(plane: ControlPlane, prometheus: Prometheus, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a namespace with a running gang, a gang that is too large as a whole, and a pod that fits on no node."""
    with own_namespace(plane, request.node.name) as space:
        job = submit(plane, TFJob(space, "runs", workers=2))
        submit(plane, TFJob(space, "waits", workers=40))
        create_pod(plane, space, lone_pod("too-large", cpu="99"))
        until(lambda: len(nodes_of(plane, space, job.name)) == 3, "bound")
        until(lambda: prometheus.query('kohort_gangs{state="running"} == 1'), "seen by Prometheus")
        yield space


def test_every_panel_has_data_and_no_alert_fires(prometheus: Prometheus, kohort: Kohort, busy: str) -> None:
    for title in sorted(EXPRESSIONS.keys() - EMPTY):  # A rate needs two scrapes of a series that the gang has begun.
        expression = EXPRESSIONS[title].replace("$__rate_interval", "1m")
        until(partial(prometheus.query, expression), f"data in the panel {title}")
    until(lambda: len(prometheus.query("kohort_ledger_drift_objects == 0")) == 2, "nodes and pods counted alike")
    loud = {name for name, state in prometheus.alerts().items() if state == "firing"}
    assert loud == set()


def test_the_alert_comes_when_nobody_leads(prometheus: Prometheus, kohort: Kohort) -> None:
    assert prometheus.alerts()["KohortNoLeader"] == "inactive"
    kohort.extender.stop()
    until(lambda: prometheus.alerts()["KohortNoLeader"] == "pending", "the alert on its way")
    kohort.extender.start()
    kohort.wait_ready()
    until(lambda: prometheus.alerts()["KohortNoLeader"] == "inactive", "the alert gone")


def test_measured_use_is_told_where_the_metrics_api_is_served(prometheus: Prometheus, busy: str) -> None:
    used = 'kohort_node_used_ratio_gsum{resource="cpu"}'
    until(lambda: [one["value"][1] for one in prometheus.query(used)] == ["0.25"], "use as measured")
