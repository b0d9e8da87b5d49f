"""What ``what-if`` supposes, read from its options and its file; and what of it was refused, by the option's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from extender.cli.errors import CliError, RefusedError
from extender.config.plainyaml import YAML_ERRORS, in_one_line

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


def manifest(file: Path) -> dict[str, Any]:
    """The one object in the file; CliError where it cannot be read or holds another number of them."""
    try:
        found = [item for item in yaml.safe_load_all(file.read_text(encoding="utf-8")) if item is not None]
    except OSError as error:
        raise CliError(f"-f: {file}: {error.strerror}; name a file with {ONE}", 2) from None
    except UnicodeDecodeError:
        raise CliError(f"-f: {file}: it is no text; name a file with {ONE}", 2) from None
    except YAML_ERRORS as error:
        raise CliError(f"-f: {file}: neither YAML nor JSON: {in_one_line(error)}; give {ONE}", 2) from None
    if len(found) != 1:
        raise CliError(f"-f: {file}: holds {len(found)} objects; allowed: {ONE}", 2)
    if not isinstance(found[0], dict):
        what = "a list" if isinstance(found[0], list) else "a single value"
        raise CliError(f"-f: {file}: holds {what}, no mapping; allowed: {ONE}", 2)
    return found[0]


def more_nodes(text: str) -> dict[str, object]:
    """``LIKE=COUNT`` or ``LIKE``."""
    like, equals, count = text.partition("=")
    if not like or (equals and not count.isdecimal()):
        raise CliError(f"--add-nodes: {text!r} is not allowed; allowed: NODE=COUNT", 2)
    return {"like": like, "count": int(count or 1)}


def amounts_of(text: str) -> dict[str, str]:
    """``cpu=2,memory=4Gi`` by name; CliError where it is none."""
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(name and amount for name, amount in found.items()):
        raise CliError(f"--requests: {text!r} is not allowed; allowed: NAME=AMOUNT,..., as cpu=2,memory=4Gi", 2)
    for name in found:
        if name not in RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            known = ", ".join(RESOURCES)
            raise CliError(f"--requests: {name!r} is not allowed; allowed: {known}, hugepages-SIZE, DOMAIN/NAME", 2)
    return found


def by_option(error: RefusedError, file: Path | None) -> CliError:
    """The same refusal, with the option or the file that was wrong in place of REST's field."""
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
