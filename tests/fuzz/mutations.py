"""Seeded damage to JSON values and to bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

Json = dict[str, Any]
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 2**31, 2**63, 10**40, -(2**63) - 1, "", "kohort", "0", "-1", "1e999999999", "NaN",
    "9" * 400, "n1", "team", "\ud800", "\u202e", "\x00", "a\nb", "<b>", "../..", "x" * 5000, [], [None], [[]], {},
    {"": None}, {"a": {"b": []}}, [{}], ["TFJob"], float("nan"), float("inf"),
)  # fmt: skip
# Python's JSON writer would not produce these bytes; `written` puts them in place of the text that is their key.
RAW = {
    "@lists": b"[" * 2000 + b"]" * 2000, "@objects": b'{"a":' * 2000 + b"1" + b"}" * 2000, "@digits": b"9" * 5000,
    "@surrogate": b'"\\udfff"', "@bytes": b'"\xff\xfe"', "@exponent": b"1e999999999",
}  # fmt: skip
JUNK += tuple(RAW)
PIECES = (
    b"", b"\x00", b"\xff\xfe", b"{", b"}", b"[", b"]", b'"', b"\\ud800", b"NaN", b"Infinity", b"-", b"9" * 5000,
    b"[" * 2000, b'{"a":' * 2000, b'{"Pod":', b'"NodeNames":null,', b"\r\n", b"\xed\xa0\x80",
)  # fmt: skip


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of the value as tuples of keys and indices; () is the whole value."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


def junk(chance: random.Random) -> Any:
    """Return a copy of a random piece of junk, so that later damage to it does not change other cases."""
    return copy.deepcopy(chance.choice(JUNK))


def hurt(value: Json, chance: random.Random, most: int = 3) -> Any:
    """Return a copy of the value with up to ``most`` parts removed, added, or replaced by junk or another part."""
    result: Any = copy.deepcopy(value)
    for _ in range(chance.randint(1, most)):
        way = chance.choice(places(result))
        if not way:
            if chance.random() < 0.1:
                return junk(chance)
            continue
        at = result
        for key in way[:-1]:
            at = at[key]
        _hurt_one(at, way[-1], result, chance)
    return result


def _hurt_one(at: Any, key: Any, whole: Any, chance: random.Random) -> None:
    match chance.randrange(4):
        case 0:
            del at[key]
        case 1:
            other: Any = whole
            for step in chance.choice(places(whole)):
                other = other[step]
            at[key] = copy.deepcopy(other)
        case 2 if isinstance(at, dict):
            at[chance.choice(("", "a", "name", "uid", "kohort.dev/plan", "\u0000"))] = junk(chance)
        case _:
            at[key] = junk(chance)


def written(value: Any, chance: random.Random) -> bytes:
    """Return the value as JSON, sometimes with a repeated key, blanks, or invalid bytes."""
    text = json.dumps(value, indent=chance.choice((None, None, 1)), ensure_ascii=chance.random() < 0.9)
    data = text.encode("utf-8", "surrogatepass")
    for word, raw in RAW.items():
        data = data.replace(f'"{word}"'.encode(), raw)
    if isinstance(value, dict) and value and chance.random() < 0.1:
        data = data[:-1] + b"," + json.dumps(dict([chance.choice(list(value.items()))])).encode()[1:]
    return spoilt(data, chance) if chance.random() < 0.3 else data


def spoilt(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few of them removed, doubled, flipped, or inserted."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(result) + 1)
        end = min(len(result), start + chance.choice((0, 1, 2, 10, 100)))
        match chance.randrange(4):
            case 0:
                del result[start:end]
            case 1:
                result[start:start] = result[start:end]
            case 2 if start < len(result):
                result[start] ^= 1 << chance.randrange(8)
            case _:
                result[start:end] = chance.choice(PIECES)
    return bytes(result)
