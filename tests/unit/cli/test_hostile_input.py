"""Bad arguments, files and outputs: each is answered with one clear sentence and an exit code, without a traceback."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import typer
from typer.testing import Result

from extender.cli import commands, whatifoptions
from extender.cli.console import out
from extender.cli.errors import CliError, errors
from lab.study.specs import spec
from tests.unit.cli.conftest import Server
from tests.unit.study.test_tracefiles import JOBS

Run = Callable[..., Result]
ROOT = Path(__file__).parents[3]
NO_TEXT = "\udcff"  # Python decodes a byte of an argument that is not UTF-8 to such a surrogate

REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a name that is not UTF-8": (("explain", NO_TEXT), 2, "'\\udcff' is not UTF-8 text; correct it"),
    "a file whose name is not UTF-8 and that is not there": (("what-if", "-f", NO_TEXT), 2, "No such file"),
    "a CA that is not there": (
        ("queue", "--server", "https://127.0.0.1:1", "--ca-file", "none"),
        2,
        "--ca-file: none cannot be read: No such file or directory; give another file",
    ),
    "a bracket in an address": (
        ("render", "shared-scheduler", "--scheduler-address", "[x"),
        2,
        "--scheduler-address: '[x' is not allowed; allowed: a host name or an IP address",
    ),
    "an empty image, as of a variable that is not set": (
        ("render", "--image", ""),
        2,
        "--image: '' is not allowed; allowed: NAME:TAG or NAME@DIGEST",
    ),
    "an image that steers the terminal": (
        ("render", "--image", "a\x1b[31m"),
        2,
        "--image: 'a\\x1b[31m' is not allowed",
    ),
    "digits of another script in a version": (
        ("render", "--kubernetes-version", "1.3\u0667.2"),
        2,
        "is not allowed; allowed: 1.34.Z or newer",
    ),
    "a number of thousands of digits": (
        ("what-if", "--add-nodes", f"n1={'9' * 5000}"),
        2,
        "is not allowed; allowed: NODE=COUNT",
    ),
    "a settings file whose name steers the terminal": (("check-config", "--config", "\x1b[31m", "x"), 2, "?[31m"),
}


@pytest.mark.parametrize(("args", "code", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_given_wrong_is_told(kohort: Run, args: tuple[str, ...], code: int, told: str) -> None:
    found = kohort(*args)
    assert (found.exit_code, found.stdout) == (code, "")
    assert told in found.stderr
    assert "\x1b" not in found.stderr


def test_a_message_steers_no_terminal_and_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), errors():
        raise CliError("a\x1b[2Jb\rc\nd → é")
    assert capsys.readouterr().err == "kohort: a?[2Jb?c\nd → é\n"


def test_a_full_disk_is_told_and_a_closed_pipe_is_left_to_click(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, errors():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (ended.value.exit_code, capsys.readouterr().err) == (1, "kohort: No space left on device\n")
    with pytest.raises(BrokenPipeError), errors():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_what_the_terminal_cannot_show_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python chooses the encoding of the output by the locale."""
    shown = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(shown, encoding="latin-1", write_through=True))
    with pytest.raises(SystemExit):
        commands.app(["version"])
    out().print("1 → 2")
    assert shown.getvalue().endswith(b"1 ? 2\n")


OUTPUTS = {
    "a full disk": (">/dev/full", 1, "kohort: No space left on device"),
    "a closed output": (">&-", 0, ""),
    "a closed input": ("-f - <&-", 2, "kohort: -f: -: holds no job (nothing)"),
    "a reader that has ended": ("| true", 0, ""),
}


@pytest.mark.full
@pytest.mark.parametrize(("end", "code", "told"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_standard_streams_that_fail_leave_no_traceback(
    server: Server, tmp_path: Path, end: str, code: int, told: str
) -> None:
    command = "what-if" if "-f" in end else "queue"
    environ = {"KOHORT_CLI_SERVER": server.url, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": "/bin:/usr/bin"}
    done = subprocess.run(
        f"{sys.executable} -m extender {command} {end}", shell=True, env=environ, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert not any(word in done.stderr for word in ("Traceback", "Exception"))


def test_a_manifest_without_end_is_refused(kohort: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatifoptions, "MOST_BYTES", 1000)
    found = kohort("what-if", "-f", "/dev/zero")
    assert (found.exit_code, "-f: /dev/zero: is longer than the allowed 1000 bytes" in found.stderr) == (2, True)


def test_brackets_without_end_are_no_journal(kohort: Run, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    for args in (("what-if", "--cordon", "n1", "--snapshot"), ("replay",)):
        found = kohort(*args, str(tmp_path / "deep"))
        assert found.exit_code == 2
        assert "deep, line 1: this line does not begin a journal: " in found.stderr


def test_a_message_shows_only_the_start_of_a_long_value(kohort: Run, tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text('{"a": "' + "x" * 100_000 + '"}')
    found = kohort("simulate", "--policy", "kod2", "--trace", str(tmp_path / "long.json"))
    assert found.exit_code == 2
    assert len(found.stderr) < 1000
    assert "x... is not allowed; allowed: a list of objects" in found.stderr


@pytest.mark.parametrize("option", ["--out", "--json", "--journal"])
def test_a_result_does_not_overwrite_the_trace(
    kohort: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text(JOBS)
    given = (option, "." if option == "--out" else "jobs.csv")
    found = kohort("simulate", "--policy", "kod2", "--trace", "jobs.csv,nodes=2x9x9", *given)
    assert found.exit_code == 2
    assert f"{option}: jobs.csv is a file of the trace and would be overwritten; name another place" in found.stderr
    assert Path("jobs.csv").read_text() == JOBS
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]


def test_names_that_look_like_numbers_stay_names() -> None:
    assert spec("kod2,label=01,faults=none,step_times=1e400,jobs=01", "").given() == {
        "faults": "none", "step_times": "1e400", "jobs": 1,
    }  # fmt: skip
    assert spec("kod2,label=01", "").label == "01"
