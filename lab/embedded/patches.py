"""Merge patch (RFC 7386) and JSON patch (RFC 6902: add, remove, replace, test); the given object is not modified."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any


class PatchError(Exception):
    """The patch does not apply to this object; the API server answers 422."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` merged into it. In the patch, null removes a key, and a list replaces a list."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return ``target`` after all operations, which are applied in order. Raises PatchError if one does not apply."""
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise PatchError(f"{operation.get('op')} {operation.get('path')}: {error!r}") from None
    return document


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    name, value = operation["op"], operation.get("value")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in str(operation["path"]).split("/")[1:]]
    if not steps:
        return _whole(document, name, value)
    parent = document
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if isinstance(parent, list):
        _change_list(parent, name, steps[-1], value)
    else:
        _change_map(parent, name, steps[-1], value)
    return document


def _whole(document: Any, name: str, value: Any) -> Any:
    if name == "test":
        _test(document, value)
        return document
    if name not in ("add", "replace"):
        raise ValueError("this operation has no meaning at the root")
    return value


def _change_map(parent: dict[str, Any], name: str, key: str, value: Any) -> None:
    match name:
        case "add":
            parent[key] = value
        case "remove":
            del parent[key]
        case "replace":
            if key not in parent:
                raise KeyError(key)
            parent[key] = value
        case "test":
            _test(parent.get(key), value)
        case _:
            raise ValueError("an unknown operation")


def _change_list(parent: list[Any], name: str, key: str, value: Any) -> None:
    match name:
        case "add":
            parent.insert(len(parent) if key == "-" else _place(parent, key, len(parent)), value)
        case "remove":
            del parent[_place(parent, key, len(parent) - 1)]
        case "replace":
            parent[_place(parent, key, len(parent) - 1)] = value
        case "test":
            _test(parent[_place(parent, key, len(parent) - 1)], value)
        case _:
            raise ValueError("an unknown operation")


def _place(parent: list[Any], key: str, last: int) -> int:
    place = int(key)
    if not 0 <= place <= last:
        raise IndexError(f"no place {place} in a list of {len(parent)}")
    return place


def _test(have: Any, want: Any) -> None:
    if have != want:
        raise ValueError("the test failed")
