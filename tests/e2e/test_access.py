"""Tests of REST for people on the real API server: tokens and rights of two teams and an admin."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
import yaml

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import CHECKOUT, HOSTNAME, Kohort, start_kohort
from tests.controlplane.ports import LOOPBACK, free_ports
from tests.e2e.asking import metric, nodes_of
from tests.e2e.gangs import submit
from tests.e2e.kubelet import kubelet
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
COMPONENT = CHECKOUT / "manifests" / "components" / "api"
BLUE, RED, SYSTEM = "team-blue", "team-red", "kohort-system"
REVIEW_SECONDS = 1.0
OWN = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RESTRICTED: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{"name": "extender", "image": "none", "securityContext": OWN}],
}


def own_address() -> str:
    """Return an address of this machine that the API server's proxy may call, or loopback if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 1))  # Connecting a datagram socket sends nothing.
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


@dataclass(slots=True)
class People:
    """A client of Kohort's authenticated REST listener (the component `api`), under the name in its certificate."""

    plane: ControlPlane
    kohort: Kohort
    host: str
    port: int
    ca: Path

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    def ask(self, path: str, token: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = ssl.create_default_context(cafile=str(self.ca))
        method = "POST" if "json" in options else "GET"
        return httpx.request(
            method, f"{self.url}{path}", headers=headers, verify=verify, timeout=60, trust_env=False, **options
        )

    def token(self, namespace: str, audience: str = "kohort.dev", account: str = "reader") -> str:
        return self.plane.kubectl("create", "token", account, "-n", namespace, f"--audience={audience}").strip()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane with one node of eight cores.

    Its controller manager adds Kohort's rights to the cluster role ``view``.
    """
    shape = NodeShape(count=1, cpu="8")
    workdir = tmp_path_factory.mktemp("access")
    with ControlPlane.start(shape, workdir=workdir, controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def people(plane: ControlPlane) -> Iterator[People]:
    """Yield a running Kohort with jobs of two teams, a reader in each team, and an admin.

    The blue team's reader has the cluster role ``view``, the red team's reader has ``kohort-view``.
    """
    host, (port,), ca = own_address(), free_ports(1), trustme.CA()
    folder = plane.workdir / "tls"
    folder.mkdir()
    leaf = ca.issue_cert(host, LOOPBACK)
    leaf.cert_chain_pems[0].write_to_path(str(folder / "tls.crt"))
    leaf.private_key_pem.write_to_path(str(folder / "tls.key"))
    ca.cert_pem.write_to_path(str(folder / "ca.crt"))
    api = {
        "enabled": True, "host": host, "port": port, "certificate": str(folder / "tls.crt"),
        "key": str(folder / "tls.key"), "review_seconds": REVIEW_SECONDS,
    }  # fmt: skip
    plane.apply(COMPONENT / "rbac.yaml")
    kohort = start_kohort(plane, {"api": api})
    for namespace, role in ((BLUE, "view"), (RED, "kohort-view")):
        plane.kubectl("create", "namespace", namespace)
        plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
        given = (f"--clusterrole={role}", f"--serviceaccount={namespace}:reader")
        plane.kubectl("create", "rolebinding", "reader", "-n", namespace, *given)
    plane.kubectl("create", "serviceaccount", "admin", "-n", SYSTEM)
    plane.kubectl(
        "create", "clusterrolebinding", "admin", "--clusterrole=kohort-view", f"--serviceaccount={SYSTEM}:admin"
    )
    runs = submit(plane, TFJob(RED, "red-runs", workers=2, ps=1, worker_cpu="2"))
    until(lambda: len(nodes_of(plane, RED, runs.name)) == 3, "bound")
    submit(plane, TFJob(RED, "red-waits", workers=4, ps=1, worker_cpu="2", utility="50"))
    submit(plane, TFJob(BLUE, "blue-waits", workers=4, ps=1, worker_cpu="2", utility="1"))
    until(lambda: len(kohort.get("/v1/queue")["jobs"]) == 2, "both wait")
    yield People(plane, kohort, host, port, folder / "ca.crt")
    kohort.stop()


PATHS = ("/v1/jobs", "/v1/queue?expected=true", "/v1/nodes", "/v1/plans", "/v1/decisions", "/", "/parts")


def lets_in(people: People, token: str, status: int = 200) -> None:
    """Wait until ``/v1/jobs`` answers a call with this token with this HTTP status."""
    until(lambda: people.ask("/v1/jobs", token).status_code == status, f"answered by {status}")


@pytest.mark.parametrize(("own", "other"), [(BLUE, RED), (RED, BLUE)])
def test_each_team_is_told_of_its_own_jobs_alone(people: People, own: str, other: str) -> None:
    token = people.token(own)
    lets_in(people, token)
    for path in PATHS:
        text = people.ask(path, token).text
        assert other not in text, path
        assert other.removeprefix("team-") + "-" not in text, path
    names = {job["namespace"] for job in people.ask("/v1/jobs", token).json()["jobs"]}
    assert names == {own}


def test_what_is_ahead_is_counted_and_not_named(people: People) -> None:
    token = people.token(BLUE)
    lets_in(people, token)
    (queued,) = people.ask("/v1/queue", token).json()["jobs"]
    assert queued["position"] == 2
    told = people.ask(f"/v1/explain/{BLUE}/blue-waits?unblock=true", token)
    assert [one["job"] for one in told.json()["ahead"]] == ["a job of another namespace"]
    assert "red" not in told.text.replace("required", "")


def test_an_admin_is_told_everything(people: People) -> None:
    token = people.token(SYSTEM, account="admin")
    lets_in(people, token)
    seen = {job["namespace"] for job in people.ask("/v1/jobs", token).json()["jobs"]}
    assert seen == {BLUE, RED}
    assert people.ask("/v1/desired", token).json()["generation"] > 0


def test_who_has_no_token_or_no_right_is_told_what_is_missing(people: People) -> None:
    token = people.token(BLUE)
    lets_in(people, token)
    for wrong in ("", token[:-6] + "AAAAAA", people.token(BLUE, audience="https://kubernetes.default.svc")):
        answer = people.ask("/v1/jobs", wrong)
        assert (answer.status_code, answer.json()["title"]) == (401, "Unauthorized")
    answer = people.ask(f"/v1/explain/{RED}/red-waits", token)
    assert answer.status_code == 403
    reader = f"system:serviceaccount:{BLUE}:reader may not list jobs.kohort.dev in namespace {RED}"
    assert reader in answer.json()["detail"]
    assert people.ask("/v1/desired", token).status_code == 403
    assert people.ask("/scheduler/v1/bind", token, json={}).status_code == 403
    manifest = TFJob(RED, "new", workers=1).manifest()
    assert people.ask("/v1/what-if", token, json={"job": manifest}).status_code == 403


def kohort_says(people: People, *arguments: str) -> str:
    """Run ``kohort jobs`` with these options and the blue team's token; return its output."""
    file = people.plane.workdir / "blue-token"
    file.write_text(people.token(BLUE))
    command = [sys.executable, "-m", "extender", "jobs", "-o", "wide", "--token-file", str(file), *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_brings_the_token(people: People) -> None:
    lets_in(people, people.token(BLUE))
    said = kohort_says(people, "--server", people.url, "--ca-file", str(people.ca))
    assert "blue-waits" in said
    assert "red-" not in said


def serve_through_a_service(people: People) -> None:
    """Create the component's Service with a pod at this machine's address, because the API server calls only pods."""
    meta = {"name": "kohort", "namespace": SYSTEM}
    people.plane.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": RESTRICTED | {"schedulerName": "nobody"}}
    )
    status = {"phase": "Running", "podIP": people.host, "podIPs": [{"ip": people.host}]}
    people.plane.kubectl(
        "patch", "pod", "kohort", "-n", SYSTEM, "--subresource=status", "-p", json.dumps({"status": status})
    )
    service: Json = yaml.safe_load((COMPONENT / "service.yaml").read_text())
    del service["spec"]["selector"]
    target = {"kind": "Pod", "namespace": SYSTEM, "name": "kohort"}
    ports = [{"name": "https", "port": people.port, "protocol": "TCP"}]
    ours, theirs = {"kubernetes.io/service-name": "kohort"}, {"endpointslice.kubernetes.io/skip-mirror": "true"}
    people.plane.apply(
        service,
        {
            "apiVersion": "v1", "kind": "Endpoints", "metadata": meta | {"labels": theirs},
            "subsets": [{"addresses": [{"ip": people.host, "targetRef": target}], "ports": ports}],
        },
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta | {"labels": ours},
            "addressType": "IPv4", "ports": ports,
            "endpoints": [{"addresses": [people.host], "conditions": {"ready": True}, "targetRef": target}],
        },
    )  # fmt: skip


def reached(people: People, path: str) -> bool:
    try:
        people.plane.kubectl("get", "--raw", path)
    except ControlPlaneError as error:
        print(error)
        return False
    return True


def test_through_the_api_servers_proxy_the_token_counts_and_not_who_opened_the_proxy(people: People) -> None:
    if people.host == LOOPBACK:
        pytest.skip("this machine has no address but loopback, which the API server's proxy refuses")
    serve_through_a_service(people)
    proxy = f"/api/v1/namespaces/{SYSTEM}/services/https:kohort:8900/proxy"
    until(partial(reached, people, f"{proxy}/openapi.json"), "the Service is known to the proxy")
    lets_in(people, people.token(BLUE))
    said = kohort_says(people, "--kubeconfig", str(people.plane.admin_kubeconfig))
    assert "blue-waits" in said
    assert "red-" not in said, "the kubeconfig is the cluster admin's, the token is not"
    assert not reached(people, f"{proxy}/v1/jobs"), "whoever opens the proxy is nobody to Kohort"


RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: forwards, namespace: kohort-system}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [list]}
  - {apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: forwards, namespace: kohort-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: forwards}
subjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lists, namespace: kohort-system}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lists, namespace: kohort-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lists}
subjects: [{kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}]
"""


def stand_on_a_node(people: People, port: int) -> None:
    """Create three pods of Kohort's Deployment on a node whose kubelet has that port; the second one is the leader."""
    plane, node = people.plane, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}}
    address = {"type": "InternalIP", "address": LOOPBACK}
    plane.api.create("/api/v1/nodes", node)
    plane.kubectl(
        "patch", "node", "theirs", "--subresource=status", "-p",
        json.dumps({"status": {"addresses": [address], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}),
    )  # fmt: skip
    labels = {"app.kubernetes.io/name": "kohort", "app.kubernetes.io/component": "scheduler"}
    spec = RESTRICTED | {"nodeName": "theirs"}
    for name in ("another", HOSTNAME, "other"):
        meta = {"name": name, "namespace": SYSTEM, "labels": labels}
        plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        running = json.dumps({"status": {"phase": "Running"}})
        plane.kubectl("patch", "pod", name, "-n", SYSTEM, "--subresource=status", "-p", running)


def asks(people: People, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``kohort`` with a kubeconfig that has the user's client certificate and no token."""
    kubeconfig = people.plane.layout.pki.user_kubeconfig(people.plane.url, user)
    command = [sys.executable, "-m", "extender", *arguments, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def test_as_installed_a_kubeconfig_and_the_right_to_forward_ports_are_enough(people: People) -> None:
    target = urlsplit(people.kohort.url).port
    assert target is not None
    with kubelet(HOSTNAME, 8900, target, people.plane.workdir) as port:
        stand_on_a_node(people, port)
        assert 'User "eve" cannot list resource "pods"' in asks(people, "eve", "queue").stderr
        people.plane.apply(RIGHTS)
        told = ""

        def said(user: str, what: str) -> bool:  # The API server caches rights, so the answer may change later.
            nonlocal told
            found = asks(people, user, "queue", "-o", "json")
            told = found.stdout + found.stderr
            return what in told

        until(lambda: said("ann", "red-waits"), "the queue", seen=lambda: told)
        until(lambda: said("bob", "the right to get and create pods/portforward"), "refused", seen=lambda: told)
        manifest = people.plane.workdir / "new.json"
        manifest.write_text(json.dumps(TFJob(BLUE, "new", workers=1, worker_cpu="100m").manifest()))
        question = asks(people, "ann", "what-if", "-f", str(manifest))
        assert "new" in question.stdout, question.stderr


def test_a_right_that_is_taken_away_ends_the_stream_and_the_answers(people: People) -> None:
    token = people.token(RED)
    lets_in(people, token)
    verify = ssl.create_default_context(cafile=str(people.ca))
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream(
        "GET", f"{people.url}/v1/stream", headers=headers, verify=verify, timeout=60, trust_env=False
    ) as stream:
        assert stream.status_code == 200
        people.plane.kubectl("delete", "rolebinding", "reader", "-n", RED)
        assert "event: revision" in stream.read().decode(), "it has ended"
    lets_in(people, token, 403)


def test_when_the_api_server_does_not_answer_us_nobody_is_let_in(people: People) -> None:
    token = people.token(SYSTEM, account="admin")
    lets_in(people, token)
    people.plane.kubectl("delete", "clusterrolebinding", "kohort-api")
    lets_in(people, token, 503)
    answer = people.ask("/v1/jobs", token)
    assert answer.headers["retry-after"] == "5"
    assert "subjectaccessreviews" in answer.json()["detail"]
    assert people.kohort.get("/v1/jobs")["jobs"], "loopback is not asked for a token"
    people.kohort.wait_ready()


def test_with_the_rights_of_an_older_version_the_rest_works_and_the_kind_is_named(people: People) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kohort-extender"
    rules = people.plane.api.get(role)["rules"]
    older = [rule for rule in rules if rule["apiGroups"] not in (["batch"], ["jobset.x-k8s.io"])]
    assert len(older) == len(rules) - 2
    people.plane.api.patch(role, {"rules": older})
    kohort = people.kohort
    kohort.extender.restart()
    try:
        until(lambda: "[!]rights" in readiness(kohort), "told")
        kohort.wait_ready(60)
        said = readiness(kohort)
        assert "may not read jobs.batch, jobsets.jobset.x-k8s.io" in said
        assert metric(kohort.health, "kohort_watch_forbidden") == 2
        until(lambda: len(kohort.get("/v1/jobs")["jobs"]) == 3, "the TFJobs are known")
    finally:
        people.plane.api.patch(role, {"rules": rules})
    until(lambda: "[!]rights" not in readiness(kohort), "taken up with the right")


def readiness(kohort: Kohort) -> str:
    try:
        return httpx.get(f"{kohort.health}/readyz?verbose", timeout=60, trust_env=False).text
    except httpx.TransportError:
        return ""
