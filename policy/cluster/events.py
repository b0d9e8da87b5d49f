"""The events that ``step`` takes: facts about the cluster, bind calls of kube-scheduler, and outcomes of effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cluster.job import Job
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.quota import Quota
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.resources import Resources
from policy.cluster.training import Report


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or has changed; ``node`` is what the API shows now."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """The node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was added or has changed; ``job`` is what the API shows now."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobGone:
    """The job was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or has changed; ``pod`` is what the API, or kube-scheduler in a filter call, shows now."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    """A ResourceQuota was added or has changed; ``quota`` is what the API shows now."""

    quota: Quota


@dataclass(frozen=True, slots=True)
class QuotaGone:
    """The ResourceQuota ``key`` (``namespace/name``) was deleted."""

    key: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Every watch has delivered its first list, so that decisions may be made from now on."""


@dataclass(frozen=True, slots=True)
class Led:
    """This replica has begun to lead, or has stopped. A replica that does not lead keeps facts and drops its plans."""

    leading: bool


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Another policy decides from now on, and the memory of the old one is forgotten.

    stays: names of systems of the old policy that are also part of the new one (``oasis`` of ``oasis+specon``); their
    memory is kept.
    """

    stays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindHeld:
    """kube-scheduler has sent a bind call for this pod and this node, and waits for the answer."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindDropped:
    """kube-scheduler has closed the connection of a held bind call, so the pod is no longer held at the barrier."""

    uid: str


@dataclass(frozen=True, slots=True)
class BindDone:
    """The API server has bound the pod to the node, or the same pod (by uid) was bound there already."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The API server has refused the binding, or the binding was never sent.

    message: the API server's message; empty if there is none.
    """

    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class BindUnknown:
    """The answer to the binding was lost; its room stays charged until the watch shows whether the pod is bound."""

    uid: str


@dataclass(frozen=True, slots=True)
class NodeNotOffered:
    """The planned node ``node`` was not among the nodes that kube-scheduler offered for this pod in a filter call."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A job's training has sent a report of its metric or its progress."""

    job_uid: str
    report: Report


@dataclass(frozen=True, slots=True)
class Saved:
    """A job's training reports that it has saved its state, as it was asked to before a migration."""

    job_uid: str


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """The measured usage of the nodes, from the metrics API; it replaces all earlier figures, also of missing nodes."""

    usage: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class WritesRefused:
    """All writes of the controller that the API server refuses at present; this list replaces the earlier one."""

    refused: tuple[RefusedWrite, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the step looks for deadlines that are over, and asks the policy."""


Event = (
    NodeSeen
    | NodeGone
    | JobSeen
    | JobGone
    | PodSeen
    | PodGone
    | QuotaSeen
    | QuotaGone
    | Synced
    | Led
    | PolicyChanged
    | BindHeld
    | BindDropped
    | BindDone
    | BindRefused
    | BindUnknown
    | NodeNotOffered
    | Reported
    | Saved
    | UsageSeen
    | WritesRefused
    | Tick
)
