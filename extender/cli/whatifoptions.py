"""Reads the options and the file of ``what-if`` for its question, and names the option where the service refuses it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from extender.cli.errors import CliError, RefusedError
from extender.kube.connection.goyaml import documents
from extender.kube.jobkinds import KINDS

RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
OPTIONS: Final = {
    "shape.workers": "--workers",
    "shape.ps": "--ps",
    "shape.requests": "--requests",
    "shape.min_workers": "--min",
    "shape.max_workers": "--max",
    "shape.namespace": "--namespace",
    "shape": "--workers",
    "cordon": "--cordon",
    "uncordon": "--uncordon",
    "remove_nodes": "--remove-node",
    "add_nodes": "--add-nodes",
    "policy": "--policy",
}
ONE: Final = "one job's manifest"
STANDARD_INPUT: Final = "-"
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_DIGITS: Final = 10  # the service refuses a number of nodes with so many digits in any case


def manifest(file: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the job in the file ("-": standard input), and a label for each other object, such as "Service mnist".

    If the file has several documents or a list of objects, the job is the one object whose apiVersion and kind Kohort
    schedules, or else the one whose kind it schedules, because the service says what is wrong with the apiVersion.
    Raise CliError where the file cannot be read or does not have exactly one job.
    """
    named = [_mapping(file, item) for document in _documents(file) for item in _items(document)]
    if any(_is_list(item) for item in named):
        raise CliError(f"-f: {file}: holds a list within a list; allowed: {ONE}, or a list of objects", 2)
    if len(named) == 1:
        return named[0], ()  # a single object is sent even if it is no job, because the service says what is wrong
    alike = [item for item in named if item.get("kind") in KINDS]
    jobs = [item for item in alike if item.get("apiVersion") == KINDS[item["kind"]].resource.api_version] or alike
    if len(jobs) != 1:
        held = ", ".join(map(_label, jobs or named)) or "nothing"
        what = f"{len(jobs)} jobs" if jobs else "no job"
        raise CliError(f"-f: {file}: holds {what} ({held}); allowed: {ONE}, beside objects of other kinds", 2)
    return jobs[0], tuple(_label(item) for item in named if item is not jobs[0])


def _documents(file: Path) -> list[Any]:
    try:
        told = _read(file)
        if len(told) > MOST_BYTES:
            raise CliError(f"-f: {file}: is longer than the allowed {MOST_BYTES} bytes; give {ONE}", 2)
        return [item for item in documents(told) if item is not None]
    except OSError as error:
        raise CliError(f"-f: {file}: {error.strerror}; name a file with {ONE}", 2) from None
    except ValueError as error:
        raise CliError(f"-f: {file}: {error}; give {ONE}", 2) from None


def _read(file: Path) -> bytes:
    """Return the file's contents, but at most `MOST_BYTES` + 1 bytes, which show that the file is too long.

    Raises OSError where the file cannot be read.
    """
    if str(file) == STANDARD_INPUT:
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def _items(document: object) -> list[Any]:
    return list(document["items"]) if isinstance(document, dict) and _is_list(document) else [document]


def _is_list(item: dict[str, Any]) -> bool:
    """Tell whether the object is a list of objects of any kind, as kubectl does by its field ``items``."""
    return isinstance(item.get("items"), list)


def _mapping(file: Path, item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        what = "a list" if isinstance(item, list) else "a single value"
        raise CliError(f"-f: {file}: holds {what}; allowed: {ONE}, which is a mapping", 2)
    return item


def _label(item: dict[str, Any]) -> str:
    meta = item.get("metadata")
    names = meta if isinstance(meta, dict) else {}
    return f"{item.get('kind') or 'an object without a kind'} {names.get('name') or names.get('generateName') or '-'}"


def more_nodes(text: str) -> dict[str, object]:
    """Return an entry of REST's ``add_nodes`` for the text ``LIKE=COUNT``, or ``LIKE`` for one node.

    Raise CliError for any other text.
    """
    like, equals, count = text.partition("=")
    if not like or (equals and not (count.isascii() and count.isdecimal() and len(count) < MOST_DIGITS)):
        raise CliError(f"--add-nodes: {text!r} is not allowed; allowed: NODE=COUNT", 2)
    return {"like": like, "count": int(count or 1)}


def amounts_of(text: str) -> dict[str, str]:
    """Return the amounts of a text such as ``cpu=2,memory=4Gi``, by resource name. Raise CliError for another form."""
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(name and amount for name, amount in found.items()):
        raise CliError(f"--requests: {text!r} is not allowed; allowed: NAME=AMOUNT,..., as cpu=2,memory=4Gi", 2)
    for name in found:
        if name not in RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            known = ", ".join(RESOURCES)
            raise CliError(f"--requests: {name!r} is not allowed; allowed: {known}, hugepages-SIZE, DOMAIN/NAME", 2)
    return found


def by_option(error: RefusedError, file: Path | None) -> CliError:
    """Return the refusal of a what-if question as an error that names the option or file instead of REST's field."""
    named = _named(error.field, file)
    said = str(error)
    if not named or not said.startswith(error.field):
        return error
    told = named + said.removeprefix(error.field).replace("min_workers", "--min")
    return CliError(told, error.code)


def _named(field: str, file: Path | None) -> str:
    first, _, inside = field.partition(".")
    if first == "job" and file is not None:
        return f"-f: {file}: {inside}" if inside else f"-f: {file}"
    key, _, rest = field.partition("shape.requests.")
    if rest and not key:
        return f"--requests: {rest}"
    known = (option for name, option in OPTIONS.items() if field == name or field.startswith(f"{name}."))
    return next(known, "")
