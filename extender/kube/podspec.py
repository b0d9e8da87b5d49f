"""Reads a pod's spec: its requests as kube-scheduler counts them, the nodes that it allows, and the fields that a plan
cannot take into account.

A malformed field raises ObjectError with its path; ``jobobjects`` marks a job as invalid then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

from extender.kube.fields import (
    Json,
    ObjectError,
    amount,
    boolean,
    condition,
    each,
    items,
    listed,
    mapping,
    part,
    string,
    text,
)
from extender.kube.jobkinds import GATE
from policy.cluster.constraints import ANYWHERE, Constraints, Requirement, Term, Toleration
from policy.cluster.resources import HOST_PORT, NOTHING, Resources, total

__all__ = ["ObjectError", "constraints_of", "limits_of", "places_of", "requests_of", "unsupported_in"]

# The type of a function that returns what one container counts with; the arguments are the container and its path.
Ask = Callable[[Json, str], Resources]
BY_DEFAULT = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def requests_of(spec: Json, field: str, status: Mapping[str, Any] | None = None) -> Resources:
    """Return a pod's effective request as kube-scheduler's PodRequests does, plus its host ports and 1 of ``pods``.

    ``field``: the spec's path, for messages. ``status``: the status of an existing pod, which shows what an in-place
    resize still has allocated; None for a template.
    """
    resizes = status is not None and listed(status, "containerStatuses")
    whole = _resizing(spec, field, status or {}) if resizes else _containers(spec, field, _asked)
    if spec.get("resources") is not None:
        whole = _pod_level(spec, f"{field}.resources", whole, status or {})
    if spec.get("overhead") is not None:
        whole = whole + _amounts(spec["overhead"], f"{field}.overhead")
    return Resources({**whole.amounts, "pods": whole["pods"] + 1, **_host_ports(spec, field)})


def limits_of(spec: Json, field: str) -> Resources:
    """Return a pod's limits as a ResourceQuota counts them (component-helpers/resource/helpers.go, PodLimits).

    A limit in ``spec.resources``, for the pod as a whole, replaces the containers' limits of that resource. The pod's
    overhead is added to each resource that has a limit.
    """
    whole = _containers(spec, field, _limited)
    if spec.get("resources") is not None:
        stated = mapping(spec["resources"], f"{field}.resources")
        whole = Resources({**whole.amounts, **_amounts(stated.get("limits"), f"{field}.resources.limits").amounts})
    if spec.get("overhead") is None:
        return whole
    overhead = _amounts(spec["overhead"], f"{field}.overhead")
    return Resources({name: amount + overhead[name] for name, amount in whole.amounts.items()})


def _limited(container: Json, field: str) -> Resources:
    """Return the resource limits of one container. ``field``: the container's path, for messages."""
    resources = mapping(container.get("resources"), f"{field}.resources")
    return _amounts(resources.get("limits"), f"{field}.resources.limits")


def _containers(spec: Json, field: str, ask: Ask) -> Resources:
    """Return the sum over the containers and sidecars of a pod, or what its init containers need at most, if more.

    ``ask``: returns the requests (or limits) of one container.
    """
    running = total(ask(container, path) for path, container in each(spec, field, "containers"))
    if spec.get("initContainers") is None:
        return running
    sidecars, peak = NOTHING, NOTHING
    for path, container in each(spec, field, "initContainers"):
        asked = ask(container, path)
        peak = peak.or_more(sidecars + asked)
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars + asked
    return (running + sidecars).or_more(peak)


def _asked(container: Json, field: str) -> Resources:
    """Return a container's requests; for a resource that it limits and does not request, its limit.

    In a pod the API server fills in such requests from the limits, but in a job's template it does not.
    """
    resources = mapping(container.get("resources"), f"{field}.resources")
    limits = _amounts(resources.get("limits"), f"{field}.resources.limits")
    asked = _amounts(resources.get("requests"), f"{field}.resources.requests")
    return Resources({**limits.amounts, **asked.amounts}) if limits.amounts else asked


def _resizing(spec: Json, field: str, status: Mapping[str, Any]) -> Resources:
    """Return the pod's requests during an in-place resize.

    For each container the largest counts of its request, of what the kubelet has allocated and of what is in force.
    This is how kube-scheduler counts: component-helpers/resource/helpers.go, determineContainerReqs.
    """
    statuses = [*listed(status, "containerStatuses"), *listed(status, "initContainerStatuses")]
    known = {text(found, "name"): found for found in statuses if isinstance(found, dict)}
    infeasible = _is_infeasible(status)

    def now(container: Json, path: str) -> Resources:
        found = known.get(text(container, "name"), {})
        told = (found.get("allocatedResources"), part(found, "resources").get("requests"))
        granted = [_amounts(one, path) for one in told if isinstance(one, dict)]
        if not granted or not infeasible:
            granted.append(_asked(container, path))
        return reduce(Resources.or_more, granted)

    return _containers(spec, field, now)


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    return condition(status, "PodResizePending").get("reason") == "Infeasible"


def _pod_level(spec: Json, field: str, containers: Resources, status: Mapping[str, Any]) -> Resources:
    """Return the containers' requests, replaced by those that the pod states as a whole (``spec.resources``).

    ``containers``: the sum of the containers' requests. A limit of the pod counts as its request only for a resource
    that neither the pod nor a container requests, and for huge pages. During an in-place resize the largest counts of
    what is requested, allocated and in force (from Kubernetes 1.36 on).
    """
    resources = mapping(spec.get("resources"), field)
    asked = _amounts(resources.get("requests"), f"{field}.requests").amounts
    allocated, in_force = status.get("allocatedResources"), part(status, "resources").get("requests")
    if isinstance(allocated, dict) and isinstance(in_force, dict):
        granted = _amounts(allocated, "status.allocatedResources").or_more(_amounts(in_force, "status.resources"))
        now = granted if _is_infeasible(status) else granted.or_more(Resources(asked))
        asked = {name: now[name] for name in asked}
    limits = _amounts(resources.get("limits"), f"{field}.limits").amounts
    fallback = {n: v for n, v in limits.items() if n not in containers.amounts or n.startswith("hugepages-")}
    pod_level = {name: value for name, value in {**fallback, **asked}.items() if _is_pod_level(name)}
    return Resources({**containers.amounts, **pod_level})


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _amounts(value: object, field: str) -> Resources:
    if value is None:
        return NOTHING
    return Resources({str(name): amount(str(name), value, field) for name, value in mapping(value, field).items()})


def _host_ports(spec: Json, field: str) -> dict[str, int]:
    """Return the pod's host ports as resources: each port counts 1, and each node has 1 of every port.

    With hostNetwork every container port is a host port. Init containers hold their ports only if they are sidecars.
    The host address is ignored, so that two pods whose ports differ only in the address never share a node.
    """
    shared = boolean(spec.get("hostNetwork"), f"{field}.hostNetwork")
    sidecars = (c for c in each(spec, field, "initContainers") if c[1].get("restartPolicy") == "Always")
    ports: dict[str, int] = {}
    for path, container in (*each(spec, field, "containers"), *sidecars):
        for where, port in each(container, path, "ports"):
            number = _port(port.get("hostPort"), f"{where}.hostPort")
            if shared:
                number = number or _port(port.get("containerPort"), f"{where}.containerPort")
            if number:
                ports[f"{HOST_PORT}{string(port.get('protocol'), where) or 'TCP'}/{number}"] = 1
    return ports


def _port(value: object, field: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ObjectError(field, value, "a port number, 0 to 65535")
    return value


def constraints_of(spec: Json, field: str) -> Constraints:
    """Return node selector, required node affinity and tolerations of a pod's spec."""
    where = f"{field}.affinity.nodeAffinity"
    affinity = mapping(mapping(spec.get("affinity"), f"{field}.affinity").get("nodeAffinity"), where)
    where += ".requiredDuringSchedulingIgnoredDuringExecution"
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), where)
    selector = mapping(spec.get("nodeSelector"), f"{field}.nodeSelector")
    return Constraints(
        node_selector=tuple(
            sorted((str(key), string(value, f"{field}.nodeSelector.{key}")) for key, value in selector.items())
        ),
        terms=tuple(_term(term, path) for path, term in each(required, where, "nodeSelectorTerms")),
        tolerations=tuple(_toleration(found, path) for path, found in each(spec, field, "tolerations")),
    )


def places_of(spec: Json) -> Constraints:
    """Return an existing pod's constraints on nodes, without the tolerations that every pod gets by default."""
    told = spec.get("tolerations", [])
    own = [found for found in told if not _is_by_default(found)] if isinstance(told, list) else told
    if own == [] and spec.keys().isdisjoint(("nodeSelector", "affinity")):
        return ANYWHERE
    return _one_of(constraints_of({**spec, "tolerations": own}, "spec"))


@lru_cache(maxsize=4096)
def _one_of(constraints: Constraints) -> Constraints:
    """Return the first object that was equal to ``constraints``, so that equal constraints are in memory only once."""
    return constraints


def _is_by_default(toleration: object) -> bool:
    """Tell whether every pod gets this toleration (admission plugin DefaultTolerationSeconds).

    The default tolerations (``not-ready`` and ``unreachable``, NoExecute) delay the eviction of a pod, and have no part
    in choosing its node.
    """
    return (
        isinstance(toleration, dict) and toleration.get("key") in BY_DEFAULT and toleration.get("effect") == "NoExecute"
    )


def _term(term: Json, field: str) -> Term:
    labels, fields = (tuple(_requirements(term, key, field)) for key in ("matchExpressions", "matchFields"))
    return Term(labels, fields)


def _requirements(term: Json, key: str, field: str) -> Iterator[Requirement]:
    for path, need in each(term, field, key):
        operator = string(need.get("operator"), f"{path}.operator", ", ".join(OPERATORS))
        if operator not in OPERATORS:
            raise ObjectError(f"{path}.operator", operator, ", ".join(OPERATORS))
        values = tuple(string(value, f"{path}.values") for value in items(need.get("values"), f"{path}.values"))
        yield Requirement(string(need.get("key"), f"{path}.key"), operator, values)


def _toleration(found: Json, field: str) -> Toleration:
    key, operator, wanted, effect = (
        string(found.get(name), f"{field}.{name}") for name in ("key", "operator", "value", "effect")
    )
    if operator not in ("", "Equal", "Exists"):
        raise ObjectError(f"{field}.operator", operator, "Equal, Exists")
    return Toleration(key, operator or "Equal", wanted, effect)


def unsupported_in(spec: Json, field: str) -> tuple[str, ...]:
    """Return the names of the spec's fields that ask for something that a plan cannot guarantee.

    A plan is made before kube-scheduler's plugins run. Volumes (zones, ephemeral claims, ReadWriteOncePod) are not
    among these fields: where a volume excludes a node, kube-scheduler does not offer that node, and the gang is planned
    on other nodes.
    """
    affinity = mapping(spec.get("affinity"), f"{field}.affinity")
    return tuple(
        name
        for name, asked in (
            ("resourceClaims", bool(items(spec.get("resourceClaims"), f"{field}.resourceClaims"))),
            # No node has the capacity of a device class (DRA) among its allocatable resources.
            ("a device class", any(name.startswith(DEVICE_CLASS_PREFIX) for name in _names(spec, field))),
            ("topologySpreadConstraints", _hard_spread(spec, field)),
            ("affinity.podAffinity", _required(affinity, f"{field}.affinity", "podAffinity")),
            ("affinity.podAntiAffinity", _required(affinity, f"{field}.affinity", "podAntiAffinity")),
            ("nodeName", bool(string(spec.get("nodeName"), f"{field}.nodeName"))),
            # Another controller removes a foreign gate; the other members would hold room until it does.
            ("schedulingGates", _foreign_gate(spec, field)),
            # A pod of a native pod group would also be held back by kube-scheduler's own gang scheduling.
            ("schedulingGroup", bool(mapping(spec.get("schedulingGroup"), f"{field}.schedulingGroup"))),
        )
        if asked
    )


def _names(spec: Json, field: str) -> Iterator[str]:
    """Yield the names of the resources that the pod's containers request or limit."""
    for kind in ("containers", "initContainers"):
        for path, container in each(spec, field, kind):
            resources = mapping(container.get("resources"), f"{path}.resources")
            for key in ("requests", "limits"):
                yield from map(str, mapping(resources.get(key), f"{path}.resources.{key}"))


def _hard_spread(spec: Json, field: str) -> bool:
    spreads = [found for _, found in each(spec, field, "topologySpreadConstraints")]
    return any(found.get("whenUnsatisfiable") != "ScheduleAnyway" for found in spreads)


def _required(affinity: Json, field: str, key: str) -> bool:
    found = mapping(affinity.get(key), f"{field}.{key}")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return bool(items(found.get(required), f"{field}.{key}.{required}"))


def _foreign_gate(spec: Json, field: str) -> bool:
    return any(gate.get("name") != GATE for _, gate in each(spec, field, "schedulingGates"))
