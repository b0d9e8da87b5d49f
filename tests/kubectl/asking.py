"""Send one request with kubectl and with kohort under the same files, environment and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli import commands
from tests.kubectl.servers import JOB, Request, World

CHECKOUT = Path(__file__).parents[2]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
REFUSAL = "is not supported"
SECONDS = 30


@dataclass(frozen=True)
class Case:
    """The input of both commands.

    ``files`` has contents by path in the case's folder: a mapping is written as YAML, and a text that starts with `#!`
    is made executable. "{folder}" in values of ``environ`` and in ``options`` stands for that folder. ``account`` has
    the files of a pod's ServiceAccount; if it is not empty, both commands run as in that pod.
    """

    files: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    account: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one command: success, the requests that the servers got, and the error message (``words``)."""

    done: bool
    asked: tuple[Request, ...]
    words: str

    @property
    def seen(self) -> tuple[bool, tuple[Request, ...]]:
        return self.done, self.asked


@dataclass(frozen=True)
class Pair:
    """Both outcomes of one case."""

    kubectl: Outcome
    kohort: Outcome

    @property
    def refused(self) -> bool:
        """Tell whether kohort sent no request and its message says what it does not support."""
        return not self.kohort.done and not self.kohort.asked and REFUSAL in self.kohort.words

    @property
    def same(self) -> bool:
        return self.kubectl.seen == self.kohort.seen

    def told(self) -> str:
        return "\n".join(f"  {name}: {one.seen} {one.words.strip()[-300:]}" for name, one in vars(self).items())


def ask(case: Case, world: World, kubectl: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Run kubectl and kohort for the case, and return both outcomes.

    kohort runs in this process, except for a case within a pod.
    """
    folder.mkdir(parents=True)
    _write(case, folder)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    environ |= {name: value.replace("{folder}", str(folder)) for name, value in case.environ.items()}
    options = [one.replace("{folder}", str(folder)) for one in case.options]
    within = _within(folder / "account") if case.account else []
    world.record.take()
    theirs = _run([*within, str(kubectl), "get", "--raw", JOB, *options], environ, folder, world)
    command = ["suspend", "team/j", "--kind", "TFJob", *options]
    if case.account:
        ours = _run(
            [*within, sys.executable, "-m", "extender", *command],
            {**environ, "PYTHONPATH": str(CHECKOUT)},
            folder,
            world,
        )
    else:
        ours = _here(command, environ, folder, world, monkeypatch)
    return Pair(theirs, ours)


def _run(command: list[str], environ: Mapping[str, str], folder: Path, world: World) -> Outcome:
    done = subprocess.run(
        command, env=dict(environ), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    return Outcome(done.returncode == 0, world.record.take(), done.stderr)


def _here(
    command: list[str], environ: Mapping[str, str], folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> Outcome:
    with monkeypatch.context() as patch:
        for name in list(os.environ):
            if not name.startswith("PYTEST"):
                patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        done = CliRunner().invoke(commands.app, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Outcome(done.exit_code == 0, world.record.take(), done.stderr)


def _within(account: Path) -> list[str]:
    """Return words to put before a command, so that it sees the folder ``account`` as its pod's ServiceAccount."""
    script = (
        f'mount -t tmpfs none "$(readlink -f /var/run)" && mkdir -p {ACCOUNT} && cp {account}/* {ACCOUNT} && exec "$@"'
    )
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]


def pods_are_possible() -> bool:
    """Tell whether this machine allows mount namespaces, which cases within a pod need."""
    script = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/run"]
    return (
        shutil.which("unshare") is not None and subprocess.run(script, capture_output=True, check=False).returncode == 0
    )


def _write(case: Case, folder: Path) -> None:
    (folder / "home").mkdir()
    files = {**case.files, **{f"account/{name}": text for name, text in case.account.items()}}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        path.chmod(0o755 if isinstance(content, str) and content.startswith("#!") else 0o600)
