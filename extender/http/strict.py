"""Parses JSON from clients strictly; its functions raise nothing but RequestError.

NaN, lone surrogates, text that is not UTF-8, integers beyond 64 bits, a repeated key in one object, and more than
`MAX_DEPTH` levels are refused. This module knows JSON; it must not know what the documents mean.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import Raw

MAX_DEPTH: Final = 64
TOO_DEEP: Final = f"its values are nested too deeply; allowed: {MAX_DEPTH} levels"


class RequestError(Exception):
    """A request is malformed. ``field``: the path of the wrong field in the body, may be empty; ``why``: the reason."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}" if field else why)
        self.field = field
        self.why = why


class RepeatedError(RequestError):
    """The same key occurs twice in one JSON object."""


_ANY: Final = msgspec.json.Decoder()
_T = TypeVar("_T")


def decode(decoder: msgspec.json.Decoder[_T], data: bytes | Raw, field: str) -> _T:
    """Return ``data`` decoded; parts that the decoder skips are only checked to be JSON.

    Raises RequestError. ``field``: the path of the request's field that has ``data``, for the error.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        _refuse(field, error)


def _refuse(field: str, error: Exception) -> NoReturn:
    why = TOO_DEEP if isinstance(error, RecursionError) else str(error)[:200]
    raise RequestError(field, why) from None


def check_text(body: bytes) -> None:
    """Raise RequestError where the body is not UTF-8, because msgspec checks only strings that it keeps."""
    try:
        if not body.isascii():
            body.decode()
    except UnicodeDecodeError:
        raise RequestError("", "the body is not UTF-8 text") from None


def refuse_duplicates(body: bytes) -> None:
    """Raise RequestError for a key that is repeated in one object.

    The body is parsed once more for that, slowly, because msgspec would silently take the last value.
    """
    try:
        json.loads(body, object_pairs_hook=_unique, parse_int=len, parse_float=len)
    except (ValueError, RecursionError) as error:
        _refuse("", error)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RepeatedError("", "a key is repeated in one object of the body")
    return found


def strict_dict(raw: bytes, field: str) -> dict[str, Any]:
    """Return the JSON object in ``raw`` as a dict, after every check of this module. Raises RequestError."""
    value = decode(_ANY, raw, field)
    refuse_duplicates(raw)
    if not isinstance(value, dict):
        raise RequestError(field, "the value is not a JSON object")
    if _depth_exceeds(value, MAX_DEPTH):
        raise RequestError(field, TOO_DEEP)
    return value


def _depth_exceeds(value: object, levels: int) -> bool:
    """Tell whether containers nest more than ``levels`` deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(_depth_exceeds(v, levels - 1) for v in value if isinstance(v, dict | list))
