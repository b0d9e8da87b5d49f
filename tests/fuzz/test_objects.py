"""Pods, nodes and jobs with anything in them: no fault of ours, no page that cannot be shown, no harm to others."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import httpx
import msgspec
import pytest

from extender.kube.api import NODES, PODS, TFJOBS, Resource
from policy.cluster.invariants import violations
from tests.fuzz.mutations import hurt
from tests.fuzz.service import Service, member, node, stranger, tfjob

Json = dict[str, Any]
BATCHES, BATCH = 20, 10  # of one service
SEEDS, SOAK_SEEDS = 10, 520
PAGES = ("jobs", "queue", "nodes", "plans", "desired", "decisions", "explain/team/waits", "explain/team/runs")


def objects() -> list[tuple[Resource, Json]]:
    """What gets hurt: objects of another namespace, some of which name the job that runs, and nodes of their own."""
    notes: dict[str, Any] = {"min-workers": "1", "max-workers": "4", "utility": "3"}
    mine = tfjob("wild", namespace="wild", **notes)
    forged = {**mine, "metadata": {**mine["metadata"], "name": "runs", "uid": "job-runs"}}
    pods = [member(mine, "worker", 0), member(mine, "ps", 0, "wild-0"), member(forged, "worker", 0), stranger("wild")]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"uid": f"uid-wild-{number}", "namespace": "wild"}  # uids are the API server's
    return [(TFJOBS, mine), *((PODS, pod) for pod in pods), *((NODES, node(f"wild-{n}")) for n in range(2))]


def _away_from_the_victims(item: Any) -> bool:
    """The API server vouches for names and uids: what has a victim's is that victim, changed by who may."""
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict):
        return True
    return meta.get("namespace") not in ("team", "other") and meta.get("name") not in ("n1", "n2")


def _read(item: Any) -> Any:
    """As it comes out of the API server's answer; what that cannot hold becomes nothing."""
    try:
        return msgspec.json.decode(json.dumps(item, allow_nan=False).encode())
    except ValueError:
        return None


async def fuzz(seed: int) -> Counter[str]:
    """Many batches of hurt objects, come, changed and gone; after each, everything is looked at."""
    service, seen = Service(), Counter[str]()
    before, chance = service.established(), random.Random(f"objects/{seed}")
    transport = httpx.ASGITransport(app=service.live.with_verbs(service.live.rest()))
    async with httpx.AsyncClient(transport=transport, base_url="http://kohort/v1/") as client:
        for batch in range(BATCHES):
            for _ in range(BATCH):
                resource, item = chance.choice(objects())
                damaged = _read(hurt(item, chance))
                change = chance.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED"))
                if _away_from_the_victims(damaged):
                    service.see(resource, [damaged], change)
                    seen[f"{resource.plural} {change}"] += 1
            assert violations(service.snapshot) == [], (seed, batch)
            assert service.established() == before, (seed, batch)
            page = PAGES[batch % len(PAGES)]
            answer = await client.get(page)
            assert answer.status_code == httpx.codes.OK, (seed, batch, page, answer.text)
            seen["invalid jobs"] += sum(1 for job in service.snapshot.jobs.values() if job.invalid)
    return seen


async def test_no_object_harms_anything_but_itself() -> None:
    seen = sum([await fuzz(seed) for seed in range(SEEDS)], Counter[str]())
    print(dict(seen))
    assert sum(seen.values()) > SEEDS * BATCHES * BATCH * 0.8
    assert seen["invalid jobs"] > 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_no_object_of_very_many_does() -> None:
    for seed in range(1000, 1000 + SOAK_SEEDS):
        await fuzz(seed)
