"""Prints the answer of a command for people or for scripts: once, or with --watch whenever the answer changes."""

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
    """The type of functions that turn a view, an answer of REST, into a table to print."""

    def __call__(self, view: Any, /, *, wide: bool = False) -> RenderableType: ...


def show(look: Callable[[], BaseModel], draw: DrawsTable, asked: Asked) -> None:
    """Call ``look`` for an answer and print it: as the table that ``draw`` makes, or as JSON or YAML.

    With --watch, call ``look`` every WATCH_SECONDS until Ctrl-C. On a terminal the table is drawn again in place; into
    a pipe each answer is printed that differs from the answer before.
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
