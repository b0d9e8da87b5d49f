"""Tests of the cluster's own kube-scheduler with Kohort over mutual TLS (manifests/overlays/shared-scheduler)."""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import yaml

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import CHECKOUT, Kohort, manifests, merged, start_kohort
from tests.controlplane.ports import LOOPBACK, free_ports
from tests.controlplane.process import Process
from tests.e2e.asking import nodes_of
from tests.e2e.gangs import create_pod, lone_pod, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
OVERLAY = CHECKOUT / "manifests" / "overlays" / "shared-scheduler"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kohort-system/leases/kohort-extender"
FILTER = {"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}, "NodeNames": ["node-0"]}
WINDOW = 4.0
HANDED_OVER = 8.0  # The next leader is ready within so many seconds: two checks of the Lease, and the probe's delay.


def shipped(name: str) -> Json:
    document: Json = yaml.safe_load((OVERLAY / name).read_text())
    return document


SETTINGS: Json = yaml.safe_load(shipped("settings.yaml")["data"]["kohort.yaml"])
CONFIG = shipped("kube-scheduler.yaml")
SERVER_NAME = CONFIG["extenders"][0]["tlsConfig"]["serverName"]
(PEER,) = SETTINGS["server"]["tls"]["peers"]


@dataclass(slots=True)
class Certificates:
    """Two CAs, for the extender's and its callers' certificates, and the files that extender and callers read."""

    folder: Path
    servers: trustme.CA = field(default_factory=trustme.CA)
    callers: trustme.CA = field(default_factory=trustme.CA)

    def write(self) -> None:
        """Write both CAs, and new certificates and keys for the extender and for kube-scheduler."""
        self.rotate()
        self.servers.cert_pem.write_to_path(str(self.folder / "server-ca.crt"))
        self.callers.cert_pem.write_to_path(str(self.folder / "ca.crt"))
        caller = self.callers.issue_cert("client.invalid", common_name=PEER)
        caller.private_key_pem.write_to_path(str(self.folder / "client.key"))
        caller.cert_chain_pems[0].write_to_path(str(self.folder / "client.crt"))

    def rotate(self) -> None:
        """Replace the extender's key and then its certificate, so that for a moment they do not match."""
        leaf = self.servers.issue_cert(SERVER_NAME)
        (self.folder / "tls.key").write_bytes(leaf.private_key_pem.bytes())
        time.sleep(0.1)
        (self.folder / "tls.crt").write_bytes(leaf.cert_chain_pems[0].bytes())

    def caller(self, name: str = PEER, ca: trustme.CA | None = None) -> ssl.SSLContext:
        """Return the TLS context of a caller whose certificate has that name, from ``ca`` or the right CA."""
        context = ssl.create_default_context(cafile=str(self.folder / "server-ca.crt"))
        context.check_hostname = False
        (ca or self.callers).issue_cert("client.invalid", common_name=name).configure_cert(context)
        return context


@dataclass(slots=True)
class Shared:
    """A Kohort, the certificates, and the address of the verbs, which the cluster's kube-scheduler calls."""

    kohort: Kohort
    certificates: Certificates
    url: str

    def status(self, context: ssl.SSLContext) -> int:
        """Return the HTTP status of a filter call, or 0 if the TLS handshake fails."""
        try:
            with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
                return client.post(f"{self.url}/filter", json=FILTER).status_code
        except httpx.TransportError:
            return 0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    workdir = tmp_path_factory.mktemp("shared")
    with ControlPlane.start(NodeShape(count=6, cpu="10"), workdir=workdir, controller_manager=True) as started:
        yield started


def settings_of(folder: Path, port: int) -> Json:
    """Return the overlay's settings with this machine's ports and files."""
    files = {"certificate": "tls.crt", "key": "tls.key", "client_ca": "ca.crt"}
    tls = SETTINGS["server"]["tls"] | {key: str(folder / name) for key, name in files.items()}
    tls |= {"host": LOOPBACK, "port": port}
    lease = SETTINGS["lease"] | {"identity": ""}
    return {**{key: SETTINGS[key] for key in ("barrier", "scheduler")}, "lease": lease, "server": {"tls": tls}}


def leader_binding() -> Json:
    """Return the admission policy's binding that names the leader's Lease, with the overlay's patch applied."""
    patch = shipped("leader-policy.yaml")
    of = (patch["kind"], patch["metadata"]["name"])
    (base,) = (one for one in manifests() if (one["kind"], one["metadata"]["name"]) == of)
    return merged(base, patch)


@pytest.fixture(scope="module")
def shared(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    certificates.write()
    plane.apply(*manifests(), OVERLAY / "lease.yaml")
    (port,) = free_ports(1)
    url = f"https://{LOOPBACK}:{port}/scheduler/v1"
    kohort = start_kohort(plane, settings_of(certificates.folder, port), name="shared")
    plane.apply(leader_binding())
    kohort.scheduler.stop()  # The overlay has no kube-scheduler in Kohort's pod.
    extender = CONFIG["extenders"][0] | {"urlPrefix": url}
    extender["tlsConfig"] = {"serverName": SERVER_NAME} | {
        key: str(certificates.folder / name)
        for key, name in (("caFile", "server-ca.crt"), ("certFile", "client.crt"), ("keyFile", "client.key"))
    }
    path = plane.workdir / "shared-scheduler.yaml"
    path.write_text(yaml.safe_dump(CONFIG | {"extenders": [extender], "leaderElection": {"leaderElect": False}}))
    kohort.scheduler = plane.start_scheduler(path, "shared-kube-scheduler")
    yield Shared(kohort, certificates, url)
    kohort.stop()


def test_jobs_are_bound_whole_while_certificates_rotate(plane: ControlPlane, shared: Shared, space: str) -> None:
    """The extender's certificate is replaced every few hundred milliseconds, and no call fails.

    Pods that did not opt in are scheduled too.
    """
    shown = set()
    with ClusterObserver(plane, space) as observer:
        jobs = []
        for number in range(8):
            jobs.append(submit(plane, TFJob(space, f"gang-{number}", workers=4)))
            create_pod(plane, space, lone_pod(f"plain-{number}", scheduler="default-scheduler"))
            shared.certificates.rotate()
            assert shared.status(shared.certificates.caller()) == httpx.codes.OK
            shown.add(_certificate_of(shared))
            time.sleep(0.3)
        until(lambda: len(nodes_of(plane, space)) == 8 * 6, "all bound")
        assert max(observer.partial_seconds(job.name, 5) for job in jobs) <= WINDOW
    assert len(shown) == 8, "each call was shown the newest certificate"
    log = shared.kohort.scheduler.log.read_text()
    assert not [line for line in log.splitlines() if "x509" in line or "tls:" in line]


def _certificate_of(shared: Shared) -> str:
    host, port = shared.url.removeprefix("https://").split("/")[0].split(":")
    return ssl.get_server_certificate((host, int(port)))


def test_nobody_else_reaches_the_verbs(shared: Shared) -> None:
    certificates = shared.certificates
    assert shared.status(certificates.caller()) == httpx.codes.OK
    assert shared.status(certificates.caller("system:node:a")) == httpx.codes.FORBIDDEN
    assert shared.status(certificates.caller(ca=certificates.servers)) == 0
    anonymous = ssl.create_default_context(cafile=str(certificates.folder / "server-ca.crt"))
    anonymous.check_hostname = False
    assert shared.status(anonymous) == 0
    log = shared.kohort.extender.log.read_text()
    assert "system:node:a" in log, "who was refused is logged"
    plain = httpx.post(f"{shared.kohort.url}/scheduler/v1/filter", json=FILTER, trust_env=False)
    assert plain.status_code == httpx.codes.NOT_FOUND, "the plain listener has REST only"
    assert shared.kohort.get("/v1/jobs")


def second_extender(plane: ControlPlane, shared: Shared) -> tuple[Process, str]:
    """Start a second extender on its own ports; return its process and the address of its health checks."""
    tls, port, health = free_ports(3)
    config = yaml.safe_load((plane.workdir / "shared.yaml").read_text())
    config["server"] |= {"port": port, "health_port": health}
    config["server"]["tls"]["port"] = tls
    path = plane.workdir / "second.yaml"
    path.write_text(yaml.safe_dump(config))
    rights = plane.service_account_kubeconfig("kohort-system", "kohort-extender")
    environment = {"PYTHONPATH": str(CHECKOUT), "KOHORT_KUBECONFIG": str(rights)}
    command = (sys.executable, "-m", "extender", "serve", "--config", str(path))
    return plane.start_process("second-extender", *command, environment=environment), f"http://{LOOPBACK}:{health}"


def test_only_the_leader_is_ready_and_another_takes_over(plane: ControlPlane, shared: Shared) -> None:
    second, health = second_extender(plane, shared)
    try:
        second.wait_until(lambda: "[+]rebuilt" in _readyz(health), "rebuilt", 180)
        leader = plane.api.get(LEASE)["spec"]["holderIdentity"]
        assert "[-]leading no: a follower" in _readyz(health)
        assert "[+]leading yes" in _readyz(shared.kohort.health)
        shared.kohort.extender.stop()
        took = until(lambda: "[+]leading yes" in _readyz(health), "the other one leading", HANDED_OVER)
        print(f"took over {took:.1f} s after the leader was stopped")
        assert plane.api.get(LEASE)["spec"]["holderIdentity"] != leader
    finally:
        second.stop()
    shared.kohort.extender.start()
    shared.kohort.wait_ready()


def _readyz(health: str) -> str:
    try:
        return httpx.get(f"{health}/readyz", params={"verbose": ""}, timeout=60, trust_env=False).text
    except httpx.TransportError:
        return ""
