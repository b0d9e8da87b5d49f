"""Stores objects with resourceVersions and a log of their changes, as etcd and the API server's watch cache do.

Objects are never changed in place, so readers may keep them. This module knows versions, and nothing about kinds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from extender.kube.api import Json, Resource

Key = tuple[str, str]  # a key is (namespace, name)
Kind = Literal["ADDED", "MODIFIED", "DELETED"]

LOG = 20_000  # the newest changes are kept, at most this many, and watches can resume from them
SNAPSHOTS = 16  # at most this many lists are kept for clients that have not read all of their pages yet


class ExpiredError(Exception):
    """The store no longer has what the resourceVersion or continue token refers to (status 410)."""


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One write to the store; ``version`` is the store's version after it.

    ``item`` is the object after the write; for a deletion, the last state of the deleted object, with the new version.
    """

    version: int
    resource: Resource
    kind: Kind
    item: Json


Listener = Callable[[StoreChange, Json | None], None]


class ObjectStore:
    """Stores all objects of one cluster, with one version number that each write increases."""

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0  # the log no longer has the changes up to this version
        self._objects: dict[Resource, dict[Key, Json]] = {}
        self._log: deque[StoreChange] = deque()
        self._snapshots: dict[tuple[Resource, int], list[Json]] = {}
        self._listeners: list[Listener] = []
        self._changed: dict[Resource, asyncio.Event] = {}

    def listen(self, listener: Listener) -> None:
        """Register a function that is called during each write, with the change and the object as it was before (None
        for a new object).
        """
        self._listeners.append(listener)

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return the object, or None if there is none."""
        return self._objects.get(resource, {}).get((namespace, name))

    def all(self, resource: Resource) -> Iterator[Json]:
        """Yield every object of the resource, in order of namespace and name."""
        objects = self._objects.get(resource, {})
        return (objects[key] for key in sorted(objects))

    def page(self, resource: Resource, limit: int, version: int = 0, start: int = 0) -> tuple[list[Json], int, int]:
        """Return one page of a list at one version: (items, version, index at which the next page begins, or 0).

        limit: the most items in the page; 0: all. version, start: the version and the index that the call for the page
        before has returned; 0 for the first page. Raises ExpiredError if the list of that version is no longer kept.
        """
        if not version:
            version, items = self.version, list(self.all(resource))
        else:
            kept = self._snapshots.get((resource, version))
            if kept is None:
                raise ExpiredError
            items = kept
        following = start + limit if limit and start + limit < len(items) else 0
        if following:
            self._keep(resource, version, items)
        return items[start : following or None], version, following

    def since(self, resource: Resource, version: int) -> list[StoreChange]:
        """Return the changes after ``version``. Raises ExpiredError if some of them are no longer kept."""
        if version < self.compacted:
            raise ExpiredError
        found = []
        for change in reversed(self._log):
            if change.version <= version:
                break
            if change.resource == resource:
                found.append(change)
        return found[::-1]

    async def changed(self, resource: Resource) -> None:
        """Wait for the next write of an object of that resource."""
        await self._changed.setdefault(resource, asyncio.Event()).wait()

    def put(self, resource: Resource, item: Json) -> Json:
        """Create or replace the object; return it with its new resourceVersion."""
        self.version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        objects = self._objects.setdefault(resource, {})
        key = key_of(item)
        before = objects.get(key)
        objects[key] = item
        self._record(StoreChange(self.version, resource, "MODIFIED" if before is not None else "ADDED", item), before)
        return item

    def remove(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Delete the object; return its last state with the version of the deletion, or None if there was none."""
        before = self._objects.get(resource, {}).pop((namespace, name), None)
        if before is None:
            return None
        self.version += 1
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
        self._record(StoreChange(self.version, resource, "DELETED", last), before)
        return last

    def compact(self) -> None:
        """Drop the log and all lists that are kept for further pages, as etcd drops old versions every five minutes."""
        self._log.clear()
        self._snapshots.clear()
        self.compacted = self.version

    def _record(self, change: StoreChange, before: Json | None) -> None:
        self._log.append(change)
        if len(self._log) > LOG:
            self.compacted = self._log.popleft().version
        if (waiting := self._changed.pop(change.resource, None)) is not None:
            waiting.set()
        for listener in self._listeners:
            listener(change, before)

    def _keep(self, resource: Resource, version: int, items: list[Json]) -> None:
        self._snapshots[resource, version] = items
        while len(self._snapshots) > SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]


def key_of(item: Json) -> Key:
    """Return the namespace and name of the object."""
    return str(item["metadata"].get("namespace") or ""), str(item["metadata"]["name"])
