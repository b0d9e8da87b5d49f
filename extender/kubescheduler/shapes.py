"""Defines the structures of kube-scheduler's requests under their Go names; every field may be null or absent."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

NULL: Final = Raw(b"null")


class ObjectMeta(Struct, gc=False, rename="camel"):
    """The metadata of an object in a request, with only the fields that Kohort reads."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None


class PodSpec(Struct, gc=False, rename="camel"):
    """The spec of a pod in a request, with only the field that Kohort reads."""

    scheduler_name: str | None = None


class Object(Struct):
    """A pod or a node in a request, with only the fields that Kohort reads."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class NodeList(Struct):
    """The offered nodes as whole objects, as kube-scheduler sent them."""

    items: list[Raw] | None = None


class FilterArgs(Struct):
    """The request body of the verbs filter and prioritize (in Go: ExtenderArgs)."""

    Pod: Raw = NULL
    Nodes: Raw = NULL
    NodeNames: list[str] | None = None


class BindingArgs(Struct):
    """The request body of the verb bind (in Go: ExtenderBindingArgs)."""

    PodName: str | None = None
    PodNamespace: str | None = None
    PodUID: str | None = None
    Node: str | None = None


class MetaPod(Struct):
    """A pod that would be preempted (a victim), given by its uid."""

    UID: str | None = None


class MetaVictims(Struct):
    """The pods that would be preempted on one node, given by their uids."""

    Pods: list[MetaPod | None] | None = None
    NumPDBViolations: int | None = None


class WholeVictims(Struct):
    """The pods that would be preempted on one node, given as whole pods."""

    Pods: list[Object | None] | None = None
    NumPDBViolations: int | None = None


class PreemptionArgs(Struct):
    """The request body of the verb preempt (in Go: ExtenderPreemptionArgs)."""

    Pod: Raw = NULL
    NodeNameToVictims: dict[str, WholeVictims | None] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims | None] | None = None
