"""Bad arguments, files and outputs: each is answered with one clear sentence and an exit code, without a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper

import pytest
import typer
from typer.testing import Result

from extender.cli import commands
from extender.cli.console import out
from extender.cli.errors import CliError, errors

Run = Callable[..., Result]
NO_TEXT = "\udcff"  # how Python shows a byte that is not UTF-8

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
