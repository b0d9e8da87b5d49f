"""Views of jobs, their members, and the queue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from extender.present.views.base import WARNINGS, JobName, ListView, View
from extender.present.views.refused import RefusedView
from policy.answers.explanation import HeldRoom, Start, Waits
from policy.cluster.amounts import Amounts


class RoleView(View):
    """The number of replicas of one role, and what each of them requests."""

    role: str
    replicas: int
    requests: Amounts


class MemberView(View):
    """One member of a gang, with its pod and its node."""

    role: str
    index: int
    pod: str = Field("", description="The pod in this place; empty while there is none.")
    node: str = ""
    state: Literal["bound", "at barrier", "binding", "planned", "gated", "waiting", "ended", "gone"]


class JobView(JobName):
    """A job with its bounds and state."""

    state: str
    min_workers: int
    workers: int = Field(description="Workers that the policy gives the job; 0 while it waits.")
    max_workers: int
    replicas: int = Field(description="Workers that the job object asks for now.")
    elastic: bool
    note: str = Field("", description="Which part of the job object is ignored, and why.")
    utility: float
    weight: float | None = None
    arrival: float
    waited_seconds: float | None = None
    admitted_at: float | None = None
    scaled_at: float | None = None
    keeps_pods: bool = Field(
        description="Whether cleanPodPolicy is None: then a ps that still runs keeps its resources after the end."
    )
    gated_pods: int = 0
    waits: Waits | None = None
    refused: tuple[RefusedView, ...] = Field(
        (), description="The writes that the API server refuses for this job, or for one that it waits for."
    )


class JobDetail(JobView):
    """A job with its roles and members."""

    roles: tuple[RoleView, ...]
    members: tuple[MemberView, ...]
    warnings: tuple[str, ...] = Field((), description=WARNINGS)


class JobsView(ListView):
    """GET /v1/jobs: every job that opted in."""

    jobs: tuple[JobView, ...]


class QueuedJob(JobName):
    """A job that waits. ``position`` counts from 1, in the order in which the policy considers jobs."""

    position: int
    weight: float | None = None
    starving: bool = False
    waited_seconds: float
    members: int = Field(description="The number of members of the gang at its minimum.")
    min_workers: int
    max_workers: int
    needs: Amounts = Field(description="What the gang requests at its minimum.")
    gated_pods: int = 0
    waits: Waits
    refused: tuple[RefusedView, ...] = Field(
        (), description="The writes that the API server refuses for this job, or for one that it waits for."
    )
    expected: Start | None = Field(None, description="Null if not asked for.")


class InvalidJob(JobName):
    """A malformed job, which does not queue. ``detail`` names the field, its value and what is allowed."""

    detail: str


class UnplacedMembers(JobName):
    """A running job that has members without a node.

    ``members``: the number of these members; ``detail``: what they wait for.
    """

    members: int
    detail: str


class QueueView(ListView):
    """GET /v1/queue: the waiting jobs, and what else keeps jobs from running.

    ``held``: resources that pods of finished jobs still hold. ``invalid``: malformed jobs, which do not queue until
    they are corrected. ``unplaced``: running jobs that have members without a node. ``invalid`` and ``unplaced`` are on
    every page of the list.
    """

    gated_pods: int
    jobs: tuple[QueuedJob, ...]
    held: tuple[HeldRoom, ...] = ()
    invalid: tuple[InvalidJob, ...] = ()
    unplaced: tuple[UnplacedMembers, ...] = ()
