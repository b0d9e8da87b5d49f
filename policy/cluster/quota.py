"""A ResourceQuota as a fact: how much the pods of a namespace may have together, and how much of it they use.

Its amounts have the names that they have in a pod's charge: a requested amount has the plain name of the resource, a
limit has the prefix ``limits.``, and ``pods`` and ``count/pods`` count the pods themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policy.cluster.constraints import Requirement
from policy.cluster.job import Role
from policy.cluster.resources import Resources

PODS: Final = "pods"
POD_OBJECTS: Final = "count/pods"
LIMITS: Final = "limits."
# A pod without any request or limit of cpu and memory is in the QoS class BestEffort.
COMPUTE: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota, as its status shows it.

    hard: the most that the pods may have together; a resource without an entry is not limited. used: what they have.
    scopes: only pods that meet all of these requirements are counted (``spec.scopes`` and ``spec.scopeSelector``).
    """

    namespace: str
    name: str
    hard: Resources
    used: Resources
    scopes: tuple[Requirement, ...] = ()
    uid: str = ""
    version: int = 0

    @property
    def key(self) -> str:
        """The quota's name for people and logs: ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def left(self) -> Resources:
        """What is left of each limited resource; below 0 if the quota was lowered below what is used."""
        return Resources({name: most - self.used[name] for name, most in self.hard.amounts.items()})

    def counts(self, role: Role) -> bool:
        """Tell whether the quota counts pods of that role, because they meet all its scopes.

        No pod meets a scope that Kohort does not know; of the scopes of Kubernetes 1.36 that is only
        CrossNamespacePodAffinity.
        """
        return all(_meets(role, scope) for scope in self.scopes)


def exceeded(charge: Resources, left: Mapping[str, int]) -> list[str]:
    """Return the names of the resources of which the charge asks for more than ``left`` has, sorted.

    A resource without an entry in ``left`` is not limited, and a charge of 0 is never too much.
    """
    return sorted(name for name, amount in left.items() if charge[name] > max(0, amount))


def charged(requests: Resources, limits: Resources) -> Resources:
    """Return what a quota counts for a pod with these requests and limits: also the pod itself, as 1 of ``pods``."""
    limited = {f"{LIMITS}{name}": amount for name, amount in limits.amounts.items()}
    return Resources({**requests.amounts, **limited, PODS: 1, POD_OBJECTS: 1})


def _meets(role: Role, scope: Requirement) -> bool:
    best_effort = not any(role.requests[name] or role.limits[name] for name in COMPUTE)
    match scope.key:
        case "Terminating":
            return role.ends
        case "NotTerminating":
            return not role.ends
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "PriorityClass":
            return _has_class(role.priority_class, scope)
        case _:
            return False


def _has_class(name: str, scope: Requirement) -> bool:
    match scope.operator:
        case "In":
            return bool(name) and name in scope.values
        case "NotIn":
            return name not in scope.values
        case "Exists":
            return bool(name)
        case _:
            return not name
