"""What REST answers, as pydantic models: the service writes them, the CLI and the controller read them.

Amounts come twice, as Kubernetes writes them (``500m``, ``8Gi``) and exact: millicores for cpu, else bytes or pieces.
Times are seconds since the epoch unless the name says otherwise. This room knows words; it must not know how a view is
made from a snapshot.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from policy.answers.changes import Kind
from policy.cluster.resources import Resources
from policy.desired import NoteOrder, PodOrder, ReplicaOrder, SuspendOrder

CLIENT_HEADER: Final = "X-Kohort-Client"
CONTROLLER: Final = "controller"
"""In that header: only the controller's questions count as its sign of life."""
FORWARDED_HEADER: Final = "x-kohort-authorization"
"""The API server's proxy takes Authorization for itself: the token for the service goes beside it."""

_BINARY: Final = (("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_IN_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")


class View(BaseModel):
    """An answer; a client of an older version ignores what it does not know."""

    model_config = ConfigDict(frozen=True)


class Quantity(View):
    """One amount of one resource."""

    quantity: str = Field(description="As Kubernetes writes it: 500m, 8Gi, 2.")
    exact: int = Field(description="Millicores for cpu, bytes for memory and storage, else pieces.")


Amounts = dict[str, Quantity]


def amounts(resources: Resources) -> Amounts:
    """Every resource in both spellings."""
    return {name: Quantity(quantity=quantity(name, resources[name]), exact=resources[name]) for name in resources}


def quantity(name: str, amount: int) -> str:
    """Write an exact amount as Kubernetes does, without loss."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name.startswith(_IN_BYTES):
        for suffix, size in _BINARY:
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


class JobName(View):
    """A job as everybody names it."""

    namespace: str
    name: str
    kind: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Waits(View):
    """Why something waits."""

    reason: str = Field(description="The code, one of a closed set: the same in filter answers, metrics and here.")
    text: str = Field(description="The reason's constant sentence.")
    detail: str = Field("", description="The numbers behind it.")
    behind: str = Field("", description="namespace/name of the job that comes first, if that is why.")


class RoleView(View):
    """The replicas of one role and what each asks for."""

    role: str
    replicas: int
    requests: Amounts


class MemberView(View):
    """One member of a gang and where it is."""

    role: str
    index: int
    pod: str = Field("", description="The pod in this place; empty while there is none.")
    node: str = ""
    state: Literal["bound", "at barrier", "binding", "planned", "gated", "waiting", "ended"]


class JobView(JobName):
    """A job with its bounds and where it stands."""

    state: str
    min_workers: int
    workers: int = Field(description="Workers that the job was given; 0 while it waits.")
    max_workers: int
    replicas: int = Field(description="Workers that the job object asks for now.")
    elastic: bool
    note: str = Field("", description="What of the job object is not used, and why.")
    utility: float
    weight: float | None = None
    arrival: float
    waited_seconds: float | None = None
    admitted_at: float | None = None
    scaled_at: float | None = None
    keeps_pods: bool = Field(description="cleanPodPolicy None: a ps that goes on running keeps its room after the end.")
    gated_pods: int = 0
    waits: Waits | None = None


class JobDetail(JobView):
    """A job with its roles and members."""

    roles: tuple[RoleView, ...]
    members: tuple[MemberView, ...]


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


class HeldView(View):
    """Room that a pod of a finished job still holds."""

    job: str
    pod: str
    node: str
    requests: Amounts


class AheadView(View):
    """A job that comes first (namespace/name), and why."""

    job: str
    why: str = ""


class ChangeView(View):
    """One change after which the policy admits the job now, proved on a copy of the ledger."""

    kind: Kind
    size: float = Field(description="Seconds, workers, utility, nodes or jobs: as the kind says.")
    text: str


class ExpectedView(View):
    """When a waiting job may start if nobody else comes; both times are null where that is not known."""

    at: float | None = None
    in_seconds: float | None = None
    basis: str = Field(description="What it stands on, or why it is not known.")


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


class StepView(View):
    """What was decided about a job in one step. ``step``: the number that all decisions of that step share."""

    step: int
    at: float
    because: tuple[str, ...] = Field(description="The kinds of facts that made the step.")
    told: tuple[str, ...]
    inputs: dict[str, str] = Field({}, description="What it was decided from: weights, needs, free room, prices.")


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


class ListView(View):
    """A list of one revision of the ledger. With ``limit``, ``continue`` is what to ask the next page with."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    generation: int
    continues: str = Field("", alias="continue", description="Empty at the end of the list.")
    remaining: int = Field(0, description="Entries behind this page.")


class JobsView(ListView):
    """GET /v1/jobs."""

    jobs: tuple[JobView, ...]


class QueuedJob(JobName):
    """A job that waits. ``position`` counts from 1, in the order in which the policy looks at jobs."""

    position: int
    weight: float | None = None
    starving: bool = False
    waited_seconds: float
    members: int = Field(description="Members of the gang at its minimum.")
    min_workers: int
    max_workers: int
    needs: Amounts = Field(description="What the gang asks for at its minimum.")
    gated_pods: int = 0
    waits: Waits
    expected: ExpectedView | None = Field(None, description="Null if not asked for.")


class QueueView(ListView):
    """GET /v1/queue. ``warnings`` say what keeps the whole queue from moving, ``held`` what finished jobs hold."""

    gated_pods: int
    warnings: tuple[str, ...] = ()
    jobs: tuple[QueuedJob, ...]
    held: tuple[HeldView, ...] = ()


class Guest(View):
    """A member of a gang on a node; ``finished``: its job has ended, and it holds the room still."""

    job: str
    role: str
    index: int
    pod: str = ""
    state: str
    finished: bool = False


class NodeView(View):
    """A node: what it holds, what is free, and whose members are on it."""

    name: str
    ready: bool
    unschedulable: bool
    allocatable: Amounts
    free: Amounts
    members: tuple[Guest, ...]
    other_pods: int = Field(description="Pods on it that did not opt in.")


class NodesView(ListView):
    """GET /v1/nodes."""

    nodes: tuple[NodeView, ...]
    held: tuple[HeldView, ...] = Field((), description="Room that pods of finished jobs hold.")


class PlanView(JobName):
    """What Kohort intends for an admitted gang."""

    plan: str
    state: str
    workers: int
    nodes: dict[str, str] = Field(description="Node by member (worker-0).")
    waits_for: tuple[str, ...] = Field((), description="Pods (namespace/name) whose room it takes over.")
    at_barrier: tuple[str, ...] = Field((), description="Members whose bind is held.")
    in_flight: int = 0
    window_ends_in_seconds: float | None = None
    deadline_in_seconds: float | None = None
    attempts: int = 0
    on_behalf_of: str = ""


class PlansView(ListView):
    """GET /v1/plans."""

    plans: tuple[PlanView, ...]


class DesiredView(View):
    """GET /v1/desired. ``gate`` is null while nobody may decide (not rebuilt, not leading): leave it as it is.

    ``instance`` names the process that answers: where it changes, generations and sequences begin anew.
    """

    instance: str
    generation: int
    gate: bool | None
    ungate: tuple[PodOrder, ...] = ()
    wake: tuple[PodOrder, ...] = ()
    nominate: tuple[PodOrder, ...] = ()
    replicas: tuple[ReplicaOrder, ...] = ()
    suspend: tuple[SuspendOrder, ...] = ()
    release: tuple[PodOrder, ...] = ()
    evict: tuple[PodOrder, ...] = ()
    checkpoint: tuple[PodOrder, ...] = ()
    note: tuple[NoteOrder, ...] = ()


class DecisionView(View):
    """One entry of the journal. ``job`` is null where the job is gone already."""

    sequence: int
    at: float
    generation: int
    cause: tuple[str, ...]
    action: str
    job: JobName | None = None
    workers: int | None = None
    nodes: dict[str, str] = {}
    reason: str = ""
    direction: Literal["", "in", "out"] = ""
    inputs: dict[str, str] = Field({}, description="What it was decided from, in figures.")
    on_behalf_of: str = ""
    pod: str = ""
    text: str


class DecisionsView(View):
    """GET /v1/decisions. ``latest`` is what to give as ``since`` next time."""

    instance: str
    latest: int
    decisions: tuple[DecisionView, ...]


class RevisionView(DecisionsView):
    """One event of GET /v1/stream: the ledger's revision, and what was decided since the event before."""

    generation: int


class StandingView(View):
    """Where a job stands: its state, the workers it was given, and how many members each node has."""

    state: str
    workers: int
    nodes: dict[str, int] = Field({}, description="Members by node.")
    members: dict[str, str] = Field({}, description="Node by member (worker-0).")
    waits: Waits | None = None


class MovedView(JobName):
    """A job that would stand elsewhere; ``before`` is null of the job that is asked about."""

    before: StandingView | None = None
    after: StandingView


class WhatIfView(View):
    """POST /v1/what-if: who would stand elsewhere after one decision, by arrival."""

    generation: int
    policy: str
    jobs: tuple[MovedView, ...]


class ActionView(View):
    """What a policy would do with one job."""

    job: str = Field(description="namespace/name")
    text: str


class DifferenceView(View):
    """One decision that the two policies would have made otherwise, about the same state."""

    at: float
    recorded: tuple[ActionView, ...]
    other: tuple[ActionView, ...]


class LoadView(View):
    """How busy the cluster was at one moment. used: share of what ready nodes have, by resource."""

    at: float
    waiting: int
    running: int
    used: dict[str, float]


class CourseView(View):
    """The recorded hours under one policy. Means are over time; ``started``, ``ended``: jobs."""

    policy: str
    started: int
    ended: int
    mean_waiting: float
    most_waiting: int
    mean_used: dict[str, float]
    moments: tuple[LoadView, ...]


class ComparisonView(View):
    """GET /v1/comparison: the recorded journal, and what another policy would have made of it."""

    generation: int = Field(0, description="The ledger's revision when it was asked.")
    recorded: str = Field(description="The policy that made the record.")
    other: str = Field(description="The policy that is asked about.")
    begin: float
    end: float
    whole: bool = Field(description="Whether time sufficed for all that is recorded; else it is told until ``end``.")
    steps: int
    asked: int = Field(description="Decisions of the record, about each of which the other one was asked.")
    differing: int = Field(description="At how many of them it would have done something else.")
    counts: dict[str, dict[str, int]] = Field(description="Actions (start, resize ...) by who takes them.")
    differences: tuple[DifferenceView, ...] = Field(description="The newest of them, newest first.")
    courses: dict[str, CourseView] = Field(
        description="as_recorded: what was; recorded, other: the same arrivals once more under each policy, in a "
        "cluster where pods come and go at once. These two can be compared with one another."
    )


class ProblemView(View):
    """What is wrong with a request (RFC 9457): the field, its value, and what is allowed, where it is a field."""

    type: str = "about:blank"
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong, and what is allowed.")
    field: str = ""
    value: str = ""
    allowed: str = ""
