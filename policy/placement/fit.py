"""Whether a node accepts a pod, by taints, node selector and node affinity, as kube-scheduler's plugins decide.

The node's free room plays no part here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.cluster.constraints import Constraints, Requirement, Taint, Toleration
from policy.cluster.node import Node

BARRING = ("NoSchedule", "NoExecute")
LONGEST_NUMBER: Final = 63  # the value of a label has at most this many characters
_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")


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
    have, bound = _number(value or ""), _number(need.values[0] if need.values else "")
    if have is None or bound is None:
        return False
    return have > bound if need.operator == "Gt" else have < bound


def _number(text: str) -> int | None:
    """Return the text as kube-scheduler reads it (Go's ParseInt, 64 bits); None if it is no such number.

    Python's ``int`` would also take spaces, underscores, other scripts' digits and larger numbers.
    """
    if len(text) > LONGEST_NUMBER or not _DECIMAL.fullmatch(text):
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None
