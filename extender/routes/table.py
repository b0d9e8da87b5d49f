"""Every route of REST once: its path, who answers it, what is answered, and an example."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from fastapi import APIRouter

from extender.access.guard import PROBLEM
from extender.present.views.cluster import NodesView, PlansView
from extender.present.views.comparison import ComparisonView
from extender.present.views.decisions import DecisionsView
from extender.present.views.explain import ExplainView
from extender.present.views.jobs import JobDetail, JobsView, QueueView
from extender.present.views.orders import DesiredView
from extender.present.views.problem import ProblemView
from extender.present.views.whatif import WhatIfView
from extender.routes.problems import routed
from extender.routes.rest import Rest
from extender.routes.stream import EXAMPLE, EventStream

Responses = dict[int | str, dict[str, Any]]


def router(rest: Rest) -> APIRouter:
    """The routes of one ledger."""
    problem: dict[str, Any] = {"content": {PROBLEM: {"schema": ProblemView.model_json_schema()}}}
    responses: Responses = {
        404: {"description": "There is no such thing.", **problem},
        422: {"description": "A parameter or the body is not allowed.", **problem},
    }
    routes = APIRouter(prefix="/v1", route_class=routed(rest.revision), responses=responses)
    examples = json.loads(files("extender.routes").joinpath("examples.json").read_text())
    for method, path, handler, view in (
        ("GET", "/jobs", rest.jobs, JobsView),
        ("GET", "/jobs/{namespace}/{name}", rest.job, JobDetail),
        ("GET", "/queue", rest.queue, QueueView),
        ("GET", "/nodes", rest.nodes, NodesView),
        ("GET", "/plans", rest.plans, PlansView),
        ("GET", "/desired", rest.desired, DesiredView),
        ("GET", "/decisions", rest.decisions, DecisionsView),
        ("GET", "/explain/{namespace}/{name}", rest.explain, ExplainView),
        ("GET", "/comparison", rest.comparison, ComparisonView),
        ("POST", "/what-if", rest.what_if, WhatIfView),
    ):
        shown: Responses = {200: {"content": {"application/json": {"example": examples[path]}}}}
        routes.add_api_route(path, handler, methods=[method], response_model=view, responses=shown)
    event = {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}}}
    kept: Responses = {200: event, 503: {"description": "Too many streams.", **problem}}
    routes.add_api_route("/stream", rest.stream, methods=["GET"], response_class=EventStream, responses=kept)
    return routes
