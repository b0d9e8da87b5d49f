"""Parses YAML and JSON as Go's YAML library does, which kubectl uses; it differs from Python's in which scalars are
text.

`y` and `n` are booleans and 1e5 is a number, while 2026-01-01 and 12:30 are text. If we parsed a token differently from
kubectl, we would send another token.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from extender.config.plainyaml import YAML_ERRORS, in_one_line

TAG: Final = "tag:yaml.org,2002:"
NUMBER: Final = re.compile(
    r"""^[-+]?(?:0[xX][0-9a-fA-F][0-9a-fA-F_]*|0[oO][0-7][0-7_]*|0[bB][01][01_]*|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9_]+)?
    |\.[0-9][0-9_]*(?:[eE][-+]?[0-9_]+)?|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$""",
    re.VERBOSE,
)
IN_JSON: Final = "text, numbers, booleans, lists and mappings, as in JSON"
# A document may have at most this many values; a few lines with YAML aliases could otherwise expand to millions.
MOST_VALUES: Final = 200_000
WORD: Final = re.compile(r"^(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$")


def plain(text: bytes) -> Any:
    """Return the first document of JSON or YAML text as Python values. Raises ValueError.

    A key whose value is null is left out; any other null becomes an empty dict.
    """
    return _without_nulls(next(documents(text), None))


def documents(text: bytes) -> Iterator[Any]:
    """Yield the documents of JSON or YAML text as Python values; an empty document is None. Raises ValueError."""
    try:
        found = json.loads(text)  # JSON is tried first, because PyYAML does not accept JSON that has tabs
    except ValueError:
        pass
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    else:
        yield _checked(found)
        return
    try:
        loader = _GoLoader(text)
        while loader.check_data():  # type: ignore[no-untyped-call]
            yield _checked(loader.get_data())
    except YAML_ERRORS as error:
        raise ValueError(f"neither JSON nor YAML: {in_one_line(error)}") from None


def _checked(document: Any) -> Any:
    """Return ``document`` unchanged.

    Raises ValueError if the document has more than `MOST_VALUES` values, or a value that JSON cannot express.
    """
    parts, count = [document], 0
    while parts:
        part = parts.pop()
        count += 1
        if count > MOST_VALUES:
            raise ValueError(f"a document has more than {MOST_VALUES} values, or an alias of itself")
        if isinstance(part, dict | list):
            parts.extend(part.values() if isinstance(part, dict) else part)
        elif not isinstance(part, str | int | float | None) or (isinstance(part, float) and not math.isfinite(part)):
            raise ValueError(f"one of its values is {part!r}, which is not allowed; allowed: {IN_JSON}")
    return document


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return {} if value is None else value


class _GoLoader(yaml.SafeLoader):
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012  (as PyYAML has it)
    yaml_implicit_resolvers = {}  # noqa: RUF012


def _number(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    digits = str(node.value).replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
    try:
        return int(digits, 0)
    except ValueError:
        return float(digits)


_GoLoader.add_constructor(f"{TAG}float", _number)
_GoLoader.add_implicit_resolver(f"{TAG}bool", WORD, list("yYtToOnNfF"))
_GoLoader.add_implicit_resolver(f"{TAG}float", NUMBER, list("-+.0123456789"))
_GoLoader.add_implicit_resolver(f"{TAG}null", re.compile("^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_GoLoader.add_implicit_resolver(f"{TAG}merge", re.compile("^<<$"), ["<"])
