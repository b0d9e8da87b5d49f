"""Finds the fields of a pod's spec that kube-scheduler's plugins look at and Kohort's placement does not check.

The fields have the names of the table of plugins in ``policy/placement/plugins.py``. A field that cannot be read counts
as in use, because the API server has accepted it and a plugin may look at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from extender.kube.fields import Json, ObjectError, each, items, mapping, part, string
from extender.kube.podspec import DEVICE_CLASS_PREFIX, unsupported_in
from policy.cluster import resources
from policy.cluster.resources import HOST_PORT, Resources
from policy.placement.eligible import EVERY_NAMESPACE
from policy.placement.plugins import (
    AFFINITY,
    BANDWIDTH,
    DEVICE_CLASS,
    FIELDS,
    HOST_PORTS,
    MOUNT_OPTIONS,
    REQUESTS,
    RESTART_ALL,
    USER_NAMESPACE,
    VOLUMES,
)

WITHOUT_NODE: Final = frozenset({"configMap", "downwardAPI", "emptyDir", "projected", "secret"})
"""Kinds of volumes that every node can mount, and that no plugin looks at."""
PROMISED_OR_NOT: Final = frozenset(
    {"affinity", "resourceClaims", "schedulingGates", "schedulingGroup", "topologySpreadConstraints"}
)
"""Keys of a spec that a plan can take into account or not, depending on their contents (``podspec.unsupported_in``)."""
# Maps a field (host ports, device class, bandwidth) to a prefix. The field is in use if the name of any requested
# resource begins with that prefix.
PREFIXES: Final = {HOST_PORTS: HOST_PORT, DEVICE_CLASS: DEVICE_CLASS_PREFIX, BANDWIDTH: resources.BANDWIDTH}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def unchecked_in(spec: Json, requests: Resources | None) -> tuple[str, ...]:
    """Return the names of the fields in use that plugins of kube-scheduler look at and Kohort does not check, sorted.

    ``requests``: the pod's requests with its host ports; None if they cannot be read.
    """
    found = {name for name, asks in ASKS.items() if _asks(asks, spec)}
    names = requests.amounts if requests is not None else ()
    found |= {field for field, prefix in PREFIXES.items() if any(name.startswith(prefix) for name in names)}
    if requests is None:
        found.add(REQUESTS)
    if not spec.keys().isdisjoint(PROMISED_OR_NOT):
        found |= _unsupported(spec)
    return tuple(sorted(found))


def _unsupported(spec: Json) -> set[str]:
    try:
        return {*FIELDS.intersection(unsupported_in(spec, "spec"))}
    except ObjectError:
        return {*FIELDS.intersection(spec)} | ({AFFINITY} if "affinity" in spec else set())


def repels_in(spec: Json, namespace: str) -> tuple[str, ...]:
    """Return the namespaces to whose pods the pod's required anti-affinity may apply; "*" stands for all namespaces.

    ``namespace``: the pod's own namespace. A term that selects namespaces by labels counts for all namespaces, because
    Kohort does not read the labels of namespaces.
    """
    affinity = part(spec, "affinity")
    if "podAntiAffinity" not in affinity:
        return ()
    try:
        terms = [term for _, term in each(mapping(affinity["podAntiAffinity"], "affinity"), "affinity", REQUIRED)]
        found = {name for term in terms for name in _namespaces(term, namespace)}
    except ObjectError:
        return (EVERY_NAMESPACE,)
    return (EVERY_NAMESPACE,) if EVERY_NAMESPACE in found else tuple(sorted(found))


def _namespaces(term: Json, own: str) -> list[str]:
    if term.get("namespaceSelector") is not None:
        return [EVERY_NAMESPACE]
    return [string(name, "namespaces") for name in items(term.get("namespaces"), "namespaces")] or [own]


def _asks(asks: Callable[[Json], bool], spec: Json) -> bool:
    try:
        return asks(spec)
    except ObjectError:
        return True


def _volumes(spec: Json) -> bool:
    """Tell whether the pod has a volume of a kind that not every node can mount, such as a PersistentVolumeClaim.

    A volume that states no kind is an emptyDir.
    """
    return any(not volume.keys() - {"name"} <= WITHOUT_NODE for _, volume in each(spec, "spec", "volumes"))


def _restarts_all(spec: Json) -> bool:
    return any(items(one.get("restartPolicyRules"), "restartPolicyRules") for one in _containers(spec))


def _user_namespace(spec: Json) -> bool:
    return spec.get("hostUsers") is False and spec.get("hostNetwork") is True


def _mount_options(spec: Json) -> bool:
    mounts = (mount for one in _containers(spec) for _, mount in each(one, "containers", "volumeMounts"))
    return any(items(mount.get("bindMountOptions"), "bindMountOptions") for mount in mounts)


def _containers(spec: Json) -> list[Json]:
    return [one for kind in ("containers", "initContainers") for _, one in each(spec, "spec", kind)]


ASKS: Final[Mapping[str, Callable[[Json], bool]]] = {
    VOLUMES: _volumes,
    RESTART_ALL: _restarts_all,
    USER_NAMESPACE: _user_namespace,
    MOUNT_OPTIONS: _mount_options,
}
