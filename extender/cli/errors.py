"""Has the errors of commands, prints them as one sentence instead of a traceback, and sets the exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EPIPE
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup


class CliError(Exception):
    """A command failed. The text says what is wrong and what the user can do; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class RefusedError(CliError):
    """The service refused the request.

    ``field`` is the name in REST of the field that was refused; it is empty if the refusal names no field.
    """

    def __init__(self, text: str, field: str, code: int) -> None:
        super().__init__(text, code)
        self.field = field


@contextmanager
def errors() -> Iterator[None]:
    """Print an error of the ``with`` block as one sentence on standard error, and exit with its exit code."""
    try:
        yield
        sys.stdout.flush()
    except CliError as error:
        typer.echo(f"kohort: {_harmless(str(error))}", err=True)
        raise typer.Exit(error.code) from None
    except UnicodeEncodeError as error:
        # The wrong text is an argument of the command, because the output replaces what it cannot encode.
        around = error.object[max(0, error.start - 20) : error.end + 20]
        typer.echo(f"kohort: {around!r} is not UTF-8 text; correct it", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        if error.errno == EPIPE:
            # The program that reads our output has ended, as `head` does; click then exits quietly.
            raise
        _forget_output()
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"kohort: {_harmless(where)}{error.strerror or error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _forget_output() -> None:
    """Discard what standard output has buffered, which Python would otherwise try to write again at the end."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _harmless(text: str) -> str:
    """Return the text with its control characters, which could steer the terminal, replaced by "?"."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


class Commands(TyperGroup):
    """The root command. It adds the wrong value that the user gave to the error messages, because Typer's messages omit
    it.
    """

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse the options that stand before the command's name; a wrong value is shown in the error."""
        for stream in (sys.stdout, sys.stderr):
            # Otherwise a name with a character that the terminal cannot show would end the command with an error.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        with _naming_wrong_values():
            return super().make_context(*args, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command's name, the command and its arguments.

        Exit with an error if an option stands before the command's name and the command does not use it, unless the
        user asks for the command's help.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing and set(ctx.help_option_names).isdisjoint(rest):
            with errors():
                _check_used(ctx, command)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Parse the options that stand after the command's name and run it; a wrong value is shown in the error."""
        with _naming_wrong_values():
            return super().invoke(ctx)


def _check_used(root: Any, command: Any) -> None:
    taken = {option for one in command.params for option in one.opts}
    for one in root.command.params:
        source = root.get_parameter_source(one.name)
        if source is not None and source.name == "COMMANDLINE" and taken.isdisjoint(one.opts):
            given, name = " or ".join(one.opts), command.name
            raise CliError(f"{given}: `kohort {name}` does not use it; leave it out, or see `kohort {name} --help`", 2)


@contextmanager
def _naming_wrong_values() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        from pydantic import ValidationError

        if isinstance(cause := error.__cause__, ValidationError):
            fault = cause.errors(include_url=False)[0]
            told, value = fault["msg"].removeprefix("Value error, "), repr(fault["input"])
            error.message = told if value in told else f"{value}: {told}"
        raise
