"""What is told where a command cannot be carried out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


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
