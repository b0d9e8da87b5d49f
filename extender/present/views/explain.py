"""Views that explain one job: the reasons for its state, and its history."""

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
    """What each member of one role requests, and how many of them the gang's minimum has."""

    role: str
    members: int
    requests: Amounts


class NodeRoomView(View):
    """A node, what is free on it, what it lacks for the job's whole gang, and why it is excluded, if it is."""

    node: str
    free: Amounts
    missing: Amounts
    refused: str = ""
    promised: tuple[str, ...] = Field((), description="Pods of other schedulers that are nominated to the node.")


class AheadView(View):
    """A job (namespace/name) that comes before the explained job, and why."""

    job: str
    why: str = ""


class ChangeView(View):
    """One change after which the policy would admit the job now, tested on a copy of the ledger."""

    kind: Kind
    size: float = Field(
        description="How large the change is, in seconds, workers, utility, nodes or jobs, depending on its kind."
    )
    text: str


class RunningView(View):
    """Why a running job is placed where it is.

    ``pairs`` counts its ps-worker pairs, ``crossing`` those whose ps and worker are on different nodes.
    """

    placement: str
    pairs: int
    crossing: int
    traffic: str
    growth: str = Field(description="What limits the job's growth.")


class DriftView(View):
    """How far a job is ahead of its schedule or behind it, by its last report.

    One worker-slot is the work of one worker in one time slot.
    """

    needed: float = Field(description="The worker-slots that it still needed at the time of that report.")
    scheduled: float = Field(description="The worker-slots that its schedule has for it from then on.")
    behind: float = Field(description="``needed`` minus ``scheduled``; below 0 the job is ahead of its schedule.")
    percent: float = Field(description="``behind`` as a percentage of all its work.")
    text: str


class ExplainView(JobDetail):
    """GET /v1/explain: a job with the reasons for its state.

    ``held``: the resources that pods of the finished job still hold.
    """

    mend: str = Field("", description="What a person can do so that the job starts.")
    needs: tuple[NeedView, ...] = ()
    ahead: tuple[AheadView, ...] = ()
    plan: dict[str, str] = Field({}, description="The node of each member (worker-0).")
    missing_pods: str = ""
    shrunk_for: str = ""
    waits_for: tuple[str, ...] = Field((), description="The pods (namespace/name) that must be gone first.")
    nodes: tuple[NodeRoomView, ...] = ()
    held: tuple[HeldView, ...] = ()
    arithmetic: str = Field("", description="How much of the gang would fit now, and which node comes closest.")
    running: RunningView | None = Field(
        None, description="Why it runs where it does; null for a job that waits, or if not asked for."
    )
    schedule: DriftView | None = Field(
        None, description="Only for a job that is scheduled by slots and reports its progress."
    )
    expected: ExpectedView | None = Field(
        None, description="When the job may start; null if it does not wait, or if not asked for."
    )
    history: tuple[StepView, ...] = Field((), description="The decisions about the job, oldest first.")
    unblock: tuple[ChangeView, ...] | None = Field(
        None, description="The changes that would admit the job now; null if not asked for."
    )

    def nearest(self) -> list[NodeRoomView]:
        """Return the nodes in order of what they lack for the whole gang, the least first; excluded nodes come last."""
        whole = Counter[str]()
        for need in self.needs:
            whole.update({name: need.members * amount.exact for name, amount in need.requests.items()})

        def order(room: NodeRoomView) -> tuple[bool, float, str]:
            missing = {name: amount.exact for name, amount in room.missing.items()}
            return bool(room.refused), largest_share(missing, whole), room.node

        return sorted(self.nodes, key=order)
