"""Merge patch and JSON patch, by their RFCs' own rules."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.api import CONFIGMAPS, Json
from lab.embedded.apirules import updated
from lab.embedded.patches import PatchError, json_patch, merge_patch

OLD = {"a": {"b": 1, "c": [1, 2]}, "d": "x"}

MERGES: dict[str, tuple[Any, Any]] = {
    "adds and replaces": ({"a": {"b": 2}, "e": 5}, {"a": {"b": 2, "c": [1, 2]}, "d": "x", "e": 5}),
    "null removes, also what is not there": ({"a": {"b": None}, "z": None}, {"a": {"c": [1, 2]}, "d": "x"}),
    "a list is replaced whole": ({"a": {"c": [3]}}, {"a": {"b": 1, "c": [3]}, "d": "x"}),
    "a map over a text becomes the map": ({"d": {"k": 1}}, {"a": {"b": 1, "c": [1, 2]}, "d": {"k": 1}}),
}

OPERATIONS: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "remove from a list": ([{"op": "remove", "path": "/a/c/0"}], {"a": {"b": 1, "c": [2]}, "d": "x"}),
    "add to the end": ([{"op": "add", "path": "/a/c/-", "value": 3}], {"a": {"b": 1, "c": [1, 2, 3]}, "d": "x"}),
    "test, then replace": (
        [{"op": "test", "path": "/a/b", "value": 1}, {"op": "replace", "path": "/a/b", "value": 7}],
        {"a": {"b": 7, "c": [1, 2]}, "d": "x"},
    ),
    "an escaped slash": ([{"op": "add", "path": "/k~1l", "value": 1}], {**OLD, "k/l": 1}),
}

FAULTS: dict[str, list[dict[str, Any]]] = {
    "a test that fails": [{"op": "test", "path": "/a/b", "value": 2}],
    "a test of what is not there": [{"op": "test", "path": "/z", "value": 2}],
    "removal of what is not there": [{"op": "remove", "path": "/z"}],
    "replacing what is not there": [{"op": "replace", "path": "/a/z", "value": 1}],
    "a place beyond the list": [{"op": "remove", "path": "/a/c/2"}],
    "an unknown operation": [{"op": "mend", "path": "/a"}],
}


@pytest.mark.parametrize(("patch", "want"), MERGES.values(), ids=MERGES.keys())
def test_merge_patch(patch: Any, want: Any) -> None:
    assert merge_patch(OLD, patch) == want


@pytest.mark.parametrize(("patch", "want"), OPERATIONS.values(), ids=OPERATIONS.keys())
def test_json_patch(patch: Any, want: Any) -> None:
    assert json_patch(OLD, patch) == want
    assert OLD == {"a": {"b": 1, "c": [1, 2]}, "d": "x"}


@pytest.mark.parametrize("changed", [{"data": {"gate": "off"}}, {"metadata": {}, "data": {"gate": "off"}}])
def test_an_update_without_metadata_changes_the_same_object(changed: Json) -> None:
    meta = {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"}
    stored = updated(CONFIGMAPS, {"metadata": meta, "data": {"gate": "on"}}, changed)
    assert stored == {"metadata": meta, "data": {"gate": "off"}}


@pytest.mark.parametrize("patch", FAULTS.values(), ids=FAULTS.keys())
def test_json_patch_that_does_not_apply(patch: Any) -> None:
    with pytest.raises(PatchError):
        json_patch(OLD, patch)
