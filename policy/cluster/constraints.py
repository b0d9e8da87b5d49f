"""What a pod demands of its node: node selector, required node affinity, and tolerations of taints (core/v1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Taint(NamedTuple):
    """A node's taint (core/v1)."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A pod's toleration (core/v1); an empty ``key`` with ``Exists`` tolerates everything."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(NamedTuple):
    """One expression of a node selector term (core/v1): In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...]


class Term(NamedTuple):
    """A node selector term: all expressions on labels and all on fields (``metadata.name``) must hold."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Constraints:
    """The placement rules of a pod that Kohort's plans obey: node selector, required node affinity, tolerations.

    ``terms`` are the terms of the required node affinity; a node must match one of them.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


ANYWHERE = Constraints()
