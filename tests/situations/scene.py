"""Describe a situation as plain data: nodes, the pods and jobs that hold their room, one gang that waits, and the
constraints for which it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policy.cluster.constraints import Requirement, Taint
from policy.cluster.resources import Resources

GIB: Final = 2**30
POOL: Final = "tests.kohort.dev/pool"
PLENTY: Final[Mapping[str, int]] = {
    "cpu": 32_000,
    "memory": 256 * GIB,
    "ephemeral-storage": 500 * GIB,
    "pods": 110,
    "nvidia.com/gpu": 8,
    "example.com/npu": 16,
    "hugepages-2Mi": 8 * GIB,
}
"""What a node has of each resource that a member may ask for, unless a constraint takes from it."""


@dataclass(frozen=True)
class Host:
    """A node of a situation.

    ``has`` maps each resource to the node's allocatable amount.
    """

    name: str
    pool: str
    has: Mapping[str, int] = field(default_factory=lambda: dict(PLENTY))
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True


@dataclass(frozen=True)
class Holder:
    """A pod of another scheduler that is bound to the node ``host``.

    With a finalizer, the pod is terminating, and the finalizer keeps it. If ``nominated``, the pod is not bound, but
    nominated for the node.
    """

    name: str
    host: str
    asks: Mapping[str, int]
    finalizer: str = ""
    nominated: bool = False


@dataclass(frozen=True)
class Group:
    """The members of one role of the gang. All have the same requests, and go on the nodes of one pool."""

    role: str
    count: int
    pool: str
    asks: Mapping[str, int]
    wants: tuple[Requirement, ...] = ()

    @property
    def requests(self) -> Resources:
        """Return the resources that one member requests."""
        return Resources({**self.asks, "pods": 1})


@dataclass(frozen=True)
class Runs:
    """A job of Kohort's with one worker, which fits only on the node ``host``.

    If ``finished``, the job has finished and keeps its pod (cleanPodPolicy None).
    """

    name: str
    host: str
    asks: Mapping[str, int]
    finished: bool = False


@dataclass(frozen=True)
class Change:
    """A change of the world that lifts a constraint.

    verb: raise (resources ``amounts`` of a node), uncordon, ready, untaint, label, add (the node ``host``), gone (a
    pod), end (a job), delete (a finished job), resume, create (the pods that the gang misses), forget (nodes that
    kube-scheduler has refused).
    """

    verb: str
    name: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    host: Host | None = None


@dataclass(frozen=True)
class Constraint:
    """One constraint that keeps the gang waiting.

    ``code`` is the reason that is told if there is no other constraint. ``kind`` is the constraint's name in
    ``policy.placement.binding``; it is empty if the constraint is not about room. The explanation must contain each of
    ``values``. The changes ``lift`` end the constraint.
    """

    kind: str
    code: str
    values: tuple[str, ...]
    lift: tuple[Change, ...]


@dataclass(frozen=True)
class Scene:
    """A situation: the gang waits because of all ``constraints``, and starts when each of them is lifted.

    ``absent`` is the number of members, counted from the last, that have no pod yet. kube-scheduler does not offer the
    nodes in ``refused``. ``ahead`` is a job that has waited so long that no other job may start before it.
    """

    name: str
    hosts: tuple[Host, ...]
    groups: tuple[Group, ...]
    holders: tuple[Holder, ...] = ()
    running: tuple[Runs, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    suspended: bool = False
    absent: int = 0
    refused: tuple[str, ...] = ()
    ahead: Runs | None = None

    def of(self, pool: str) -> tuple[Host, ...]:
        """Return the nodes of the pool."""
        return tuple(host for host in self.hosts if host.pool == pool)

    def group(self, pool: str) -> Group:
        """Return the members that go on the nodes of the pool."""
        return next(group for group in self.groups if group.pool == pool)

    def with_hosts(self, *changed: Host) -> Scene:
        """Return the scene with these nodes replaced."""
        by_name = {host.name: host for host in changed}
        return replace(self, hosts=tuple(by_name.get(host.name, host) for host in self.hosts))

    def with_group(self, changed: Group) -> Scene:
        """Return the scene with the members of that pool replaced."""
        return replace(self, groups=tuple(changed if one.pool == changed.pool else one for one in self.groups))

    def but(self, *lifted: Constraint) -> tuple[Constraint, ...]:
        """Return the scene's constraints that are not among the lifted ones."""
        return tuple(one for one in self.constraints if one not in lifted)
