"""Views of a comparison: the recorded decisions, and those that another policy would have made."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import View


class ActionView(View):
    """An action that a policy would take on one job."""

    job: str = Field(description="namespace/name")
    text: str


class DifferenceView(View):
    """A recorded state in which the two policies would have decided differently, with both decisions."""

    at: float
    recorded: tuple[ActionView, ...]
    other: tuple[ActionView, ...]


class LoadView(View):
    """The load of the cluster at one moment. ``used``: the share in use of what ready nodes have, by resource."""

    at: float
    waiting: int
    running: int
    used: dict[str, float]


class CourseView(View):
    """How the recorded hours went, or would have gone, under one policy.

    Means are over time; ``started`` and ``ended`` count jobs.
    """

    policy: str
    started: int
    ended: int
    mean_waiting: float
    most_waiting: int
    mean_used: dict[str, float]
    moments: tuple[LoadView, ...]


class ComparisonView(View):
    """GET /v1/comparison: the recorded journal, and what another policy would have decided."""

    generation: int = Field(0, description="The ledger's revision at the time of the request.")
    recorded: str = Field(description="The policy that made the recorded decisions.")
    other: str = Field(description="The policy that is compared with it.")
    begin: float
    end: float
    whole: bool = Field(
        description="Whether the whole record was compared within journal.compare_seconds; else it was up to ``end``."
    )
    steps: int
    asked: int = Field(description="The number of recorded decisions on which the other policy was run.")
    differing: int = Field(description="The number of them in which the other policy decided differently.")
    counts: dict[str, dict[str, int]] = Field(
        description="The number of actions (start, resize ...) of each kind, for both policies."
    )
    differences: tuple[DifferenceView, ...] = Field(description="The newest decisions that differ, newest first.")
    courses: dict[str, CourseView] = Field(
        description="as_recorded: what was; recorded, other: the same arrivals once more under each policy, in a "
        "cluster where pods come and go at once. These two can be compared with one another. All are of the same time, "
        "which ends before ``end`` where time did not suffice."
    )
