"""Prints an answer for people or for scripts, once, or with --watch whenever it changes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import typer

from extender.cli.options import WATCH_SECONDS, Asked, Output

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import RenderableType


class DrawsTable(Protocol):
    """The type of functions that draw a view as a table."""

    def __call__(self, view: Any, /, *, wide: bool = False) -> RenderableType: ...


def show(look: Callable[[], BaseModel], draw: DrawsTable, asked: Asked) -> None:
    """Ask with ``look`` and print the answer: with ``draw`` as a table, or as JSON or YAML.

    With --watch, ask every WATCH_SECONDS until Ctrl-C: redraw the table in place on a terminal, and into a pipe print
    each answer that differs from the one before.
    """
    from extender.cli import console

    wide, for_people = asked.shown is Output.WIDE, asked.shown in (Output.TABLE, Output.WIDE)
    if not asked.watch:
        found = look()
        if for_people:
            console.out().print(draw(found, wide=wide))
        else:
            typer.echo(console.data_of(found, asked.shown))
        return
    if for_people and console.out().is_terminal:
        from rich.live import Live

        with Live(draw(look(), wide=wide), console=console.out(), screen=True) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(draw(look(), wide=wide))
    before = None
    while True:
        found = look()
        if found != before:
            if for_people:
                console.out().print(draw(found, wide=wide))
            else:
                typer.echo(json.dumps(console.plain(found)) if asked.shown is Output.JSON else
                           f"---\n{console.data_of(found, 'yaml')}")  # fmt: skip
        before = found
        time.sleep(WATCH_SECONDS)
