"""The extender protocol: kube-scheduler's bodies are read, malformed ones are refused by field, answers
look like Go's.
"""

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from extender.http.strict import RequestError
from extender.kubescheduler import wire

POD: dict[str, Any] = {
    "metadata": {"name": "a-worker-0", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "labels": {"x": "y"}},
    "spec": {"schedulerName": "kohort", "containers": [{"name": "c", "resources": {}}], "futureField": [1.5]},
    "status": {},
}
HEAD = wire.PodHead("ns", "a-worker-0", "u1", "7", "kohort", False)


def go(**fields: Any) -> bytes:
    """Return JSON as Go's encoding/json writes it, without blanks."""
    return json.dumps(fields, separators=(",", ":")).encode()


def args(**changed: Any) -> bytes:
    return go(**{"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2"]} | changed)


def test_names_only_request() -> None:
    got = wire.decode_filter(args())
    assert (got.pod, got.node_names, got.nodes) == (HEAD, ["n1", "n2"], None)
    assert got.pod_dict() == POD


def test_whole_nodes_are_echoed_as_they_came() -> None:
    nodes = [{"metadata": {"name": n, "labels": None}, "status": {"big": [n]}} for n in ("n1", "n2")]
    got = wire.decode_filter(args(Nodes={"metadata": {}, "items": [*nodes, None]}, NodeNames=None))
    assert got.node_names == ["n1", "n2"]
    answer = json.loads(wire.encode_filter(wire.filter_result(got, ["n2"], failed={"n1": "full"})))
    assert answer == {
        "Nodes": {"items": [nodes[1]]},
        "NodeNames": None,
        "FailedNodes": {"n1": "full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_where_a_body_has_names_and_whole_nodes_the_names_are_asked_about_and_answered() -> None:
    got = wire.decode_filter(args(Nodes={"items": [{"metadata": {"name": "n3"}}]}, NodeNames=["n1", "n2"]))
    assert (got.node_names, got.nodes) == (["n1", "n2"], None)
    answer = json.loads(wire.encode_filter(wire.filter_result(got, ["n2"], failed={"n1": "full"})))
    assert (answer["Nodes"], answer["NodeNames"], answer["FailedNodes"]) == (None, ["n2"], {"n1": "full"})


NULLS = {
    "no nodes at all": ({"Nodes": None, "NodeNames": None}, HEAD),
    "items null": ({"Nodes": {"items": None}, "NodeNames": None}, HEAD),
    "names empty": ({"NodeNames": []}, HEAD),
    "spec null": ({"Pod": POD | {"spec": None}}, wire.PodHead("ns", "a-worker-0", "u1", "7", "", False)),
    "labels null": ({"Pod": {"metadata": POD["metadata"] | {"labels": None}, "spec": POD["spec"]}}, HEAD),
    "unknown keys": ({"Future": {"a": [None]}}, HEAD),
    "being deleted": (
        {"Pod": POD | {"metadata": POD["metadata"] | {"deletionTimestamp": "2026-11-21T09:00:00Z"}}},
        wire.PodHead("ns", "a-worker-0", "u1", "7", "kohort", True),
    ),
}


@pytest.mark.parametrize(("changed", "head"), NULLS.values(), ids=NULLS.keys())
def test_null_and_unknown_are_tolerated(changed: dict[str, Any], head: wire.PodHead) -> None:
    assert wire.decode_filter(args(**changed)).pod == head


def meta(**changed: Any) -> dict[str, Any]:
    return {"metadata": POD["metadata"] | changed}


PLAIN = args()
MALFORMED = {
    "empty body": (b"", ""),
    "not JSON": (b"filter me", ""),
    "an array": (b"[]", ""),
    "two values": (PLAIN + b"{}", ""),
    "cut short": (PLAIN[:-5], ""),
    "not UTF-8 in a kept string": (PLAIN.replace(b"n1", b"\xff1"), ""),
    "not UTF-8 in a skipped string": (PLAIN.replace(b'"y"', b'"\xff"'), ""),
    "NaN": (PLAIN.replace(b"1.5", b"NaN"), ""),
    "lone surrogate": (PLAIN.replace(b'"y"', b'"\\ud800"'), ""),
    "nested 100,000 deep": (b'{"Pod":' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    "open brackets only": (b"[" * 5000, ""),
    "no pod": (go(Nodes=None, NodeNames=[]), "Pod.metadata.namespace"),
    "pod null": (args(Pod=None), "Pod.metadata.namespace"),
    "pod a list": (args(Pod=[]), "Pod"),
    "metadata a string": (args(Pod={"metadata": "x"}), "Pod"),
    "uid absent": (args(Pod=meta(uid=None)), "Pod.metadata.uid"),
    "uid empty": (args(Pod=meta(uid="")), "Pod.metadata.uid"),
    "uid a number": (args(Pod=meta(uid=7)), "Pod"),
    "names not strings": (args(NodeNames=[1]), ""),
    "names a string": (args(NodeNames="n1"), ""),
    "node without a name": (args(Nodes={"items": [{"metadata": {}}]}, NodeNames=None), "Nodes.items.metadata.name"),
    "node a string": (args(Nodes={"items": ["n1"]}, NodeNames=None), "Nodes.items"),
    "pod twice, the second behind the names": (PLAIN[:-1] + b',"Pod":' + go(**POD) + b"}", ""),
    "pod twice, the second first": (b'{"Pod":{},' + PLAIN[1:], ""),
    "names twice": (PLAIN[:-1] + b',"NodeNames":["n3"]}', ""),
    "a key twice by its escape": (PLAIN[:-1] + b',"\\u0050od":' + go(**POD) + b"}", ""),
}


@pytest.mark.parametrize(("body", "field"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_is_refused_by_name(body: bytes, field: str) -> None:
    with pytest.raises(RequestError) as error:
        wire.decode_filter(body)
    assert error.value.field == field
    assert error.value.why


BEYOND_THE_HEAD = {
    "deep": PLAIN.replace(b"1.5", b"[" * 80 + b"]" * 80),
    "integer of 5,000 digits": PLAIN.replace(b"1.5", b"9" * 5000),
    "number out of range": PLAIN.replace(b"1.5", b"1e999"),
    "key twice": PLAIN.replace(b'"x":"y"', b'"x":"y","x":"z"'),
}


@pytest.mark.parametrize("body", BEYOND_THE_HEAD.values(), ids=BEYOND_THE_HEAD.keys())
def test_what_filter_skips_is_refused_when_the_pod_is_read(body: bytes) -> None:
    got = wire.decode_filter(body)
    with pytest.raises(RequestError):
        got.pod_dict()


def test_depth_is_bounded_at_64() -> None:
    # the depth counts pod, spec and futureField, and 61 lists
    nested = wire.decode_filter(PLAIN.replace(b"1.5", b"[" * 61 + b"]" * 61))
    assert nested.pod_dict()["spec"]["schedulerName"] == "kohort"
    with pytest.raises(RequestError, match="deep"):
        wire.decode_filter(PLAIN.replace(b"1.5", b"[" * 62 + b"]" * 62)).pod_dict()


def test_blanks_and_other_orders_are_read_alike() -> None:
    pretty = json.dumps({"NodeNames": ["n1", "n]2"], "Nodes": None, "Pod": POD}, indent=2).encode()
    assert wire.decode_filter(pretty).node_names == ["n1", "n]2"]


def test_mutated_bodies_raise_nothing_but_request_error() -> None:
    chance = random.Random(3)
    bodies = [args(), args(Nodes={"items": [POD]}, NodeNames=None)]
    for _ in range(3000):
        body = bytearray(chance.choice(bodies))
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice(b'{}[]",:\\\xff\x000-nul')
        with suppress(RequestError):
            wire.decode_filter(bytes(body)).pod_dict()


BIND = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}


def test_bind() -> None:
    assert wire.decode_bind(go(**BIND)) == wire.ExtenderBindingArgs("ns", "p", "u", "n")
    assert json.loads(wire.encode_bind()) == {"Error": ""}
    assert json.loads(wire.encode_bind("no")) == {"Error": "no"}


@pytest.mark.parametrize("field", BIND)
@pytest.mark.parametrize("value", [None, "", 7])
def test_bind_needs_each_field(field: str, value: object) -> None:
    with pytest.raises(RequestError, match=field):
        wire.decode_bind(go(**BIND | {field: value}))


def test_bind_refuses_a_field_twice() -> None:
    with pytest.raises(RequestError, match="repeated"):
        wire.decode_bind(go(**BIND)[:-1] + b',"Node":"other"}')


PREEMPT = {
    "UIDs only": {
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}, None], "NumPDBViolations": 1}, "m": None},
    },
    "whole pods": {
        "NodeNameToVictims": {"n": {"Pods": [{"metadata": {"uid": "a"}}, None], "NumPDBViolations": 1}, "m": None},
        "NodeNameToMetaVictims": None,
    },
}


@pytest.mark.parametrize("form", PREEMPT.values(), ids=PREEMPT.keys())
def test_preempt_reads_both_forms_alike(form: dict[str, Any]) -> None:
    got = wire.decode_preempt(go(Pod=POD, **form))
    assert (got.pod, got.victims) == (HEAD, {"n": wire.NodeVictims(["a"], 1)})
    assert json.loads(wire.encode_preempt(got.victims)) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}}
    }


def test_victim_without_uid_is_refused() -> None:
    with pytest.raises(RequestError, match="UID"):
        wire.decode_preempt(go(Pod=POD, NodeNameToMetaVictims={"n": {"Pods": [{}]}}))


def test_priorities_are_a_bare_array_of_integers() -> None:
    assert wire.encode_prioritize({"a": 10, "b": 0}) == b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'
    assert wire.encode_prioritize({}) == b"[]"
