"""Without a token the service is reached by a forwarded port of the pod that leads, as kubectl would forward it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from typer.testing import CliRunner, Result

from extender.cli import commands
from extender.cli.viaapiserver import RestRequest
from extender.kube.api import ClusterError
from extender.kube.userapi import exchange_over
from tests.unit.cli.conftest import Json, Server

Run = Callable[..., Result]
PODS = "/api/v1/namespaces/kohort-system/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kohort-system/leases"
PORT = (8900).to_bytes(2, "little")


def pods(*names: str) -> Json:
    return {"kind": "PodList", "items": [{"metadata": {"name": name}} for name in names]}


def lease(holder: str) -> Json:
    return {"metadata": {"name": "l"}, "spec": {"holderIdentity": f"{holder}_1234"}}


LEADS: dict[str, tuple[Json, Json, str]] = {
    "the one of the Lease": (pods("a", "b", "c"), {f"{LEASES}/kohort-scheduler": lease("b")}, "b"),
    "the elected extender": (pods("a", "b"), {f"{LEASES}/kohort-extender": lease("b")}, "b"),
    "the only one": (pods("a"), {}, "a"),
    "any, where nobody leads": (pods("b", "a"), {f"{LEASES}/kohort-scheduler": lease("gone")}, "a"),
}


@pytest.mark.parametrize(("listed", "leases", "asked"), LEADS.values(), ids=LEADS.keys())
def test_the_pod_that_leads_is_asked(
    by_kubeconfig: Run, server: Server, listed: Json, leases: Json, asked: str
) -> None:
    server.cluster = {PODS: listed, **leases}
    server.forwards = 403
    assert f"port 8900 of pod {asked}" in by_kubeconfig("jobs").stderr
    assert server.asked[-1] == f"{PODS}/{asked}/portforward?ports=8900"


def test_a_missing_right_is_named(by_kubeconfig: Run, server: Server) -> None:
    server.cluster, server.forwards = {PODS: pods("a")}, 403
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "get and create pods/portforward in kohort-system" in found.stderr) == (1, True)
    server.cluster = {PODS: {"kind": "Status", "code": 403, "message": "pods is forbidden"}}
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "pods is forbidden; ask its administrator for the right to list pods" in found.stderr) == (
        1, True,
    )  # fmt: skip


def test_a_node_that_does_not_answer_is_told(by_kubeconfig: Run, server: Server) -> None:
    server.cluster, server.forwards = {PODS: pods("a")}, 502
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "Bad Gateway; see `kubectl -n kohort-system get pods`" in found.stderr) == (1, True)


def test_where_no_pod_of_kohort_runs_it_is_looked_for_on_this_machine(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_kubeconfig("jobs")
    assert found.exit_code == 1
    assert "no pod of Kohort runs in namespace kohort-system of that cluster; nor at http://127.0.0.1:1" in found.stderr
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    assert by_kubeconfig("jobs").exit_code == 0


NAMED = {
    "a file that is not there": (("--kubeconfig", "/no/such"), 2, "kubeconfig '/no/such': no such file"),
    "a context that is not there": (("--context", "elsewhere"), 2, "--context: 'elsewhere' is not allowed"),
    "a context without Kohort": (("--context", "here"), 1, "cannot reach the service: "),
}


@pytest.mark.parametrize(("options", "code", "told"), NAMED.values(), ids=NAMED.keys())
def test_where_a_cluster_is_named_no_other_one_is_asked(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch, options: tuple[str, str], code: int, told: str
) -> None:
    # the service at the default address may belong to another cluster
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    found = by_kubeconfig("jobs", *options)
    assert (found.exit_code, found.stdout, told in found.stderr) == (code, "", True)


@pytest.mark.parametrize(("named", "code"), [("/no/such", 1), ("", 0)], ids=["named", "none named"])
def test_a_kubeconfig_of_the_environment_names_a_cluster(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, code: int
) -> None:
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    monkeypatch.setenv("KUBECONFIG", named)
    assert CliRunner().invoke(commands.app, ["jobs"]).exit_code == code


# -- The tests below are about the bytes that go over the forwarded port. ------------------------


@dataclass
class Socket:
    """A fake web socket: it sends the given messages, and records what it receives."""

    says: list[bytes]
    sent: list[bytes] = field(default_factory=list)

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for data in self.says:
            yield aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)


async def exchange(*says: bytes, question: RestRequest | None = None) -> tuple[tuple[int, bytes], list[bytes]]:
    socket = Socket(list(says))
    written = (question or RestRequest("GET", "/v1/jobs", {})).written
    return await exchange_over(cast(aiohttp.ClientWebSocketResponse, socket), written), socket.sent


ANSWER = b'HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n{"a":1}'
CHUNKED = b'HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n'


@pytest.mark.parametrize("answer", [ANSWER, CHUNKED])
async def test_an_answer_in_any_pieces(answer: bytes) -> None:
    whole = PORT + answer
    for pieces in ([whole], [whole[:1], whole[1:]], [PORT, answer], [bytes([one]) for one in whole]):
        says = [b"\x01" + PORT, *(b"\x00" + piece for piece in pieces)]
        found, _ = await exchange(*says)
        assert found == (404, b'{"a":1}')


async def test_the_question_is_one_http_request() -> None:
    _, (sent,) = await exchange(
        b"\x00" + PORT + ANSWER, question=RestRequest("POST", "/v1/what-if", {"a": "b c"}, {"x": 1})
    )
    head, _, body = sent[1:].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert (sent[0], lines[0], body) == (0, "POST /v1/what-if?a=b+c HTTP/1.1", b'{"x": 1}')
    assert {"Host: 127.0.0.1:8900", "Content-Length: 8", "Connection: close"} <= set(lines)


BROKEN: dict[str, tuple[tuple[bytes, ...], str]] = {
    "refused": ((b"\x00" + PORT, b"\x01" + PORT, b"\x01connection refused"), "connection refused"),
    "cut short": ((b"\x00" + PORT + ANSWER[:-1],), "before its answer was whole"),
    "silent": ((), "before its answer was whole"),
    "another language": ((b"\x00" + PORT + b"SSH-2.0-OpenSSH_9.2\r\n",), "does not answer in HTTP"),
}


@pytest.mark.parametrize(("says", "why"), BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_answer_is_told(says: tuple[bytes, ...], why: str) -> None:
    with pytest.raises(ClusterError, match=why):
        await exchange(*says)
