"""Views of what-if's answer: the jobs whose state, place in the queue or nodes would change."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import JobName, View
from policy.answers.explanation import Waits


class JobStatusView(View):
    """A job's state, its workers, its members on each node, and its place in the queue."""

    state: str
    workers: int
    nodes: dict[str, int] = Field({}, description="The number of members on each node.")
    members: dict[str, str] = Field({}, description="The node of each member (worker-0).")
    waits: Waits | None = None
    position: int | None = Field(
        None, description="The place in the queue, from 1, as in GET /v1/queue; null where the job does not wait."
    )
    ahead: str = Field(
        "", description="namespace/name of the waiting job directly ahead of it; empty where there is none."
    )


class ChangedJobView(JobName):
    """A job whose state, place in the queue or nodes would change. ``before`` is null for a job that would be new."""

    before: JobStatusView | None = None
    after: JobStatusView


class WhatIfView(View):
    """POST /v1/what-if: the jobs that the policy's next decision would change, in order of arrival."""

    generation: int
    policy: str
    jobs: tuple[ChangedJobView, ...]
