"""List every object of an API server, to compare before and after."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from extender.control.eventreasons import OF_WAITING
from extender.control.jobevents import CONTROLLER
from tests.controlplane import ControlPlane
from tests.e2e.waiting import at_rest

Json = dict[str, Any]
Name = tuple[str, str, str]  # An object is named by "group/plural", namespace and name.
# Resources that are left out, because they change by themselves: heartbeats and Events.
NOT_COUNTED = {"coordination.k8s.io/leases", "/events", "events.k8s.io/events", "/componentstatuses"}


def inventory(plane: ControlPlane) -> dict[Name, str]:
    """Return the content of each object of the cluster as JSON, without status and fields that every write changes.

    Each resource is read in the API group's preferred version.
    """
    found: dict[Name, str] = {}
    for path, group, plural in _collections(plane):
        what = f"{group}/{plural}"
        if what in NOT_COUNTED:
            continue
        for item in plane.api.get(path).get("items", ()):
            meta = item["metadata"]
            found[what, meta.get("namespace", ""), meta["name"]] = _content(item)
    return found


def settled(plane: ControlPlane) -> dict[Name, str]:
    """Return the inventory once nothing changes for a while, because a control plane keeps writing after its start."""
    return at_rest(lambda: inventory(plane), seconds=3.0, pause=0.5)


def _collections(plane: ControlPlane) -> list[tuple[str, str, str]]:
    groups = plane.api.get("/apis")["groups"]
    roots = [("/api/v1", "")] + [(f"/apis/{g['preferredVersion']['groupVersion']}", g["name"]) for g in groups]
    return [
        (f"{root}/{one['name']}", group, one["name"])
        for root, group in roots
        for one in plane.api.get(root)["resources"]
        if "list" in one["verbs"] and "/" not in one["name"]
    ]


def _content(item: Mapping[str, Any]) -> str:
    ours = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    meta = item["metadata"]
    kept = {key: meta[key] for key in ("uid", "labels", "annotations", "ownerReferences", "finalizers") if key in meta}
    return json.dumps(ours | {"metadata": kept}, sort_keys=True)


def events_by(plane: ControlPlane, *reporters: str) -> list[str]:
    """Return the names of the Events that these reporting controllers have written."""
    items = plane.api.get("/apis/events.k8s.io/v1/events")["items"]
    return [one["metadata"]["name"] for one in items if one.get("reportingController") in reporters]


def told_of_waiting(plane: ControlPlane, namespace: str) -> dict[str, list[str]]:
    """Return by job name the Events of Kohort's controller that say why the job waits, each as "reason: note".

    The API server keeps Events for an hour.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for one in plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]:
        if one.get("reportingController") == CONTROLLER and one["reason"] in {word.reason for word in OF_WAITING}:
            found[one["regarding"]["name"]].append(f"{one['reason']}: {one['note']}")
    return found
