"""Fuzz pods, nodes and jobs: Kohort makes no error, shows every page, and other objects are not affected."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from extender.kube.jobkinds import KINDS, LONE_POD
from extender.kube.podgroupkinds import GROUP, GROUPS
from lab.sim.invariants import index_errors, violations
from policy.cluster.snapshot import Snapshot
from tests.fuzz.kinds import OF_KIND, WILD, group_key
from tests.fuzz.mutations import hurt
from tests.fuzz.service import Service

Json = dict[str, Any]
BATCHES, BATCH = 20, 10  # A service gets so many batches of so many objects.
DAMAGED = 0.7  # This share of the objects is damaged; the others stay whole, so that both sorts meet.
GATE_SEEDS, SEEDS, SOAK_SEEDS = 4, 10, 750
PAGES = ("jobs", "queue", "nodes", "plans", "desired", "decisions", "explain/team/waits", "explain/team/runs")


def _away_from_the_victims(item: Any) -> bool:
    """Tell whether the object lies outside the service's own namespaces and node names.

    An API server would not let two objects have the same name.
    """
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict):
        return True
    return meta.get("namespace") not in ("team", "other") and meta.get("name") not in ("n1", "n2")


def _read(item: Any) -> Any:
    """Return the value as the service would decode it from JSON, or None if JSON cannot represent it."""
    try:
        return msgspec.json.decode(json.dumps(item, allow_nan=False).encode())
    except ValueError:
        return None


async def fuzz(seed: int) -> Counter[str]:
    """Give the service batches of damaged objects (added, changed, deleted), and check its state after each batch.

    Return how many objects of each kind were shown, and how many jobs were understood or malformed.
    """
    service, seen = Service(), Counter[str]()
    before, chance = service.established(), random.Random(f"objects/{seed}")
    transport = httpx.ASGITransport(app=service.live.with_verbs(service.live.rest()))
    async with httpx.AsyncClient(transport=transport, base_url="http://kohort/v1/") as client:
        for batch in range(BATCHES):
            for number in range(BATCH):
                kind = chance.choice(list(OF_KIND))
                resource, item = chance.choice(OF_KIND[kind])
                item = copy.deepcopy(item)
                # The service ignores an object with an older version.
                item["metadata"]["resourceVersion"] = str(10 + batch * BATCH + number)
                damaged = _read(hurt(item, chance)) if chance.random() < DAMAGED else item
                change = chance.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED"))
                if _away_from_the_victims(damaged):
                    service.see(resource, [damaged], change)
                    seen[kind] += 1
            assert violations(service.snapshot) == index_errors(service.snapshot) == [], (seed, batch)
            assert service.established() == before, (seed, batch)
            page = PAGES[batch % len(PAGES)]
            answer = await client.get(page)
            assert answer.status_code == httpx.codes.OK, (seed, batch, page, answer.text)
            for page in pages_of_one(service.snapshot, chance):
                answer = await client.get(page)
                assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (seed, batch, page, answer.text)
            seen.update(understood(service.snapshot))
    return seen


def pages_of_one(snapshot: Snapshot, chance: random.Random) -> tuple[str, ...]:
    """Return the paths of the pages about a random job of the snapshot."""
    names = sorted(job.name for job in snapshot.jobs.values() if job.namespace == WILD)
    if not names:
        return ()
    name = quote(chance.choice(names), safe="")
    return (f"explain/{WILD}/{name}", f"explain/{WILD}/{name}?unblock=true", f"jobs/{WILD}/{name}")


def understood(snapshot: Snapshot) -> Counter[str]:
    """Count the fuzzed jobs in the snapshot under "good KIND" and "malformed KIND"."""
    found = [job for job in snapshot.jobs.values() if job.namespace == WILD]
    return Counter(f"{'malformed' if job.invalid else 'good'} {job.kind}" for job in found)


@pytest.mark.parametrize("seeds", [GATE_SEEDS, pytest.param(SEEDS, marks=pytest.mark.full)])
async def test_no_object_harms_anything_but_itself(seeds: int) -> None:
    seen = sum([await fuzz(seed) for seed in range(seeds)], Counter[str]())
    assert sum(seen.values()) > seeds * BATCHES * BATCH * 0.8
    for kind in OF_KIND:
        assert seen[kind] > seeds, f"{kind} was hardly shown"
    for kind in (*KINDS, GROUP, LONE_POD):
        assert seen[f"good {kind}"] > seeds, f"{kind} was hardly understood"
    for kind in (*KINDS, GROUP):
        assert seen[f"malformed {kind}"] > 0, f"no {kind} was malformed"


def test_an_object_of_every_kind_is_hurt() -> None:
    """Each kind of job and of pod group that Kohort knows has objects to damage, with pods."""
    groups = {group_key(kind) for kind in GROUPS}
    assert {*KINDS, *groups, LONE_POD} == OF_KIND.keys() - {"Node"}
    resources = {name: kind.resource for name, kind in KINDS.items()} | {group_key(one): one.resource for one in GROUPS}
    for name, resource in resources.items():
        assert OF_KIND[name][0][0] == resource
        assert len(OF_KIND[name]) > 1, "and its pods"


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_no_object_of_very_many_does() -> None:
    for seed in range(1000, 1000 + SOAK_SEEDS):
        await fuzz(seed)
