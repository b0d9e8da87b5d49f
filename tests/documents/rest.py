"""Generates the reference of the REST routes from the service's own OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from extender.access.guard import PROBLEM
from extender.clock import Clock
from extender.config.settings import Settings
from extender.observe.metrics import Metrics
from extender.routes import rest, table
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Rules
from policy.systems import make_policy
from tests.documents import blocks

Json = dict[str, Any]


def openapi() -> Json:
    """Return the content of `/openapi.json` as decoded JSON."""
    app = FastAPI(title="Kohort")
    ledger = Ledger(make_policy("kod2"), Rules(), Clock(), Journal())
    app.include_router(table.router(rest.Rest(ledger, Settings, Metrics())))
    return app.openapi()


def routes() -> str:
    """Return as Markdown a section for each route: what the route does, its parameters, its answers."""
    document = openapi()
    return "\n\n".join(
        "\n\n".join(_route(method.upper(), path, told, document["components"]["schemas"]))
        for path, methods in sorted(document["paths"].items())
        for method, told in methods.items()
    )


def _route(method: str, path: str, told: Json, components: Json) -> Iterator[str]:
    yield f"## `{method} {path}`"
    if text := told.get("description", told.get("summary", "")):
        yield text.strip()
    if rows := [_parameter(one) for one in told.get("parameters", ())]:
        yield blocks.table(("Parameter", "In", "Type", "Meaning"), rows)
    if keys := list(_body(told, components)):
        yield blocks.table(("Key of the body", "Type", "Meaning"), keys)
    answers = [(code, _schema(one)) for code, one in sorted(told["responses"].items())]
    yield blocks.table(("Status", "Answer"), answers)


def _parameter(one: Json) -> tuple[str, str, str, str]:
    return f"`{one['name']}`", one["in"], _kinds(one["schema"]), _meaning(one, one["schema"])


def _body(told: Json, components: Json) -> Iterator[tuple[str, str, str]]:
    for content in told.get("requestBody", {}).get("content", {}).values():
        for name, one in fields(content["schema"], components):
            yield f"`{name}`", _kinds(one), _meaning(one, one)


def fields(schema: Json, components: Json, prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Yield each key of a body and its schema, including nested keys such as ``shape.workers``."""
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    for key, one in components.get(name, {}).get("properties", {}).items():
        yield f"{prefix}{key}", one
        for part in one.get("anyOf", (one,)):
            yield from fields(part, components, f"{prefix}{key}.")
            yield from fields(part.get("items", {}), components, f"{prefix}{key}.*.")


def _kinds(schema: Json) -> str:
    parts = [part.get("type", "object") for part in schema.get("anyOf", (schema,))]
    return ", ".join(part for part in parts if part != "null")


def _meaning(one: Json, schema: Json) -> str:
    """Return a key's description, and its default if it has one that is not empty."""
    default = schema.get("default")
    told = "" if default in (None, "", [], {}) else f"Default: `{json.dumps(default)}`."
    return " ".join(part for part in (one.get("description", ""), told) if part)


def _schema(one: Json) -> str:
    for kind, content in one.get("content", {}).items():
        if kind == PROBLEM:
            return f"`{kind}`: {one['description']}"
        name = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
        return f"`{name}`" if name else f"`{kind}`"
    return str(one.get("description", ""))
