"""The embedded object store: resource versions, pages of one moment, the log of changes and its compaction."""

from __future__ import annotations

import asyncio

import pytest

from extender.kube.api import CONFIGMAPS, PODS, Json
from lab.embedded.objectstore import ExpiredError, ObjectStore


def item(name: str) -> Json:
    return {"metadata": {"namespace": "default", "name": name}}


def names(items: list[Json]) -> list[str]:
    return [found["metadata"]["name"] for found in items]


def filled(*pods: str) -> ObjectStore:
    store = ObjectStore()
    for name in pods:
        store.put(PODS, item(name))
    return store


def test_each_write_has_a_version_of_its_own() -> None:
    store = filled("a", "b")
    assert [found["metadata"]["resourceVersion"] for found in store.all(PODS)] == ["2", "3"]
    gone = store.remove(PODS, "default", "a")
    assert gone is not None
    assert gone["metadata"]["resourceVersion"] == "4"


def test_pages_are_of_one_moment() -> None:
    store = filled("a", "b", "c")
    first, version, following = store.page(PODS, 2)
    store.remove(PODS, "default", "c")
    store.put(PODS, item("d"))
    rest, same, end = store.page(PODS, 2, version, following)
    assert names(first + rest) == ["a", "b", "c"]
    assert (same, end) == (version, 0)


def test_a_page_is_gone_after_compaction() -> None:
    store = filled("a", "b", "c")
    _, version, following = store.page(PODS, 2)
    store.compact()
    with pytest.raises(ExpiredError):
        store.page(PODS, 2, version, following)


def test_changes_since_a_version_are_of_one_resource_in_order() -> None:
    store = filled("a")
    since = store.version
    store.put(CONFIGMAPS, item("other"))
    store.put(PODS, item("a"))
    store.put(PODS, item("b"))
    store.remove(PODS, "default", "a")
    changes = store.since(PODS, since)
    assert [(change.kind, change.item["metadata"]["name"]) for change in changes] == [
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


def test_a_version_before_compaction_is_too_old_and_that_of_it_is_not() -> None:
    store = filled("a", "b")
    store.compact()
    with pytest.raises(ExpiredError):
        store.since(PODS, store.version - 1)
    assert store.since(PODS, store.version) == []


async def test_a_write_wakes_who_waits() -> None:
    store = filled()
    waiting = asyncio.create_task(store.changed(PODS))
    await asyncio.sleep(0)
    assert not waiting.done()
    store.put(PODS, item("a"))
    await waiting
