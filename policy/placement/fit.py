"""Whether a node accepts a pod, by taints, node selector and node affinity, as kube-scheduler's plugins decide.

The node's free room plays no part here.
"""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.model import Constraints, Node, Requirement, Taint, Toleration

BARRING = ("NoSchedule", "NoExecute")


def accepts(node: Node, constraints: Constraints) -> bool:
    """Tell whether the node's taints are tolerated and the pod's selector and required affinity match its labels."""
    if not (node.taints or constraints.node_selector or constraints.terms):
        return True
    return (
        next(untolerated(node, constraints), None) is None
        and all(node.labels.get(key) == value for key, value in constraints.node_selector)
        and _any_term(node, constraints)
    )


def untolerated(node: Node, constraints: Constraints) -> Iterator[Taint]:
    """Yield the node's NoSchedule and NoExecute taints that the pod does not tolerate."""
    barring = (taint for taint in node.taints if taint.effect in BARRING)
    return (taint for taint in barring if not _tolerated(taint, constraints.tolerations))


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _any_term(node: Node, constraints: Constraints) -> bool:
    if not constraints.terms:
        return True
    fields = {"metadata.name": node.name}
    return any(
        bool(term.labels or term.fields)
        and all(_matches(node.labels.get(need.key), need) for need in term.labels)
        and all(_matches(fields.get(need.key), need) for need in term.fields)
        for term in constraints.terms
    )


def _matches(value: str | None, need: Requirement) -> bool:
    match need.operator:
        case "In":
            return value in need.values
        case "NotIn":
            return value not in need.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, need)
        case _:
            return False


def _compares(value: str | None, need: Requirement) -> bool:
    try:
        have, bound = int(value or ""), int(need.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if need.operator == "Gt" else have < bound
