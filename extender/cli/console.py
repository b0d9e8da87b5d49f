"""Makes the consoles and tables that commands print, and texts for durations and for amounts of resources."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml
from pydantic import TypeAdapter
from rich.console import Console

from extender.cli.fitting import FittedTable
from policy.answers.explanation import Waits
from policy.cluster.amounts import BINARY, Amounts
from policy.cluster.resources import HOST_PORT
from policy.cluster.words import BYTES, cpu_first, said, visible

PIPE_WIDTH: Final = 400


def out() -> Console:
    """Return the console for answers: as wide as the terminal, or PIPE_WIDTH columns if the output is a pipe."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """Return the console for warnings and errors, which writes to standard error."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def plain(value: object) -> Any:
    """Return a view or dataclass as the dicts, lists and scalars of its JSON, with the keys that REST uses."""
    return TypeAdapter(Any).dump_python(value, mode="json", by_alias=True)


def data_of(value: object, kind: str) -> str:
    """Return the value as JSON, or as YAML where ``kind`` is "yaml"."""
    data = plain(value)
    if kind == "yaml":
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=False).rstrip()
    return json.dumps(data, indent=2)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], least: Sequence[str] = ()) -> FittedTable:
    """Return a table without border lines; characters that cannot be seen are replaced by a mark in its cells.

    least: the heads of the columns to leave out on a narrow terminal, in the order in which they are left out.
    """
    return FittedTable(heads, [[visible(cell) for cell in row] for row in rows], least)


def why(waits: Waits | None) -> str:
    """Return the reason why a job waits, with its detail in parentheses, or "-" if it does not wait."""
    if waits is None:
        return "-"
    return f"{waits.reason} ({waits.detail})" if waits.detail else waits.reason


def age(seconds: float | None) -> str:
    """Return a duration in seconds as ``42s``, ``3m12s`` or ``2h05m``; "-" if it is None."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if abs(whole) < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def short(amounts: Amounts, *, pods: bool = False) -> str:
    """Return the amounts in one line, such as ``2 cpu 4Gi``, with memory rounded to three digits.

    pods: include the amount of the resource "pods". Only the list of what a node lacks needs this amount, because a
    node limits its number of pods; in the requests of a member it is always 1.
    """
    names = (name for name in amounts if amounts[name].exact and (pods or name != "pods"))
    return " ".join(_rounded(name, amounts[name].exact) for name in sorted(names, key=cpu_first)) or "-"


def offered(amounts: Amounts, whole: Amounts, asked: Iterable[str] = ()) -> str:
    """Return amounts of a node in one line: cpu, memory, each device of the node, and the resources in ``asked``.

    amounts: what to print, such as the node's free resources. whole: the node's allocatable resources, for the names of
    its devices. asked: the names of further resources to print.
    """
    devices = (name for name in whole if "/" in name and whole[name].exact and not name.startswith(HOST_PORT))
    names = {"cpu", "memory", *devices, *asked} & amounts.keys()
    return " ".join(_rounded(name, amounts[name].exact) for name in sorted(names, key=cpu_first)) or "-"


def _rounded(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g} cpu"
    if name.startswith(BYTES):
        suffix, size = next(((s, n) for s, n in BINARY if abs(amount) >= n), ("B", 1))
        return f"{amount / size:.3g}{suffix}" + ("" if name == "memory" else f" {name}")
    return said(name, amount)
