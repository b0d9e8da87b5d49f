"""Shapes of kube-scheduler's requests, with Go's own names; everything may be null or absent."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

NULL: Final = Raw(b"null")


class Meta(Struct, gc=False, rename="camel"):
    """An object's metadata, as far as it is read."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None


class Spec(Struct, gc=False, rename="camel"):
    """A pod's spec, as far as it is read."""

    scheduler_name: str | None = None


class Object(Struct):
    """A pod or a node."""

    metadata: Meta | None = None
    spec: Spec | None = None


class NodeList(Struct):
    """Node objects as they came."""

    items: list[Raw] | None = None


class Args(Struct):
    """Of filter and prioritize (ExtenderArgs)."""

    Pod: Raw = NULL
    Nodes: Raw = NULL
    NodeNames: list[str] | None = None


class Binding(Struct):
    """Of bind (ExtenderBindingArgs)."""

    PodName: str | None = None
    PodNamespace: str | None = None
    PodUID: str | None = None
    Node: str | None = None


class MetaPod(Struct):
    """A victim by uid."""

    UID: str | None = None


class MetaVictims(Struct):
    """Victims on one node by uid."""

    Pods: list[MetaPod | None] | None = None
    NumPDBViolations: int | None = None


class WholeVictims(Struct):
    """Victims on one node as whole pods."""

    Pods: list[Object | None] | None = None
    NumPDBViolations: int | None = None


class Preemption(Struct):
    """Of preempt (ExtenderPreemptionArgs)."""

    Pod: Raw = NULL
    NodeNameToVictims: dict[str, WholeVictims | None] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims | None] | None = None
