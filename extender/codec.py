"""Values of ``policy`` as plain JSON and back: dataclasses, enums, named tuples, and maps with keys that are no text.

A class is written as ``{"is": "policy.cluster.gang:Gang", ...}``; only classes of ``policy`` are made on the way back.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

IS: Final = "is"
ROOM: Final = "policy."
_PLAIN: Final = (str, int, float, bool, type(None))


class CodecError(ValueError):
    """What cannot be written, or was not written by this module."""


def plain(value: object) -> Any:
    """The value in JSON's types; what is a map is written in its order, a set sorted. Raises CodecError."""
    if isinstance(value, Enum):
        return {IS: _name(type(value)), "value": value.value}
    if isinstance(value, float) and not math.isfinite(value):
        return {IS: "float", "value": repr(value)}  # JSON has no word for it
    if isinstance(value, _PLAIN):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {IS: _name(type(value)), **{name: plain(getattr(value, name)) for name in _fields(type(value))}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {IS: _name(type(value)), **{name: plain(part) for name, part in zip(value._fields, value, strict=True)}}
    if isinstance(value, Mapping):
        return {IS: "map", "items": [[plain(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, frozenset | set):
        return {IS: "set", "items": sorted((plain(item) for item in value), key=repr)}
    if isinstance(value, tuple | list):
        return {IS: "tuple", "items": [plain(item) for item in value]} if isinstance(value, tuple) else _listed(value)
    raise CodecError(f"{type(value).__module__}.{type(value).__qualname__} cannot be written")


def _listed(value: list[Any]) -> list[Any]:
    return [plain(item) for item in value]


def value_of(written: Any) -> Any:
    """The value that was written. Raises CodecError."""
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
    made = _class(kind)
    try:
        return made(parts["value"]) if issubclass(made, Enum) else made(**parts)
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
        raise CodecError(f"{kind.__module__}.{kind.__qualname__} cannot be written: it is no class of policy")
    return f"{kind.__module__}:{kind.__qualname__}"


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """What the constructor takes. An index over other fields is made anew."""
    return tuple(f.name for f in fields(kind) if f.init and f.name != "index")
