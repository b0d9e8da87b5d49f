"""Malformed bodies for calls of the extender's verbs (filter, prioritize, bind, preempt)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
POD: Json = {
    "metadata": {"name": "w-0", "namespace": "team", "uid": "u-1", "resourceVersion": "1"},
    "spec": {"schedulerName": "kohort", "containers": [{"name": "main", "image": "none"}]},
}
GOOD: dict[str, Json] = {
    "filter": {"Pod": POD, "Nodes": None, "NodeNames": ["node-0", "node-1"]},
    "prioritize": {"Pod": POD, "Nodes": None, "NodeNames": ["node-0", "node-1"]},
    "bind": {"PodName": "w-0", "PodNamespace": "team", "PodUID": "u-1", "Node": "node-0"},
    "preempt": {"Pod": POD, "NodeNameToMetaVictims": {"node-0": {"Pods": [{"UID": "u-2"}], "NumPDBViolations": 0}}},
}
WRONG: tuple[Any, ...] = (0, -1, 1.5, 10**40, True, "text", "\u0663", [], [None], [[]], {}, {"a": {"b": []}}, None)
NEEDED = {
    "filter": ("Pod.metadata", "Pod.metadata.uid", "Pod.metadata.name", "Pod.metadata.namespace"),
    "prioritize": ("Pod.metadata", "Pod.metadata.uid", "Pod.metadata.name", "Pod.metadata.namespace"),
    "bind": ("PodName", "PodNamespace", "PodUID", "Node"),
    "preempt": ("Pod.metadata.uid",),
}


def broken_texts() -> dict[str, bytes]:
    """Return by name request bodies that are not JSON, are nested too deep, or have an ambiguous value."""
    deep = 100_000
    return {
        "empty": b"",
        "no-json": b"<html>",
        "cut": b'{"Pod": {"metadata": ',
        "null": b"null",
        "list": b"[]",
        "number": b"1",
        "nan": b'{"Pod": NaN}',
        "infinity": b'{"PodName": Infinity}',
        "not-utf-8": b'{"PodName": "\xff\xfe"}',
        "surrogate": b'{"PodName": "\\ud800"}',
        "zeros": b"\x00" * 100,
        "deep-lists": b'{"Pod": ' + b"[" * deep + b"]" * deep + b"}",
        "deep-objects": b'{"a":' * deep + b"1" + b"}" * deep,
        "two-values": b"{} {}",
        "twice": b'{"PodUID": "a", "PodUID": "b", "PodName": "a", "PodNamespace": "b", "Node": "c"}',
        "long-number": b'{"Pod": ' + b"9" * 10_000 + b"}",
    }


def missing_fields(verb: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of otherwise valid bodies in which one required field is empty or of a wrong type."""
    for path in NEEDED[verb]:
        for n, value in enumerate(("", *WRONG)):
            if not (isinstance(value, str) and value):
                body = copy.deepcopy(GOOD[verb])
                *way, last = path.split(".")
                at = body
                for key in way:
                    at = at[key]
                at[last] = value
                yield f"{path}-{n}", json.dumps(body).encode()
