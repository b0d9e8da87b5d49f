"""Who would stand elsewhere after a decision that was not made."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import JobName, View, Waits


class StandingView(View):
    """Where a job stands: its state, the workers it was given, its members on each node, and its place in the queue."""

    state: str
    workers: int
    nodes: dict[str, int] = Field({}, description="Members by node.")
    members: dict[str, str] = Field({}, description="Node by member (worker-0).")
    waits: Waits | None = None
    position: int | None = Field(None, description="In the queue, from 1, as in GET /v1/queue; null: it does not wait.")
    ahead: str = Field("", description="namespace/name of the waiting job directly ahead of it, if there is one.")


class MovedView(JobName):
    """A job that would stand elsewhere; ``before`` is null of the job that is asked about."""

    before: StandingView | None = None
    after: StandingView


class WhatIfView(View):
    """POST /v1/what-if: who would stand elsewhere after one decision, by arrival."""

    generation: int
    policy: str
    jobs: tuple[MovedView, ...]
