"""Facts and outcomes: the only input of ``step``. An effect's outcome comes back as one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.cluster.model import Job, Node, Pod
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.resources import Resources
from policy.cluster.training import Report


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The API shows this node."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """The node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class JobSeen:
    """The API shows this job."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobGone:
    """The job was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The API, or a filter call, shows this pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Every watch has delivered its first list: decisions may be made."""


@dataclass(frozen=True, slots=True)
class Led:
    """Whether this replica leads. One that does not keeps facts and drops plans."""

    leading: bool


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Another policy decides from now on. What was remembered is forgotten: the other one would find it out of date.

    stays: systems of the old policy that are part of the new one (``oasis`` of ``oasis+specon``), which forget nothing.
    """

    stays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindHeld:
    """kube-scheduler asks to bind this pod to this node and waits."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindDropped:
    """kube-scheduler closed the connection of a held bind: its check no longer holds."""

    uid: str


@dataclass(frozen=True, slots=True)
class BindDone:
    """The API server bound the pod (or it already was bound there, same uid)."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The API server refused the binding, or it was never made. message: its words; empty where it said nothing."""

    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class BindUnknown:
    """The answer to the binding was lost: the reservation stays until the watch decides."""

    uid: str


@dataclass(frozen=True, slots=True)
class NodeNotOffered:
    """The planned node was not among those that kube-scheduler offered for this pod."""

    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A job's training reports how far it is."""

    job_uid: str
    report: Report


@dataclass(frozen=True, slots=True)
class Saved:
    """A job's training says that it has saved its state, as it was asked to before it is moved."""

    job_uid: str


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """What nodes use, by the metrics API; of a node that is not named nothing is known any more."""

    usage: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class WritesRefused:
    """All writes of the controller that the API server refuses now: this list replaces the one before."""

    refused: tuple[RefusedWrite, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    NodeSeen
    | NodeGone
    | JobSeen
    | JobGone
    | PodSeen
    | PodGone
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
