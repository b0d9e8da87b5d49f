"""Generates the reference of the command line from its own help texts."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from extender.cli.commands import app
from tests.documents import blocks


def commands() -> str:
    """Return as Markdown the common options, then a section for each command."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, info_name="kohort")
    sections = ["\n\n".join(_options(group)), *_sections(group, context)]
    return "\n\n".join(section for section in sections if section)


def _sections(group: TyperGroup, parent: typer.Context) -> Iterator[str]:
    for name in sorted(group.list_commands(parent)):
        command = group.get_command(parent, name)
        if not isinstance(command, TyperCommand) or command.hidden:
            continue
        context = typer.Context(command, info_name=name, parent=parent)
        usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
        parts = [f"## `kohort {name}`", (command.help or "").strip(), f"```\n{usage}\n```", *_options(command)]
        if command.epilog:
            head, *lines = command.epilog.strip("\b\n").splitlines()
            parts.append("\n".join((head, "", "```sh", *(line.strip() for line in lines), "```")))
        yield "\n\n".join(part for part in parts if part)


def _options(command: TyperCommand | TyperGroup) -> Iterator[str]:
    rows = []
    for one in command.params:
        if isinstance(one, TyperOption) and not one.hidden and one.name != "help":
            rows.append((f"`{', '.join((*one.opts, *one.secondary_opts))}`", _default(one), one.help or ""))
        elif isinstance(one, TyperArgument):
            named = one.metavar or (one.name or "").upper()
            rows.append((f"`{named}`", "", getattr(one, "help", "") or ""))
    if rows:
        yield blocks.table(("Option", "Default", "Meaning"), rows)


def _default(one: TyperOption) -> str:
    if one.default is None or one.default is False or one.default in ("", (), []) or callable(one.default):
        return ""
    return f"`{getattr(one.default, 'value', one.default)}`"
