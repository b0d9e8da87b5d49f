"""With a token, or with a Service that is named, the service is reached through the API server's proxy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.unit.cli.conftest import PROXY, Server

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_CLI_SERVICE", "kohort-system/kohort:8900")


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
    assert server.asked == ["/api/v1/namespaces/ml/services/https:own:web/proxy/v1/jobs"]
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


def test_a_token_alone_names_the_service(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KOHORT_CLI_SERVICE")
    (tmp_path / "token").write_text("for-kohort")
    assert by_kubeconfig("--token-file", str(tmp_path / "token"), "jobs").exit_code == 0
    assert server.asked == [f"{PROXY}/v1/jobs"]


def test_an_unusable_kubeconfig_is_told(by_kubeconfig: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/such")
    found = by_kubeconfig("jobs")
    assert found.exit_code == 1
    assert "no kubeconfig names a cluster ('/no/such': no such file)" in found.stderr
    assert "set KUBECONFIG, or forward its port" in found.stderr


def test_a_token_for_the_service_goes_beside_the_one_for_the_api_server(
    by_kubeconfig: Run, server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("for-kohort\n")
    assert by_kubeconfig("jobs", "--token-file", str(file)).exit_code == 0
    assert server.headers[-1]["x-kohort-authorization"] == "Bearer for-kohort"
    assert "authorization" not in server.headers[-1], "by plain HTTP the API server is shown nothing, as by kubectl"
    assert by_kubeconfig("jobs").exit_code == 0
    assert "x-kohort-authorization" not in server.headers[-1], "no token is handed on that nobody has named"


def test_a_service_is_given_the_token_that_was_named(kohort: Run, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("for-kohort\n")
    assert kohort("--token-file", str(file), "jobs").exit_code == 0
    assert server.headers[-1]["authorization"] == "Bearer for-kohort"


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (
        ("--token-file", "{tmp}/none"),
        "none cannot be read: No such file or directory; create a token, and name the file that holds it: "
        "kubectl create token NAME --audience kohort.dev > FILE",
    ),
    "no text": (("--token-file", "{tmp}/binary"), "binary cannot be read: it is not a text file; create a token"),
    "an empty one": (("--token-file", "{tmp}/empty"), "does not hold a token; allowed: one token"),
    "two tokens": (("--token-file", "{tmp}/two"), "does not hold a token"),
    "in the clear": (("--token-file", "{tmp}/good", "--server", "http://kohort.example"), "allowed: an https:// URL"),
    "no CA": (("--ca-file", "{tmp}/good", "--server", "https://127.0.0.1:1"), "is not a PEM certificate"),
}


@pytest.mark.parametrize(("args", "text"), WRONG.values(), ids=WRONG.keys())
def test_a_token_or_ca_that_is_of_no_use_is_told(kohort: Run, tmp_path: Path, args: tuple[str, ...], text: str) -> None:
    for name, content in {"empty": "", "two": "a b", "good": "a"}.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "binary").write_bytes(b"\xff")
    found = kohort("jobs", *(arg.replace("{tmp}", str(tmp_path)) for arg in args))
    assert (found.exit_code, text in found.stderr) == (2, True), found.output


def test_without_a_token_it_is_told_how_to_give_one(by_kubeconfig: Run, server: Server) -> None:
    server.proxied = {"code": 401, "detail": "no token; send one", "status": 401}
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "no token; send one; name a file that holds one with --token-file" in found.stderr) == (
        1, True,
    )  # fmt: skip


def test_a_replica_that_does_not_lead_is_not_the_last_word(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.cli.service.AGAIN_SECONDS", 0.0)
    server.followers = 3
    assert by_kubeconfig("jobs").exit_code == 0
    server.followers = 99
    found = by_kubeconfig("jobs")
    assert (found.exit_code, "this replica does not lead" in found.stderr) == (1, True)
