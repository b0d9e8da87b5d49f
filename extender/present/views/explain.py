"""One job with the reasons for its state and its history."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from extender.present.views.amounts import Amounts
from extender.present.views.base import View
from extender.present.views.cluster import HeldView
from extender.present.views.decisions import StepView
from extender.present.views.jobs import ExpectedView, JobDetail
from policy.answers.change import Kind
from policy.cluster.resources import largest_share


class NeedView(View):
    """What each member of one role asks for, at the gang's minimum."""

    role: str
    members: int
    requests: Amounts


class NodeRoomView(View):
    """A node as seen by the job: what is free, what it lacks for the whole gang, and why it is excluded, if it is."""

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
    """One change after which the policy would admit the job now, tested on a copy of the ledger."""

    kind: Kind
    size: float = Field(description="Seconds, workers, utility, nodes or jobs: as the kind says.")
    text: str


class RunningView(View):
    """Why a running job is placed where it is. ``crossing`` of its ``pairs`` of ps and worker are on two nodes."""

    placement: str
    pairs: int
    crossing: int
    traffic: str
    growth: str = Field(description="What its growth is held back by.")


class DriftView(View):
    """How far a job is ahead of its schedule or behind it, by its last report.

    One worker-slot is one worker that runs for one slot.
    """

    needed: float = Field(description="Worker-slots that it still needs, as of that report.")
    scheduled: float = Field(description="Worker-slots that its schedule has for it from then on.")
    behind: float = Field(description="The first less the second: below 0 it is ahead.")
    percent: float = Field(description="That, of all its work.")
    text: str


class ExplainView(JobDetail):
    """GET /v1/explain: a job with the reasons for its state. ``held``: what the job holds after it has finished."""

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

    def nearest(self) -> list[NodeRoomView]:
        """Return the nodes, the one that lacks least for the whole gang first, and excluded nodes last."""
        whole = Counter[str]()
        for need in self.needs:
            whole.update({name: need.members * amount.exact for name, amount in need.requests.items()})

        def order(room: NodeRoomView) -> tuple[bool, float, str]:
            missing = {name: amount.exact for name, amount in room.missing.items()}
            return bool(room.refused), largest_share(missing, whole), room.node

        return sorted(self.nodes, key=order)
