"""Puts errors in a request into words: the field, its value, and what the field's declaration allows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

BODY: Final = "body"
MOST_CHARACTERS: Final = 100  # An error shows at most MOST_CHARACTERS characters of a wrong value.
MOST_EXACT: Final = 2**53  # JSON readers keep all integers up to MOST_EXACT exactly; a larger integer is shown as text.
A_BODY: Final = "a JSON object, with content-type: application/json"
Json = Mapping[str, Any]
Value = str | bool | int | float


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a request: the field, its value and what is allowed; ``detail`` is all of this in a sentence."""

    field: str
    value: Value
    allowed: str
    detail: str


def shown_value(value: object) -> Value:
    """Return the value for an error: a number or boolean unchanged, and anything else as text of limited length."""
    if isinstance(value, int | float) and abs(value) <= MOST_EXACT:
        return value
    if value is None:
        return ""
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value))[:MOST_CHARACTERS]


def not_allowed(field: str, value: object, allowed: str) -> Fault:
    """Return the error for a value that is not allowed; null is treated as a missing value."""
    if value is None:
        return missing(field, allowed)
    found = shown_value(value)
    shown = repr(found) if isinstance(found, str) else json.dumps(found)
    return Fault(field, found, allowed, f"{field}: {shown} is not allowed; allowed: {allowed}")


def missing(field: str, allowed: str) -> Fault:
    """Return the error for a required value that is missing."""
    return Fault(field, "", allowed, f"{field}: missing; allowed: {allowed}")


def fault(details: Json, model: type[BaseModel] | None = None) -> Fault:
    """Return one of pydantic's errors (``details``) as a Fault.

    model: the request's model, which declares what is allowed; ``details["loc"]`` is the path of the wrong field in it.
    """
    place: Sequence[str | int] = details["loc"]
    field, schema = ".".join(str(part) for part in place), _schema_of(model) if model is not None else {}
    if details["type"] == "extra_forbidden":
        known = ", ".join(_at(schema, schema, place[:-1]).get("properties", ())) or "none"
        return Fault(field, shown_value(details["input"]), known, f"{field}: unknown; allowed: {known}")
    asked = _at(schema, schema, place)
    allowed = in_words(asked) or str(details["msg"]).removeprefix("Input should be ")
    if details["type"] == "missing":
        if meaning := str(asked.get("description", "")).rstrip("."):
            allowed = f"{allowed} ({meaning[0].lower()}{meaning[1:]})"
        return missing(field, allowed)
    return not_allowed(field, details["input"], allowed)


def body_fault(value: object) -> Fault:
    """Return the error for a body that is missing, is not a JSON object, or has a wrong content type."""
    if value in (None, b"", ""):
        return missing(BODY, A_BODY)
    return not_allowed(BODY, value, A_BODY)


@cache
def _schema_of(model: type[BaseModel]) -> Json:
    return model.model_json_schema()


def _at(root: Json, schema: Json, place: Sequence[str | int]) -> Json:
    """Return the schema of the value at the path ``place`` below ``schema``; empty if none is declared.

    root: the whole JSON schema, to which references refer.
    """
    schema = _plain(root, schema)
    if not place:
        return schema
    first, rest = place[0], place[1:]
    if isinstance(first, int):
        below = schema.get("items")
    else:
        below = schema.get("properties", {}).get(first, schema.get("additionalProperties"))
    return _at(root, below, rest) if isinstance(below, Mapping) else {}


def _plain(root: Json, schema: Json) -> Json:
    """Return the schema with its reference resolved; of a schema that allows null or something else, return the part
    for something else.
    """
    for part in schema.get("anyOf", ()):
        if part.get("type") != "null":
            return {**_plain(root, part), **{key: schema[key] for key in ("description",) if key in schema}}
    if (name := schema.get("$ref")) is not None:
        return {**root["$defs"][name.rsplit("/", 1)[-1]], **schema}
    return schema


_KINDS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a JSON object",
}


def in_words(schema: Json) -> str:
    """Return in words what the schema allows, such as ``a whole number from 1 to 5000``; empty if it has no type."""
    kind = schema.get("type", "")
    return f"{_KINDS[kind]}{_bounds(schema)}" if kind in _KINDS else ""


def _bounds(schema: Json) -> str:
    least, most, above = (_number(schema.get(key)) for key in ("minimum", "maximum", "exclusiveMinimum"))
    if least and most:
        return f" from {least} to {most}"
    if least:
        return f" of at least {least}"
    if above:
        return f" above {above}"
    for key, what in (("maxLength", "characters"), ("maxItems", "entries")):
        if key in schema:
            return f" of at most {schema[key]} {what}"
    return ""


def _number(bound: float | None) -> str:
    """Return a bound as text: ``60`` for 60.0; empty if there is none."""
    if bound is None:
        return ""
    return str(int(bound)) if bound == int(bound) else str(bound)
