"""The service is found by kubeconfig, through the API server's proxy, else on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from tests.unit.cli.conftest import PROXY, Server

Run = Callable[..., Result]


def test_questions_go_through_the_api_server(by_kubeconfig: Run, server: Server) -> None:
    assert json.loads(by_kubeconfig("queue", "-o", "json").stdout)["jobs"][0]["name"] == "big"
    assert server.asked == [f"{PROXY}/v1/queue?expected=true"]
    by_kubeconfig("what-if", "--cordon", "n1")
    assert server.asked[-1][0] == f"{PROXY}/v1/what-if"
    assert server.asked[-1][1]["cordon"] == ["n1"]


def test_the_context_names_the_namespace_of_a_job(by_kubeconfig: Run, server: Server) -> None:
    assert by_kubeconfig("explain", "big").exit_code == 0
    assert server.asked == [f"{PROXY}/v1/explain/team/big?unblock=true"]


def test_another_service(by_kubeconfig: Run, server: Server) -> None:
    by_kubeconfig("jobs", "--service", "ml/own:web")
    assert server.asked == ["/api/v1/namespaces/ml/services/http:own:web/proxy/v1/jobs"]
    found = by_kubeconfig("jobs", "--service", "own")
    assert (found.exit_code, "allowed: NAMESPACE/NAME:PORT" in found.stderr) == (2, True)


def test_kohorts_own_refusal_comes_through(by_kubeconfig: Run) -> None:
    found = by_kubeconfig("explain", "team/x")
    assert (found.exit_code, "no job team/x is known; one of big" in found.stderr) == (1, True)


def test_a_missing_right_is_named(by_kubeconfig: Run, server: Server) -> None:
    server.proxied = {"kind": "Status", "code": 403, "message": "services is forbidden"}
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "services/proxy of kohort in kohort-system" in found.stderr) == (1, True)


def test_without_that_service_it_is_looked_for_on_this_machine(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.proxied = {"kind": "Status", "code": 404, "message": 'services "kohort" not found'}
    found = by_kubeconfig("jobs")
    assert found.exit_code == 1
    assert 'services "kohort" not found; nor at http://127.0.0.1:1' in found.stderr
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    assert by_kubeconfig("jobs").exit_code == 0


def test_an_unusable_kubeconfig_is_told(by_kubeconfig: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/such")
    found = by_kubeconfig("jobs")
    assert found.exit_code == 1
    assert "no usable kubeconfig" in found.stderr
    assert "set KUBECONFIG, or forward its port" in found.stderr
