"""The table of REST's routes: the path, handler, possible answers and an example of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Depends, Request

from extender.access.guard import PROBLEM
from extender.http.strict import RepeatedError, RequestError, refuse_duplicates
from extender.present.views.cluster import NodesView, PlansView
from extender.present.views.comparison import ComparisonView
from extender.present.views.decisions import DecisionsView
from extender.present.views.explain import ExplainView
from extender.present.views.jobs import JobDetail, JobsView, QueueView
from extender.present.views.orders import DesiredView
from extender.present.views.problem import ProblemView
from extender.present.views.whatif import WhatIfView
from extender.routes.problems import ProblemError, has_etag, routed
from extender.routes.rest import Rest
from extender.routes.stream import EXAMPLE, EventStream

Responses = dict[int | str, dict[str, Any]]


FOLLOWS: Final = "This replica does not lead, or the API server does not answer; see Retry-After (api.port)."
EVERYWHERE: Final = {
    401: "No token, or one that the API server does not accept (api.port).",
    403: "The caller may not read what the request asks for (api.port).",
    422: "A parameter or the body is not allowed.",
    429: "Too many tokens are being reviewed; see Retry-After (api.port).",
    503: FOLLOWS,
}
"""Errors of every route, including those of the guard on api.port, where requests need a token."""
NO_JOB: Final = {404: "There is no job of that name."}
NO_JOURNAL: Final = {
    404: "The service keeps no journal to compare with.",
    503: f"There is no comparison. Or: {FOLLOWS}",
}
UNKNOWN: Final = {503: f"The ledger is still being rebuilt. Or: {FOLLOWS}"}
MANY: Final = {503: f"Too many streams are open. Or: {FOLLOWS}"}
REVISION: Final[dict[str, Any]] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The ETag of the last answer; the status is 304 where nothing has changed since.",
}


def router(rest: Rest) -> APIRouter:
    """Return a router with the routes, which are handled by ``rest``."""
    routes = APIRouter(prefix="/v1", route_class=routed(rest.revision))
    examples = json.loads(files("extender.routes").joinpath("examples.json").read_text())
    for method, path, handler, view, faults in (
        ("GET", "/jobs", rest.jobs, JobsView, {}),
        ("GET", "/jobs/{namespace}/{name}", rest.job, JobDetail, NO_JOB),
        ("GET", "/queue", rest.queue, QueueView, {}),
        ("GET", "/nodes", rest.nodes, NodesView, {}),
        ("GET", "/plans", rest.plans, PlansView, {}),
        ("GET", "/desired", rest.desired, DesiredView, {}),
        ("GET", "/decisions", rest.decisions, DecisionsView, {}),
        ("GET", "/explain/{namespace}/{name}", rest.explain, ExplainView, NO_JOB),
        ("GET", "/comparison", rest.comparison, ComparisonView, NO_JOURNAL),
        ("POST", "/what-if", rest.what_if, WhatIfView, UNKNOWN),
    ):
        shown: Responses = {
            200: {"content": {"application/json": {"example": examples[path]}}},
            **_problems(faults, examples["problems"]),
        }
        kept = has_etag(method, handler.__name__)
        extra = {"parameters": [REVISION]} if kept else None
        if kept:
            shown[304] = {"description": "Nothing has changed since the answer with that ETag."}
        checks = [Depends(refuse_repeated)] if method == "POST" else []
        routes.add_api_route(
            path, handler, methods=[method], response_model=view, responses=shown, openapi_extra=extra,
            dependencies=checks,
        )  # fmt: skip
    event = {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}}}
    told: Responses = {200: event, **_problems(MANY, examples["problems"])}
    routes.add_api_route("/stream", rest.stream, methods=["GET"], response_class=EventStream, responses=told)
    return routes


async def refuse_repeated(request: Request) -> None:
    """Refuse a body in which an object has the same key twice, because JSON readers silently keep the last one."""
    try:
        refuse_duplicates(await request.body())
    except RepeatedError as error:
        raise ProblemError(422, f"body: {error}; allowed: each key once", "body", "", "each key once") from None
    except RequestError:
        pass  # the error of a body that is not JSON is left to the route's own check


def _problems(faults: Mapping[int, str], examples: Mapping[str, Any]) -> Responses:
    """Return OpenAPI's description of a route's error answers: those of every route, and those of this route only.

    faults: maps the HTTP status of each error of this route only to its description. examples: maps each HTTP status to
    an example of the answer.
    """
    schema = ProblemView.model_json_schema()
    return {
        status: {
            "description": text,
            "content": {PROBLEM: {"schema": schema, "example": examples[str(status)]}},
        }
        for status, text in sorted({**EVERYWHERE, **faults}.items())
    }
