"""What is told where a command cannot be carried out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup


class CliError(Exception):
    """What to tell the user, with what to do next; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@contextmanager
def errors() -> Iterator[None]:
    """Tell a fault in one clear sentence, without a traceback, and set the exit code."""
    try:
        yield
    except CliError as error:
        typer.echo(f"kohort: {error}", err=True)
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


class Commands(TyperGroup):
    """The root of all commands. It tells a wrong value as well; Typer tells the field and what is allowed."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the options before the command."""
        with _values_named():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's own options, and run it."""
        with _values_named():
            return super().invoke(ctx)


@contextmanager
def _values_named() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        from pydantic import ValidationError

        if isinstance(cause := error.__cause__, ValidationError):
            fault = cause.errors(include_url=False)[0]
            told, value = fault["msg"].removeprefix("Value error, "), repr(fault["input"])
            error.message = told if value in told else f"{value}: {told}"
        raise
