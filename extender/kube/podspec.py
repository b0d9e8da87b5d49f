"""What a pod's spec asks for: resources as kube-scheduler counts them, where it may go, what no gang plan can promise.

Reads plain dicts. Whatever is malformed raises ObjectError with the field's path; ``translate`` turns that into the
job's own quarantine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from policy.cluster.model import Constraints, Requirement, Term, Toleration
from policy.cluster.resources import HOST_PORT, NOTHING, Resources, total

Json = Mapping[str, Any]


class ObjectError(Exception):
    """A field of an API object cannot be used: its path, its value, and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        super().__init__(f"{field}: {shown[:80]} is not allowed; allowed: {allowed}")


def mapping(value: object, field: str) -> Json:
    """The value as a mapping; null counts as empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ObjectError(field, value, "a mapping")
    return value


def items(value: object, field: str) -> list[Any]:
    """The value as a list; null counts as empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ObjectError(field, value, "a list")
    return value


def requests_of(spec: Json, field: str) -> Resources:
    """A pod's effective request (PodRequests): containers and sidecars, or the largest init container."""
    containers = total(_container(c, f"{field}.containers[{i}]") for i, c in _each(spec, field, "containers"))
    sidecars, peak = NOTHING, NOTHING
    for index, container in _each(spec, field, "initContainers"):
        asked = _container(container, f"{field}.initContainers[{index}]")
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars + asked
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, sidecars + asked)
    whole = _larger(containers + sidecars, peak)
    pod_level = _amounts(mapping(spec.get("resources"), f"{field}.resources").get("requests"), f"{field}.resources")
    whole = Resources({**whole.amounts, **pod_level.amounts})
    overhead = _amounts(spec.get("overhead"), f"{field}.overhead")
    return whole + overhead + Resources({"pods": 1}) + _host_ports(spec, field)


def _each(spec: Json, field: str, key: str) -> Iterator[tuple[int, Json]]:
    for index, value in enumerate(items(spec.get(key), f"{field}.{key}")):
        yield index, mapping(value, f"{field}.{key}[{index}]")


def _container(container: Json, field: str) -> Resources:
    """Requests, or limits where there is none: a job's template is not defaulted by the API server as a pod is."""
    resources = mapping(container.get("resources"), f"{field}.resources")
    limits = _amounts(resources.get("limits"), f"{field}.resources.limits")
    asked = _amounts(resources.get("requests"), f"{field}.resources.requests")
    return Resources({**limits.amounts, **asked.amounts})


def _larger(one: Resources, other: Resources) -> Resources:
    return Resources({name: max(one[name], other[name]) for name in one.amounts.keys() | other.amounts.keys()})


def _amounts(value: object, field: str) -> Resources:
    return Resources({str(name): amount(name, text, field) for name, text in mapping(value, field).items()})


def amount(name: object, text: object, field: str) -> int:
    """One quantity in its integer unit: millicores for cpu, whole units (rounded up) for the rest."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ObjectError(f"{field}.{name}", text, "a Kubernetes quantity such as 500m or 8Gi")
    try:
        number = _parse(str(text))
    except (ValueError, ArithmeticError):
        raise ObjectError(f"{field}.{name}", text, "a Kubernetes quantity such as 500m or 8Gi") from None
    if number < 0 or not number.is_finite():
        raise ObjectError(f"{field}.{name}", text, "a quantity of 0 or more")
    return math.ceil(number * 1000) if name == "cpu" else math.ceil(number)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Decimal:
    value: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    return value


def _host_ports(spec: Json, field: str) -> Resources:
    """Each host port is a resource of which a node has one. With hostNetwork every container port is a host port."""
    shared = bool(spec.get("hostNetwork"))
    ports: dict[str, int] = {}
    for index, container in _each(spec, field, "containers"):
        for value in items(container.get("ports"), f"{field}.containers[{index}].ports"):
            port = mapping(value, f"{field}.containers[{index}].ports")
            number = port.get("hostPort") or (port.get("containerPort") if shared else None)
            if number:
                ports[f"{HOST_PORT}{port.get('protocol') or 'TCP'}/{number}"] = 1
    return Resources(ports)


def constraints_of(spec: Json, field: str) -> Constraints:
    """Node selector, required node affinity, tolerations."""
    affinity = mapping(mapping(spec.get("affinity"), f"{field}.affinity").get("nodeAffinity"), f"{field}.affinity")
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), f"{field}.affinity")
    terms = items(required.get("nodeSelectorTerms"), f"{field}.affinity")
    selector = mapping(spec.get("nodeSelector"), f"{field}.nodeSelector")
    return Constraints(
        node_selector=tuple(sorted((str(key), str(value)) for key, value in selector.items())),
        terms=tuple(_term(mapping(term, f"{field}.affinity"), f"{field}.affinity") for term in terms),
        tolerations=tuple(_toleration(t, field) for t in items(spec.get("tolerations"), f"{field}.tolerations")),
    )


def _term(term: Json, field: str) -> Term:
    return Term(_requirements(term, "matchExpressions", field), _requirements(term, "matchFields", field))


def _requirements(term: Json, key: str, field: str) -> tuple[Requirement, ...]:
    needs = (mapping(need, f"{field}.{key}") for need in items(term.get(key), f"{field}.{key}"))
    return tuple(
        Requirement(
            str(need.get("key")),
            str(need.get("operator")),
            tuple(map(str, items(need.get("values"), f"{field}.{key}"))),
        )
        for need in needs
    )


def _toleration(value: object, field: str) -> Toleration:
    found = mapping(value, f"{field}.tolerations")
    key, operator, wanted, effect = (str(found.get(name) or "") for name in ("key", "operator", "value", "effect"))
    return Toleration(key, operator or "Equal", wanted, effect)


def unsupported_in(spec: Json, field: str) -> tuple[str, ...]:
    """What the template asks for and a plan made before kube-scheduler's plugins run cannot promise, by field name."""
    affinity = mapping(spec.get("affinity"), f"{field}.affinity")
    return tuple(
        name
        for name, asked in (
            ("resourceClaims", bool(spec.get("resourceClaims"))),
            ("topologySpreadConstraints", _hard_spread(spec, field)),
            ("affinity.podAffinity", _required(affinity.get("podAffinity"), field)),
            ("affinity.podAntiAffinity", _required(affinity.get("podAntiAffinity"), field)),
            ("nodeName", bool(spec.get("nodeName"))),
        )
        if asked
    )


def _hard_spread(spec: Json, field: str) -> bool:
    spreads = items(spec.get("topologySpreadConstraints"), f"{field}.topologySpreadConstraints")
    return any(mapping(s, field).get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for s in spreads)


def _required(value: object, field: str) -> bool:
    return bool(mapping(value, field).get("requiredDuringSchedulingIgnoredDuringExecution"))
