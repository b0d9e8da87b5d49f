"""Decodes and encodes the extender protocol as kube-scheduler 1.37.2 uses it
(k8s.io/kube-scheduler/extender/v1/types.go).

The Go structs have no JSON tags there, so keys are Go field names, and every nil pointer, map or slice is null. A body
is decoded, or RequestError is raised (`strict`). Unknown keys are ignored, since kube-scheduler may be newer.

Two stages keep filter cheap: the pod's identifying fields (its head) are decoded at once; the rest of the pod is
decoded and checked only when it is needed (`pod_dict`). This module knows the format; it must not know which answer is
right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.http.strict import RequestError, check_text, decode, refuse_duplicates, strict_dict
from extender.kubescheduler import shapes

VERBS_PATH: Final = "/scheduler/v1"  # the path of the verbs' URLs; a verb's name follows
VERBS: Final = ("filter", "prioritize", "bind", "preempt")


class PodHead(Struct, frozen=True, gc=False):
    """The fields that filter needs of a pod that the ledger knows already; the first three are never empty."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    deleting: bool


class ExtenderArgs(Struct, frozen=True):
    """The body of filter and prioritize: one pod and the nodes offered to it, in kube-scheduler's order.

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
    """The body of bind: the pod and the node; no field is empty."""

    namespace: str
    name: str
    uid: str
    node: str


class NodeVictims(Struct, frozen=True):
    """The UIDs of the pods that would be preempted on one node, and how many of them violate a PodDisruptionBudget."""

    uids: list[str]
    pdb_violations: int


class ExtenderPreemptionArgs(Struct, frozen=True):
    """The body of preempt: the preempting pod, and the pods that it would preempt (victims) by node.

    It is the same for both of the protocol's forms: victims as whole pods, or as UIDs only.
    """

    pod: PodHead
    pod_raw: Raw
    victims: dict[str, NodeVictims]

    def pod_dict(self) -> dict[str, Any]:
        """Return the whole preempting pod as a dict. Raises RequestError where it is malformed."""
        return strict_dict(bytes(self.pod_raw), "Pod")


def decode_filter(body: bytes) -> ExtenderArgs:
    """Return the body of filter or prioritize. Raises RequestError."""
    check_text(body)
    args = decode(_ARGS, body, "")
    if not _is_plain_go(body, args):
        refuse_duplicates(body)
    nodes = None if args.NodeNames is not None else _nodes_by_name(args.Nodes)
    names = args.NodeNames if args.NodeNames is not None else list(nodes or ())
    return ExtenderArgs(_head(args.Pod, "Pod"), args.Pod, names, nodes)


decode_prioritize = decode_filter


def decode_bind(body: bytes) -> ExtenderBindingArgs:
    """Return the body of bind. Raises RequestError."""
    check_text(body)
    args = decode(_BINDING, body, "")
    refuse_duplicates(body)
    for field in ("PodNamespace", "PodName", "PodUID", "Node"):
        _required(getattr(args, field), field)
    return ExtenderBindingArgs(args.PodNamespace or "", args.PodName or "", args.PodUID or "", args.Node or "")


def decode_preempt(body: bytes) -> ExtenderPreemptionArgs:
    """Return the body of preempt. Raises RequestError."""
    check_text(body)
    args = decode(_PREEMPTION, body, "")
    refuse_duplicates(body)
    victims = {n: _meta_victims(v) for n, v in (args.NodeNameToMetaVictims or {}).items() if v is not None}
    whole = {n: _whole_victims(v) for n, v in (args.NodeNameToVictims or {}).items() if v is not None}
    return ExtenderPreemptionArgs(_head(args.Pod, "Pod"), args.Pod, whole | victims)


# Answers


class AnswerNodeList(Struct):
    """Node objects returned to a kube-scheduler that is not nodeCacheCapable."""

    items: list[Raw]


class ExtenderFilterResult(Struct):
    """The answer of filter; `filter_result` fills ``Nodes`` or ``NodeNames``, whichever the request used."""

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
    """The answer of preempt: victims by node, which replace kube-scheduler's; an empty map means no preemption."""

    NodeNameToMetaVictims: dict[str, AnswerMetaVictims]


def filter_result(
    args: ExtenderArgs,
    names: Iterable[str],
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
) -> ExtenderFilterResult:
    """Return the answer of filter that lets the nodes ``names`` through, in the form that the request used.

    ``failed``, ``unresolvable``: the reason by refused node; preemption cannot help on the unresolvable ones. Raises
    KeyError where the form has whole nodes and a node was not offered.
    """
    kept = list(names)
    if args.nodes is None:
        return ExtenderFilterResult(None, kept, failed or {}, unresolvable or {})
    return ExtenderFilterResult(AnswerNodeList([args.nodes[n] for n in kept]), None, failed or {}, unresolvable or {})


def encode_filter(result: ExtenderFilterResult) -> bytes:
    return _ENCODER.encode(result)


def encode_prioritize(scores: Mapping[str, int]) -> bytes:
    """Return the answer of prioritize (HostPriorityList, a bare array) from integer scores by node."""
    return _ENCODER.encode([HostPriority(host, int(score)) for host, score in scores.items()])


def encode_bind(error: str = "") -> bytes:
    """Return the answer of bind; an empty ``error`` means that the pod is bound."""
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
    """Return the whole nodes by name; None where the field is null, as it is in the form with names only."""
    listed = decode(_NODES, raw, "Nodes")
    if listed is None:
        return None
    found: dict[str, Raw] = {}
    for item in listed.items or ():
        if (node := decode(_OBJECT, item, "Nodes.items")) is not None:
            found[_required((node.metadata or shapes.ObjectMeta()).name, "Nodes.items.metadata.name")] = item
    return found


def _is_plain_go(body: bytes, args: shapes.FilterArgs) -> bool:
    """Tell whether the body's outer object is exactly what Go writes: three keys in order, each once, without white
    space.

    If so, no key is repeated, and the body need not be parsed a second time to find out. Each key must be where the
    lengths of the decoded values put it, and the names must be one flat array.
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
