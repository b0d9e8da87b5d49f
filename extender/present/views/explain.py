"""One job with its story."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.amounts import Amounts
from extender.present.views.base import View
from extender.present.views.cluster import HeldView
from extender.present.views.decisions import StepView
from extender.present.views.jobs import ExpectedView, JobDetail
from policy.answers.change import Kind


class NeedView(View):
    """What one role of the gang's minimum asks for, each member."""

    role: str
    members: int
    requests: Amounts


class NodeRoomView(View):
    """A node as the job sees it: what is free, what it lacks for the whole gang, and why it is no choice at all."""

    node: str
    free: Amounts
    missing: Amounts
    refused: str = ""
    promised: tuple[str, ...] = Field((), description="Pods of other schedulers that are nominated there.")


class AheadView(View):
    """A job that comes first (namespace/name), and why."""

    job: str
    why: str = ""


class ChangeView(View):
    """One change after which the policy admits the job now, proved on a copy of the ledger."""

    kind: Kind
    size: float = Field(description="Seconds, workers, utility, nodes or jobs: as the kind says.")
    text: str


class RunningView(View):
    """Why a running job stands where it does, in words. ``crossing`` of its ``pairs`` of ps and worker cross nodes."""

    placement: str
    pairs: int
    crossing: int
    traffic: str
    growth: str = Field(description="What its growth is held back by.")


class DriftView(View):
    """How a job stands against its schedule by its last report. Worker-slots: one worker that runs for one slot."""

    needed: float = Field(description="Worker-slots that it still needs, as of that report.")
    scheduled: float = Field(description="Worker-slots that its schedule has for it from then on.")
    behind: float = Field(description="The first less the second: below 0 it is ahead.")
    percent: float = Field(description="That, of all its work.")
    text: str


class ExplainView(JobDetail):
    """GET /v1/explain: a job with its story. ``held``: of a job that has finished, the room that it holds itself."""

    mend: str = Field("", description="What a person can do about it.")
    needs: tuple[NeedView, ...] = ()
    ahead: tuple[AheadView, ...] = ()
    plan: dict[str, str] = Field({}, description="Node by member (worker-0).")
    missing_pods: str = ""
    shrunk_for: str = ""
    waits_for: tuple[str, ...] = Field((), description="Pods (namespace/name) that must go first.")
    nodes: tuple[NodeRoomView, ...] = ()
    held: tuple[HeldView, ...] = ()
    arithmetic: str = Field("", description="How much of the gang would fit now, and which node comes closest.")
    running: RunningView | None = Field(None, description="Of a job that has room.")
    schedule: DriftView | None = Field(
        None, description="Of a job that is scheduled by slots and reports its progress."
    )
    expected: ExpectedView | None = Field(None, description="Of a job that waits; null if not asked for.")
    history: tuple[StepView, ...] = Field((), description="What was decided about it, oldest first.")
    unblock: tuple[ChangeView, ...] | None = Field(None, description="What would admit it now; null if not asked for.")
