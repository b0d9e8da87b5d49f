"""Views of nodes, with the members and the pods of finished jobs on them, and of the plans of gangs."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import JobName, ListView, View
from policy.answers.explanation import HeldRoom
from policy.cluster.amounts import Amounts


class NodeMemberView(View):
    """A member of a gang on a node.

    finished: whether its job has ended; its pod is listed because it still holds resources.
    """

    job: str
    role: str
    index: int
    pod: str = ""
    state: str
    finished: bool = False


class NodeView(View):
    """A node: its capacity, what is free, and the members on it."""

    name: str
    ready: bool
    unschedulable: bool
    allocatable: Amounts
    free: Amounts
    members: tuple[NodeMemberView, ...]
    other_pods: int = Field(description="The number of pods on it that did not opt in.")
    failures: int = Field(
        0, description="Of how many different jobs members have failed on it while the others lived on."
    )
    last_failure_at: float | None = Field(None, description="When that was last, in seconds since the epoch.")
    avoided_until: float | None = Field(
        None, description="Until when it is avoided because of that, in seconds since the epoch; null if it is not."
    )
    barred: bool = Field(
        False, description="Whether nothing is placed on it until then. If not, an avoided node is only used last."
    )


class NodesView(ListView):
    """GET /v1/nodes: every node with the members on it."""

    nodes: tuple[NodeView, ...]
    held: tuple[HeldRoom, ...] = Field((), description="Resources that pods of finished jobs still hold.")


class PlanView(JobName):
    """The plan of an admitted gang."""

    plan: str
    state: str
    workers: int
    nodes: dict[str, str] = Field(description="The node of each member (worker-0).")
    waits_for: tuple[str, ...] = Field(
        (), description="The pods (namespace/name) that must be gone before it starts, since it gets their resources."
    )
    at_barrier: tuple[str, ...] = Field((), description="The members whose binding is held.")
    in_flight: int = 0
    window_ends_in_seconds: float | None = None
    deadline_in_seconds: float | None = None
    attempts: int = 0
    on_behalf_of: str = ""


class PlansView(ListView):
    """GET /v1/plans: the plan of every admitted gang."""

    plans: tuple[PlanView, ...]
