"""Finds the commands of the package ``lab``.

If ``lab`` is not installed, commands of the same names say how to install it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

from extender.cli.errors import CliError, errors

MODULE: Final = "lab.commands"
COMMANDS: Final = ("demo", "simulate", "compare", "paper", "optimum", "replay")
ABSENT: Final = "Not installed here: it comes with the package lab."


def commands() -> typer.Typer:
    """Return the commands of ``lab``, or commands of the same names that say how to install it.

    ``lab`` is imported by its name at run time, because no module of ``extender`` may depend on it.
    """
    try:
        module = import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name not in ("lab", MODULE):
            raise
        return _absent()
    found: typer.Typer = module.app
    return found


def _absent() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)
    for name in COMMANDS:
        app.command(
            name,
            short_help=ABSENT,
            add_help_option=False,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(_refuse)
    return app


def _refuse(typed: typer.Context) -> None:
    """Raise CliError, which says that the command needs the package ``lab`` and how to install the package."""
    with errors():
        raise CliError(
            f"`kohort {typed.info_name}` comes with the package lab, which the image leaves out; "
            "install Kohort from its wheel, or run the command in a checkout",
            2,
        )
