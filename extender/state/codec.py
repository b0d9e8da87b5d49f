"""Converts values of ``policy`` to plain JSON and back: dataclasses, enums, named tuples, and maps whose keys need not
be text.

An object is written as ``{"is": "policy.cluster.gang:Gang", ...}``. Reading makes only objects of classes of
``policy``, also from the names and fields that these classes had in earlier versions (``earlier.py``).
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

from extender.state.earlier import name_now, parts_now

IS: Final = "is"
ROOM: Final = "policy."
_PLAIN: Final = (str, int, float, bool, type(None))


class CodecError(ValueError):
    """A value cannot be converted to JSON, or the JSON is not what this module writes."""


def plain(value: object) -> Any:
    """Return the value in JSON's types; maps keep their order, sets are sorted. Raises CodecError."""
    kind: Any = type(value)
    return _writer(kind)(value)


@cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """Return the function that converts values of exactly that class to JSON's types.

    The functions are cached by class, because a state has a hundred thousand values to convert.
    """
    if issubclass(kind, Enum):
        name = _name(kind)
        return lambda value: {IS: name, "value": value.value}
    if issubclass(kind, float):
        # JSON has no infinity and no NaN, so these are written as objects with their text.
        return lambda value: value if math.isfinite(value) else {IS: "float", "value": repr(value)}
    if issubclass(kind, _PLAIN):
        return _as_it_is
    if is_dataclass(kind):
        return _parts_writer(kind, _fields(kind))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _parts_writer(kind, kind._fields)
    if issubclass(kind, Mapping):
        return lambda value: {IS: "map", "items": [[plain(key), plain(item)] for key, item in value.items()]}
    if issubclass(kind, frozenset | set):
        return lambda value: {IS: "set", "items": sorted((plain(item) for item in value), key=repr)}
    if issubclass(kind, tuple):
        return lambda value: {IS: "tuple", "items": [plain(item) for item in value]}
    if issubclass(kind, list):
        return lambda value: [plain(item) for item in value]
    raise CodecError(f"{kind.__module__}.{kind.__qualname__} cannot be written to the journal")


def _as_it_is(value: Any) -> Any:
    return value


def _parts_writer(kind: type, names: Iterable[str]) -> Callable[[Any], Any]:
    head, parts = {IS: _name(kind)}, tuple(names)
    return lambda value: head | {name: plain(getattr(value, name)) for name in parts}


def value_of(written: Any) -> Any:
    """Return the value that `plain` has converted to ``written``. Raises CodecError."""
    if isinstance(written, list):
        return [value_of(item) for item in written]
    if not isinstance(written, dict):
        return written
    kind = written.get(IS)
    match kind:
        case "map":
            return {value_of(key): value_of(item) for key, item in written["items"]}
        case "set":
            return frozenset(value_of(item) for item in written["items"])
        case "float":
            return float(written["value"])
        case "tuple":
            return tuple(value_of(item) for item in written["items"])
        case str():
            return _made(kind, {name: value_of(part) for name, part in written.items() if name != IS})
        case _:
            raise CodecError(f"{IS}: {kind!r} is not allowed; allowed: float, map, set, tuple, or a class of policy")


def _made(kind: str, parts: dict[str, Any]) -> Any:
    name = name_now(kind)
    made = _class(name)
    try:
        return made(parts["value"]) if issubclass(made, Enum) else made(**parts_now(name, parts))
    except (KeyError, TypeError, ValueError) as error:
        raise CodecError(f"{kind}: {error}") from None


@cache
def _class(name: str) -> type:
    module, _, path = name.partition(":")
    found: Any = None
    if module.startswith(ROOM) and path.isidentifier():
        try:
            found = getattr(importlib.import_module(module), path, None)
        except ImportError:
            found = None
    value = isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum) or hasattr(found, "_fields"))
    if not value or found.__module__ != module:
        raise CodecError(f"{IS}: {name!r} is not allowed; allowed: a value class of policy, as module:Class")
    made: type = found
    return made


@cache
def _name(kind: type) -> str:
    if not kind.__module__.startswith(ROOM) or "." in kind.__qualname__:
        raise CodecError(
            f"{kind.__module__}.{kind.__qualname__} cannot be written to the journal: it is no class of policy"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the dataclass's fields that its constructor takes."""
    return tuple(f.name for f in fields(kind) if f.init)
