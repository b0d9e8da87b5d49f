"""Run Kohort beside a control plane as its manifests say: ServiceAccounts' rights, settings, scheduler.

The three parts run as three processes, each with the rights of its own ServiceAccount.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import LOOPBACK, free_ports, preferred_ports
from tests.controlplane.process import Process

CHECKOUT = Path(__file__).parents[2]
BASE = CHECKOUT / "manifests" / "base"
NAMESPACE = "kohort-system"
NOT_APPLIED = ("deployment.yaml", "pod-disruption-budget.yaml", "network-policy.yaml", "kustomization.yaml")
HOSTNAME = "kohort-0"
# A busy machine may need this many seconds until Kohort is ready; test_rebuild_live checks how fast it is.
READY_LIMIT = 180.0

Json = dict[str, Any]


def manifests() -> list[Json]:
    """Return all of manifests/base except what is about Kohort's own pods; the namespace and the accounts first."""
    order = ("namespace.yaml", "service-accounts.yaml")
    files = sorted((f for f in BASE.glob("*.yaml") if f.name not in NOT_APPLIED), key=lambda f: f.name not in order)
    files.sort(key=lambda f: order.index(f.name) if f.name in order else len(order))
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def served(plane: ControlPlane, documents: Sequence[Json]) -> list[Json]:
    """Return the documents whose kind the API server serves.

    MutatingAdmissionPolicy came with Kubernetes 1.36, and nothing depends on it.
    """
    known = {found["kind"] for found in plane.api.get("/apis/admissionregistration.k8s.io/v1")["resources"]}
    return [one for one in documents if one["kind"] in known or "MutatingAdmissionPolicy" not in one["kind"]]


def shipped(name: str, key: str) -> Json:
    """Return the document that a shipped ConfigMap has under ``key``."""
    found = next(d for d in manifests() if d["kind"] == "ConfigMap" and d["metadata"]["name"] == name)
    document: Json = yaml.safe_load(found["data"][key])
    return document


def merged(base: Json, changes: Mapping[str, Any]) -> Json:
    """Return ``base`` with ``changes`` merged into it, mapping by mapping."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return result


@dataclass(slots=True)
class Kohort:
    """The running parts; ``url`` serves REST and verbs, ``health`` the extender's probes and metrics."""

    plane: ControlPlane
    scheduler: Process
    extender: Process
    controller: Process
    url: str
    health: str
    controller_health: str

    def get(self, path: str, **query: str) -> Any:
        """Return the answer of the extender's REST at that path."""
        answer = httpx.get(f"{self.url}{path}", params=query, timeout=60, trust_env=False)
        answer.raise_for_status()
        return answer.json()

    def wait_ready(self, limit: float = READY_LIMIT) -> None:
        """Wait until the extender's /readyz succeeds."""
        self.extender.wait_until(lambda: _ok(f"{self.health}/readyz"), "ready", limit)

    def stop(self) -> None:
        """Stop the three parts."""
        for process in (self.controller, self.scheduler, self.extender):
            process.stop()


def start_kohort(
    plane: ControlPlane,
    settings: Mapping[str, Any] | None = None,
    scheduler: Mapping[str, Any] | None = None,
    name: str = "kohort",
    ports: Sequence[int] = (),
    api_url: str = "",
    hostname: str = HOSTNAME,
) -> Kohort:
    """Apply the manifests, start scheduler, extender and controller, and wait until the extender is ready.

    ``settings`` and ``scheduler`` are merged into the shipped ones; the scheduler's httpTimeout and back-offs follow
    the settings. ``ports`` are those of the verbs, of the extender's probes and of the controller's probes; a port that
    is taken is replaced by a free one. ``hostname`` is that of the pod, with which its identity in the Lease begins.
    ``api_url`` is where extender and controller find the API server, for example a proxy.

    Raises ControlPlaneError if a part does not start.
    """
    plane.apply(*served(plane, manifests()))
    _await_rights(plane)
    verbs, health, controller_health = preferred_ports(ports) if ports else free_ports(3)
    config = _settings(plane, settings or {}, verbs, health, controller_health, name, hostname)
    urls = {"extender": api_url, "controller": api_url, "scheduler": ""}
    accounts = {
        part: plane.service_account_kubeconfig(NAMESPACE, f"kohort-{part}", url=url) for part, url in urls.items()
    }
    extender = _start(plane, f"{name}-extender", "serve", config, accounts["extender"])
    controller = _start(plane, f"{name}-controller", "controller", config, accounts["controller"])
    kube_scheduler = plane.start_scheduler(
        _scheduler_config(plane, config, scheduler or {}, verbs, name),
        f"{name}-scheduler",
        accounts["scheduler"],
        hostname,
    )
    kohort = Kohort(
        plane, kube_scheduler, extender, controller, f"http://{LOOPBACK}:{verbs}", f"http://{LOOPBACK}:{health}",
        f"http://{LOOPBACK}:{controller_health}",
    )  # fmt: skip
    try:
        kohort.wait_ready()
    except ControlPlaneError:
        kohort.stop()  # The parts are stopped, because a retried test starts processes with the same names.
        raise
    return kohort


def _settings(
    plane: ControlPlane,
    changes: Mapping[str, Any],
    verbs: int,
    health: int,
    controller_health: int,
    name: str,
    hostname: str,
) -> Path:
    ports = {
        "server": {"port": verbs, "health_host": LOOPBACK, "health_port": health},
        "controller": {
            "service_url": f"http://{LOOPBACK}:{verbs}",
            "health_host": LOOPBACK,
            "health_port": controller_health,
        },
        "lease": {"identity": hostname},
    }
    path = plane.workdir / f"{name}.yaml"
    path.write_text(yaml.safe_dump(merged(merged(shipped("kohort-settings", "kohort.yaml"), ports), changes)))
    return path


def _scheduler_config(plane: ControlPlane, settings: Path, changes: Mapping[str, Any], port: int, name: str) -> Path:
    ours = yaml.safe_load(settings.read_text())
    config = merged(shipped("kohort-scheduler-config", "kube-scheduler.yaml"), changes)
    for extender in config["extenders"]:
        extender["urlPrefix"] = f"http://{LOOPBACK}:{port}/scheduler/v1"
        extender["httpTimeout"] = f"{ours['barrier']['http_timeout_seconds']}s"
    path = plane.workdir / f"{name}-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def _start(plane: ControlPlane, name: str, command: str, config: Path, kubeconfig: Path) -> Process:
    environment = {"PYTHONPATH": str(CHECKOUT), "KOHORT_KUBECONFIG": str(kubeconfig)}
    return plane.start_process(
        name, sys.executable, "-m", "extender", command, "--config", str(config), environment=environment
    )


def _await_rights(plane: ControlPlane) -> None:
    """Wait until the API server grants the rights, because the parts would start with refusals while its RBAC caches
    are old.
    """
    question = ("auth", "can-i", "create", "pods", "--subresource=binding", "-A")
    account = f"--as=system:serviceaccount:{NAMESPACE}:kohort-extender"
    deadline = time.monotonic() + READY_LIMIT
    while not _allowed(plane, *question, account):
        if time.monotonic() > deadline:
            raise ControlPlaneError("the ServiceAccounts' rights were not seen")
        time.sleep(0.1)


def _allowed(plane: ControlPlane, *question: str) -> bool:
    try:
        return plane.kubectl(*question).strip() == "yes"
    except ControlPlaneError:
        return False


def _ok(url: str) -> bool:
    try:
        return httpx.get(url, timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False
