"""Decodes and encodes the extender protocol as kube-scheduler 1.37.2 uses it
(k8s.io/kube-scheduler/extender/v1/types.go).

The protocol's Go structs have no JSON tags, so keys are Go field names, and every nil pointer, map or slice is null. A
body that is malformed raises RequestError. Unknown keys are ignored, since kube-scheduler may be newer.

To keep filter cheap, a pod is decoded in two stages: first only its identifying fields (its head); the rest is decoded
and checked only when it is needed (`pod_dict`). This module knows the format; it must not know which answer is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.http.strict import RequestError, check_text, decode, refuse_duplicates, strict_dict
from extender.kubescheduler import shapes

VERBS_PATH: Final = "/scheduler/v1"  # the URL of a verb has this path, followed by the verb's name
VERBS: Final = ("filter", "prioritize", "bind", "preempt")


class PodHead(Struct, frozen=True, gc=False):
    """The identifying fields of a pod in a request; the first three are never empty.

    filter needs no other field of a pod that the ledger knows already.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    deleting: bool


class ExtenderArgs(Struct, frozen=True):
    """The decoded body of filter and prioritize: one pod and the nodes offered to it, in kube-scheduler's order.

    ``nodes``: the offered Node objects by name, unchanged, where nodeCacheCapable is false; otherwise None.
    """

    pod: PodHead
    pod_raw: Raw
    node_names: list[str]
    nodes: dict[str, Raw] | None

    def pod_dict(self) -> dict[str, Any]:
        """Return the whole pod as a dict. Raises RequestError where a part beyond the head is malformed."""
        return strict_dict(bytes(self.pod_raw), "Pod")


class ExtenderBindingArgs(Struct, frozen=True, gc=False):
    """The decoded body of bind: the pod and the node to which to bind the pod; no field is empty."""

    namespace: str
    name: str
    uid: str
    node: str


class NodeVictims(Struct, frozen=True):
    """The UIDs of the pods that would be preempted on one node, and how many of these preemptions violate a
    PodDisruptionBudget.
    """

    uids: list[str]
    pdb_violations: int


class ExtenderPreemptionArgs(Struct, frozen=True):
    """The decoded body of preempt: the preempting pod, and the pods that it would preempt (victims), by node.

    The protocol has two forms of victims, whole pods and UIDs; here both are UIDs.
    """

    pod: PodHead
    pod_raw: Raw
    victims: dict[str, NodeVictims]

    def pod_dict(self) -> dict[str, Any]:
        """Return the whole preempting pod as a dict. Raises RequestError where it is malformed."""
        return strict_dict(bytes(self.pod_raw), "Pod")


def decode_filter(body: bytes) -> ExtenderArgs:
    """Decode the body of filter or prioritize. Raises RequestError where it is malformed."""
    check_text(body)
    args = decode(_ARGS, body, "")
    if not _is_plain_go(body, args):
        refuse_duplicates(body)
    nodes = None if args.NodeNames is not None else _nodes_by_name(args.Nodes)
    names = args.NodeNames if args.NodeNames is not None else list(nodes or ())
    return ExtenderArgs(_head(args.Pod, "Pod"), args.Pod, names, nodes)


decode_prioritize = decode_filter


def decode_bind(body: bytes) -> ExtenderBindingArgs:
    """Decode the body of bind. Raises RequestError where it is malformed."""
    check_text(body)
    args = decode(_BINDING, body, "")
    refuse_duplicates(body)
    for field in ("PodNamespace", "PodName", "PodUID", "Node"):
        _required(getattr(args, field), field)
    return ExtenderBindingArgs(args.PodNamespace or "", args.PodName or "", args.PodUID or "", args.Node or "")


def decode_preempt(body: bytes) -> ExtenderPreemptionArgs:
    """Decode the body of preempt. Raises RequestError where it is malformed."""
    check_text(body)
    args = decode(_PREEMPTION, body, "")
    refuse_duplicates(body)
    victims = {n: _meta_victims(v) for n, v in (args.NodeNameToMetaVictims or {}).items() if v is not None}
    whole = {n: _whole_victims(v) for n, v in (args.NodeNameToVictims or {}).items() if v is not None}
    return ExtenderPreemptionArgs(_head(args.Pod, "Pod"), args.Pod, whole | victims)


# -- The classes and functions below encode answers. -------------------------------------------------


class AnswerNodeList(Struct):
    """Node objects returned to a kube-scheduler that is not nodeCacheCapable."""

    items: list[Raw]


class ExtenderFilterResult(Struct):
    """The answer of filter. It has ``Nodes`` or ``NodeNames``, whichever of the two the request had."""

    Nodes: AnswerNodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: Mapping[str, str] = {}
    FailedAndUnresolvableNodes: Mapping[str, str] = {}
    Error: str = ""


class HostPriority(Struct):
    """The score of one node; kube-scheduler refuses the whole list if a score is not an integer."""

    Host: str
    Score: int


class ExtenderBindingResult(Struct):
    """The answer of bind; an empty ``Error`` means that the pod is bound."""

    Error: str = ""


class AnswerMetaPod(Struct):
    """A pod that may be preempted (a victim), given by its uid."""

    UID: str


class AnswerMetaVictims(Struct):
    """The pods that may be preempted on one node, and how many of those preemptions violate a PodDisruptionBudget."""

    Pods: list[AnswerMetaPod]
    NumPDBViolations: int


class ExtenderPreemptionResult(Struct):
    """The answer of preempt: victims by node, in place of those that kube-scheduler proposed.

    An empty map means that no pod is preempted.
    """

    NodeNameToMetaVictims: dict[str, AnswerMetaVictims]


def filter_result(
    args: ExtenderArgs,
    names: Iterable[str],
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
) -> ExtenderFilterResult:
    """Return the answer of filter that allows the nodes ``names``: node names or whole nodes, as in the request.

    ``failed``: the reason by refused node. ``unresolvable``: the same for nodes on which preemption cannot help. Raises
    KeyError where the request has whole nodes, and a node of ``names`` is not among them.
    """
    kept = list(names)
    if args.nodes is None:
        return ExtenderFilterResult(None, kept, failed or {}, unresolvable or {})
    return ExtenderFilterResult(AnswerNodeList([args.nodes[n] for n in kept]), None, failed or {}, unresolvable or {})


def encode_filter(result: ExtenderFilterResult) -> bytes:
    return _ENCODER.encode(result)


def encode_prioritize(scores: Mapping[str, int]) -> bytes:
    """Return the answer of prioritize as JSON: an array of nodes with their scores (in Go: HostPriorityList)."""
    return _ENCODER.encode([HostPriority(host, int(score)) for host, score in scores.items()])


def encode_bind(error: str = "") -> bytes:
    """Return the answer of bind as JSON; an empty ``error`` means that the pod is bound."""
    return _ENCODER.encode(ExtenderBindingResult(error))


def encode_preempt(victims: Mapping[str, NodeVictims]) -> bytes:
    meta = {n: AnswerMetaVictims([AnswerMetaPod(uid) for uid in v.uids], v.pdb_violations) for n, v in victims.items()}
    return _ENCODER.encode(ExtenderPreemptionResult(meta))


_ARGS: Final = msgspec.json.Decoder(shapes.FilterArgs)
_BINDING: Final = msgspec.json.Decoder(shapes.BindingArgs)
_PREEMPTION: Final = msgspec.json.Decoder(shapes.PreemptionArgs)
_OBJECT: Final = msgspec.json.Decoder(shapes.Object | None)
_NODES: Final = msgspec.json.Decoder(shapes.NodeList | None)
_ENCODER: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


def _required(value: str | None, field: str) -> str:
    if not value:
        raise RequestError(field, "missing")
    return value


def _meta_victims(victims: shapes.MetaVictims) -> NodeVictims:
    uids = [_required(p.UID, "NodeNameToMetaVictims.Pods.UID") for p in _some(victims.Pods)]
    return NodeVictims(uids, victims.NumPDBViolations or 0)


def _whole_victims(victims: shapes.WholeVictims) -> NodeVictims:
    uids = [
        _required((p.metadata or shapes.ObjectMeta()).uid, "NodeNameToVictims.Pods.uid") for p in _some(victims.Pods)
    ]
    return NodeVictims(uids, victims.NumPDBViolations or 0)


def _some(items: list[_T | None] | None) -> list[_T]:
    return [item for item in items or () if item is not None]


def _head(raw: Raw, field: str) -> PodHead:
    pod = decode(_OBJECT, raw, field) or shapes.Object()
    meta = pod.metadata or shapes.ObjectMeta()
    return PodHead(
        namespace=_required(meta.namespace, f"{field}.metadata.namespace"),
        name=_required(meta.name, f"{field}.metadata.name"),
        uid=_required(meta.uid, f"{field}.metadata.uid"),
        resource_version=meta.resource_version or "",
        scheduler_name=(pod.spec and pod.spec.scheduler_name) or "",
        deleting=meta.deletion_timestamp is not None,
    )


def _nodes_by_name(raw: Raw) -> dict[str, Raw] | None:
    """Return the Node objects in the field Nodes by name; None where the field is null.

    It is null where the request has only the nodes' names.
    """
    listed = decode(_NODES, raw, "Nodes")
    if listed is None:
        return None
    found: dict[str, Raw] = {}
    for item in listed.items or ():
        if (node := decode(_OBJECT, item, "Nodes.items")) is not None:
            found[_required((node.metadata or shapes.ObjectMeta()).name, "Nodes.items.metadata.name")] = item
    return found


def _is_plain_go(body: bytes, args: shapes.FilterArgs) -> bool:
    """Tell whether the body of filter is laid out as Go writes it: three keys in order, without white space.

    Such a body has no repeated key in its outer object, so it need not be parsed a second time to find repeated keys.
    The check compares each key at the place where the lengths of the decoded values put it.
    """
    place = 0
    for key, value in ((b'{"Pod":', args.Pod), (b',"Nodes":', args.Nodes)):
        if body[place : place + len(key)] != key:
            return False
        place += len(key) + len(memoryview(value))
    rest = body[place:]
    key = b',"NodeNames":'
    if rest == key + b"null}":
        return True
    return rest.startswith(key + b"[") and rest.endswith(b"]}") and rest.find(b"]") == len(rest) - 2
