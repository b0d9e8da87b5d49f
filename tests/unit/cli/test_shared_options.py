"""Options that may stand before or after a command: -n for a job, the kubeconfig, and options that a command does not
take.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from tests.unit.cli.bodies import ANSWERS
from tests.unit.cli.conftest import Server

Run = Callable[..., Result]
ROOT = Path(__file__).parents[3]


def question(server: Server) -> Any:
    return server.asked[-1][1]


# -- The tests below are about the namespace that a command asks about. --------------------------

PLACES = {
    "-n before": (("-n", "ml", "what-if"), (), "ml"),
    "-n after": (("what-if",), ("-n", "ml"), "ml"),
    "after is stronger": (("-n", "other", "what-if"), ("-n", "ml"), "ml"),
    "the context's": (("what-if",), (), "team"),
}


@pytest.mark.parametrize(("before", "after", "namespace"), PLACES.values(), ids=PLACES.keys())
def test_a_job_without_a_namespace_is_asked_about_in_that_of_n_or_of_the_context(
    kohort: Run, server: Server, kubeconfig: Path, tmp_path: Path,
    before: tuple[str, ...], after: tuple[str, ...], namespace: str,
) -> None:  # fmt: skip
    assert kohort(*before, "--workers", "1", *after).exit_code == 0
    assert question(server)["shape"]["namespace"] == namespace
    file = tmp_path / "job.yaml"
    file.write_text("kind: TFJob\nmetadata: {name: new}\n")
    assert kohort(*before, "-f", str(file), *after).exit_code == 0
    assert question(server)["job"]["metadata"] == {"name": "new", "namespace": namespace}


def test_without_a_kubeconfig_it_is_the_default_one(kohort: Run, server: Server) -> None:
    assert kohort("what-if", "--workers", "1").exit_code == 0
    assert question(server)["shape"]["namespace"] == "default"


def test_a_manifest_keeps_its_namespace_and_n_may_not_name_another(
    kohort: Run, server: Server, kubeconfig: Path, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: TFJob\nmetadata: {name: new, namespace: ml}\n")
    for given in ((), ("-n", "ml")):
        assert kohort("what-if", "-f", str(file), *given).exit_code == 0
        assert question(server)["job"]["metadata"]["namespace"] == "ml"
    asked = len(server.asked)
    found = kohort("what-if", "-f", str(file), "-n", "team")
    assert found.exit_code == 2
    assert all(fact in found.stderr for fact in ("the manifest says namespace ml", "-n says team"))
    assert len(server.asked) == asked, "nothing was asked"


def test_a_manifest_without_metadata_is_left_to_the_service(kohort: Run, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: TFJob\n")
    assert kohort("what-if", "-f", str(file), "-n", "team").exit_code == 0
    assert question(server)["job"] == {"kind": "TFJob"}


# -- The tests below are about options that a command does not use. ------------------------------

UNUSED = {
    "a namespace": (("-n", "team", "version"), "--namespace or -n: `kohort version` does not use it; leave it out"),
    "all of them": (("-A", "explain", "big"), "--all-namespaces or -A: `kohort explain` does not use it"),
    "the service": (("--server", "http://h", "scale", "x", "--workers", "1"), "--server: `kohort scale` does not use"),
    "of a process": (("-o", "json", "serve"), "--output or -o: `kohort serve` does not use it"),
    "of a study": (("--context", "here", "optimum"), "--context: `kohort optimum` does not use it"),
}


@pytest.mark.parametrize(("args", "told"), UNUSED.values(), ids=UNUSED.keys())
def test_an_option_before_a_command_that_does_not_use_it_is_refused(
    kohort: Run, args: tuple[str, ...], told: str
) -> None:
    found = kohort(*args)
    assert (found.exit_code, found.stdout) == (2, "")
    assert told in found.stderr


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("queue", "Show only jobs of this namespace; default: all"),
        ("decisions", "Show only jobs of this namespace; default: all"),
        ("explain", "The namespace of the job; default: that of the kubeconfig's context"),
        ("suspend", "The namespace of the job; default: that of the kubeconfig's context"),
        ("what-if", "The namespace of the job; default: that of the kubeconfig's context"),
    ],
)
def test_help_says_what_n_means_for_the_command(kohort: Run, command: str, told: str) -> None:
    assert told in " ".join(kohort(command, "--help").stdout.split())


@pytest.mark.parametrize("asks", ["-h", "--help"])
def test_help_is_told_whatever_stands_before_the_command(kohort: Run, asks: str) -> None:
    found = kohort("-n", "team", "version", asks)
    assert (found.exit_code, found.stderr) == (0, "")
    assert "version" in found.stdout


def test_a_variable_counts_for_those_commands_alone_that_use_it(kohort: Run) -> None:
    assert "KOHORT_CLI_SERVER" in os.environ
    assert kohort("version").exit_code == 0


# -- The tests below are about the kubeconfig. ---------------------------------------------------

ANY = [("jobs",), ("explain", "big"), ("explain", "team/big"), ("suspend", "team/mnist"), ("what-if", "--workers", "1")]


@pytest.mark.parametrize("command", ANY, ids=" ".join)
def test_a_kubeconfig_that_is_not_there_is_told_before_anything_is_asked(
    kohort: Run, server: Server, kubeconfig: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    absent = str(tmp_path / "absent")
    for args in (("--kubeconfig", absent, *command), (*command, "--kubeconfig", absent)):
        found = kohort(*args)
        assert found.exit_code == 2
        assert found.stderr == (
            f"kohort: kubeconfig {absent!r}: no such file; name one that is there, or leave it out for KUBECONFIG\n"
        )
    assert server.asked == []


@pytest.mark.parametrize("command", ANY, ids=" ".join)
def test_a_context_that_is_not_there_is_told_with_those_that_are(
    by_kubeconfig: Run, server: Server, kubeconfig: Path, command: tuple[str, ...]
) -> None:
    without_current = {**yaml.safe_load(kubeconfig.read_text()), "current-context": ""}
    for content in (kubeconfig.read_text(), yaml.safe_dump(without_current)):
        kubeconfig.write_text(content)
        found = by_kubeconfig(*command, "--context", "nope")
        assert found.exit_code == 2
        assert found.stderr == "kohort: --context: 'nope' is not allowed; allowed: here\n"
    assert server.asked == []


def test_a_kubeconfig_that_cannot_be_read_is_told(kohort: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{str(tmp_path)!r}: is a directory; correct" in kohort("jobs", "--kubeconfig", str(tmp_path)).stderr

    def closed(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    # Root may read every file whatever its mode, so a fake raises the error.
    monkeypatch.setattr(Path, "read_bytes", closed)
    assert "'closed': permission denied; correct" in kohort("jobs", "--kubeconfig", "closed").stderr


def test_one_kubeconfig_of_several_is_enough(
    by_kubeconfig: Run, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = os.pathsep.join((str(tmp_path / "absent"), str(kubeconfig)))
    monkeypatch.setenv("KUBECONFIG", several)
    assert by_kubeconfig("suspend", "mnist").exit_code == 0
    assert by_kubeconfig("suspend", "mnist", "--kubeconfig", several).exit_code == 2, "the option names one file"


def test_without_any_kubeconfig_the_default_one_is_named(
    by_kubeconfig: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = by_kubeconfig("suspend", "mnist")
    assert found.exit_code == 1
    assert found.stderr == (
        f"kohort: no kubeconfig names a cluster ('{tmp_path}/.kube/config': no such file); set KUBECONFIG, or give "
        "--kubeconfig FILE\n"
    )


LONELY = {
    "explain": (("explain", "big", "--server", "SERVER"), 0, 0),
    "what-if": (("what-if", "--workers", "1", "--server", "SERVER"), 0, 0),
    "scale": (("scale", "x", "--workers", "1"), 1, 1),
    "suspend": (("suspend", "x"), 1, 1),
}


@pytest.mark.parametrize(("args", "code", "lines"), LONELY.values(), ids=LONELY.keys())
def test_without_a_kubeconfig_nothing_but_the_commands_own_words_is_told(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], code: int, lines: int
) -> None:
    monkeypatch.setitem(ANSWERS, "/v1/explain/default/big", ANSWERS["/v1/explain/team/big"])
    command = [sys.executable, "-m", "extender", *(server.url if arg == "SERVER" else arg for arg in args)]
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, len(found.stderr.splitlines())) == (code, lines), found.stderr
    assert "Config not found" not in found.stderr


# -- The tests below are about options that kubectl has, too. ------------------------------------

ACTING = {
    "after": ((), ("--as", "bob", "--as-group", "a", "--as-group", "b"), "bob"),
    "before": (("--as", "bob", "--as-group", "b"), (), "bob"),
    "after is stronger": (("--as", "bob"), ("--as", "alice", "--as-group", "b"), "alice"),
}


@pytest.mark.parametrize(("before", "after", "user"), ACTING.values(), ids=ACTING.keys())
def test_kubectls_options_stand_before_the_command_or_after_it(
    by_kubeconfig: Run, server: Server, before: tuple[str, ...], after: tuple[str, ...], user: str
) -> None:
    assert by_kubeconfig(*before, "suspend", "mnist", *after).exit_code == 0
    assert {one["impersonate-user"] for one in server.headers} == {user}
    assert {one["impersonate-group"] for one in server.headers} == {"b"}, "the last of several, in this server's words"


def test_a_group_without_a_user_is_told_before_anything_is_asked(by_kubeconfig: Run, server: Server) -> None:
    found = by_kubeconfig("suspend", "mnist", "--as-group", "a")
    assert (found.exit_code, server.asked) == (1, [])
    assert "a group, a uid or an extra to impersonate is given without a user; give `as` or --as" in found.stderr


def test_with_one_of_them_no_service_of_this_machine_is_asked_in_place_of_the_clusters(
    by_kubeconfig: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    assert by_kubeconfig("jobs").exit_code == 0, "no pod of Kohort runs there, and nobody says whose it is"
    for options in (("--as", "bob"), ("--user", "u"), ("--cluster", "c")):
        assert by_kubeconfig("jobs", *options).exit_code == 1
    assert by_kubeconfig("jobs", "--request-timeout", "5s").exit_code == 0


def test_credentials_that_are_of_no_use_end_a_question_too(
    by_kubeconfig: Run, server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": plugin}
    home = kubeconfig.parent / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(yaml.safe_dump(config))
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("extender.cli.service.DEFAULT_SERVER", server.url)
    found = by_kubeconfig("jobs")
    assert (found.exit_code, found.stdout, server.asked) == (1, "", [])
    assert "the exec plugin 'no-such-plugin' is not installed" in found.stderr
