"""Views of decisions: in the journal, in the history of one job, and in the stream."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from extender.present.views.base import WARNINGS, JobName, View


class DecisionView(View):
    """One entry of the journal. ``job`` is null if the job no longer exists."""

    sequence: int
    at: float
    generation: int
    cause: tuple[str, ...]
    action: str
    job: JobName | None = None
    workers: int | None = None
    nodes: dict[str, str] = Field({})
    reason: str = ""
    direction: Literal["", "in", "out"] = ""
    inputs: dict[str, str] = Field({}, description="The figures from which it was decided.")
    on_behalf_of: str = ""
    pod: str = ""
    text: str


class DecisionsView(View):
    """GET /v1/decisions. ``latest`` is the value of ``since`` for the next request."""

    instance: str
    at: float = Field(
        0.0, description="The time of the answer by the clock that dates the decisions, in seconds since the epoch."
    )
    warnings: tuple[str, ...] = Field((), description=WARNINGS)
    latest: int
    decisions: tuple[DecisionView, ...]


class RevisionView(DecisionsView):
    """One event of GET /v1/stream: the ledger's revision, and the decisions since the event before."""

    generation: int


class StepView(View):
    """What was decided about a job in one step. ``step`` is the number that all decisions of the step share."""

    step: int
    at: float
    because: tuple[str, ...] = Field(description="The kinds of events that caused the step.")
    told: tuple[str, ...]
    inputs: dict[str, str] = Field(
        {}, description="The figures from which it was decided: weights, needs, free resources, prices."
    )
