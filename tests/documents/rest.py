"""The REST routes, as the service's own OpenAPI has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

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
    """What `/openapi.json` answers."""
    app = FastAPI(title="Kohort")
    ledger = Ledger(make_policy("kod2"), Rules(), Clock(), Journal())
    app.include_router(table.router(rest.Rest(ledger, Settings, Metrics())))
    return app.openapi()


def routes() -> str:
    """A section for each route: what it does, its parameters, its answers."""
    document = openapi()
    return "\n\n".join(
        "\n\n".join(_route(method.upper(), path, told))
        for path, methods in sorted(document["paths"].items())
        for method, told in methods.items()
    )


def _route(method: str, path: str, told: Json) -> Iterator[str]:
    yield f"## `{method} {path}`"
    if text := told.get("description", told.get("summary", "")):
        yield text.strip()
    if rows := [_parameter(one) for one in told.get("parameters", ())]:
        yield blocks.table(("Parameter", "In", "Type", "Meaning"), rows)
    answers = [(code, _schema(one)) for code, one in told["responses"].items() if code != "422"]
    yield blocks.table(("Status", "Answer"), answers)


def _parameter(one: Json) -> tuple[str, str, str, str]:
    schema = one["schema"]
    kinds = [part.get("type", "") for part in schema.get("anyOf", (schema,)) if part.get("type") != "null"]
    default = f"; default `{schema['default']}`" if schema.get("default") not in (None, "") else ""
    return f"`{one['name']}`", one["in"], ", ".join(kinds), f"{one.get('description', '')}{default}"


def _schema(one: Json) -> str:
    for kind, content in one.get("content", {}).items():
        name = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
        return f"`{name}`" if name else f"`{kind}`"
    return str(one.get("description", ""))
