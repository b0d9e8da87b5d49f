"""Lists the supported kinds of pod groups in one table: how a pod names its pod group, and where the pod group states
its minimum.

The kinds are those of Kubernetes and of other gang schedulers. A pod group becomes a rigid gang, because no controller
adds or removes its pods at Kohort's request. To support another kind of pod group, add a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.kube.api import Resource
from extender.kube.fields import part, text

GROUP: Final = "PodGroup"
"""The ``kind`` of all kinds of pod groups, which differ only in their API groups."""


@dataclass(frozen=True, slots=True)
class GroupKind:
    """One kind of pod group.

    ``named_at``: the paths of the pod's fields that may hold the name of the pod's pod group. ``least_at``: the path,
    in the pod group's spec, of its minimum, the number of pods that are bound together. ``role_at``: the paths of the
    pod's fields that may hold the pod's role.
    """

    resource: Resource
    named_at: tuple[tuple[str, ...], ...]
    least_at: tuple[str, ...] = ("minMember",)
    role_at: tuple[tuple[str, ...], ...] = ()


LABELS: Final = ("metadata", "labels")
ANNOTATIONS: Final = ("metadata", "annotations")
ROLE: Final = (*LABELS, "training.kubeflow.org/replica-type")

COSCHEDULING: Final = GroupKind(
    Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups"),
    named_at=((*LABELS, "scheduling.x-k8s.io/pod-group"),),
    role_at=(ROLE,),
)

VOLCANO: Final = GroupKind(
    Resource("scheduling.volcano.sh", "v1beta1", "podgroups"),
    named_at=((*ANNOTATIONS, "scheduling.k8s.io/group-name"), (*ANNOTATIONS, "scheduling.volcano.sh/group-name")),
    role_at=((*ANNOTATIONS, "volcano.sh/task-spec"), ROLE),
)

# Kubernetes's own pod groups (feature GenericWorkload) are beta from 1.37 on; 1.36 serves v1alpha2 with the same
# fields.
NATIVE_NAME: Final = ("spec", "schedulingGroup", "podGroupName")
NATIVE: Final = GroupKind(
    Resource("scheduling.k8s.io", "v1beta1", "podgroups"),
    named_at=(NATIVE_NAME,),
    least_at=("schedulingPolicy", "gang", "minCount"),
    role_at=(ROLE,),
)
NATIVE_ALPHA: Final = replace(NATIVE, resource=Resource("scheduling.k8s.io", "v1alpha2", "podgroups"))
GROUPS: Final = (NATIVE, NATIVE_ALPHA, COSCHEDULING, VOLCANO)


def group_named(pod: Mapping[str, Any]) -> tuple[GroupKind, str] | None:
    """Return the kind and name of the pod group that a pod or a pod template names; None where it names none."""
    for kind in GROUPS:
        for path in kind.named_at:
            if name := _at(pod, path):
                return kind, name
    return None


def role_in(pod: Mapping[str, Any], kind: GroupKind) -> str:
    """Return the role that the pod states, in lower case; empty where it states none."""
    return next((role for path in kind.role_at if (role := _at(pod, path))), "").lower()


def _at(item: Mapping[str, Any], path: tuple[str, ...]) -> str:
    found: Any = item
    for name in path[:-1]:
        found = part(found, name)
    return text(found, path[-1])
