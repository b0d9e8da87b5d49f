"""Kohort's own API client and reflector work with the embedded API server over HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from extender.clock import Clock
from extender.kube.api import LEASES, NODES, PODS, ClusterError, Done, Json, Ref, Refused
from extender.kube.client import PAGE, KubeApi
from extender.kube.connection.kubectloptions import KubectlOptions
from extender.kube.connection.resolve import resolve
from extender.kube.reflector import Reflector
from extender.kube.watchbatch import ReflectorTimes, WatchBatch
from lab.embedded.apirules import StatusError
from lab.embedded.apiserver import ApiServer
from lab.embedded.embeddedcluster import served
from lab.embedded.http import address
from lab.embedded.objectstore import ObjectStore


@dataclass
class Bench:
    server: ApiServer
    api: KubeApi
    clock: Clock

    def pod(self, name: str) -> Json:
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        return self.server.create(PODS, "default", {"metadata": {"name": name}, "spec": {"containers": [container]}})


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock, chance = Clock(), random.Random(0)
    server = ApiServer(ObjectStore(), clock, chance)
    async with (
        served(server) as kubeconfig,
        KubeApi(resolve(KubectlOptions(kubeconfig=kubeconfig)), deadline=10, clock=clock, chance=chance) as api,
    ):
        yield Bench(server, api, clock)


async def test_a_long_list_comes_in_pages_of_one_version(bench: Bench) -> None:
    for index in range(PAGE + 1):
        bench.pod(f"pod-{index:04}")
    pages = [(len(items), version) async for items, version in bench.api.list_pages(PODS)]
    version = str(bench.server.store.version)
    assert pages == [(PAGE, version), (1, version)]


async def test_writes_have_the_outcomes_of_the_real_one(bench: Bench) -> None:
    pod = bench.pod("pod")
    ref, uid = Ref(PODS, "default", "pod"), pod["metadata"]["uid"]
    other = "00000000-0000-4000-8000-000000000000"
    outcomes = [
        await bench.api.patch(ref, {"metadata": {"annotations": {"a": "1"}}}, uid=uid),
        await bench.api.patch(ref, {"metadata": {"annotations": {"a": "2"}}}, resource_version="1"),
        await bench.api.patch(ref, [{"op": "remove", "path": "/spec/schedulingGates/0"}], kind="json", uid=uid),
        await bench.api.bind("default", "pod", other, "node", {}),
        await bench.api.bind("default", "pod", uid, "node", {"plan": "p"}),
        await bench.api.bind("default", "pod", uid, "node", {}),
        await bench.api.delete_pod("default", "pod", other),
        await bench.api.delete_pod("default", "missing", other),
        await bench.api.create_event("default", {"metadata": {"name": "told"}, "reason": "Told"}),
    ]
    refused = [outcome.status if isinstance(outcome, Refused) else 0 for outcome in outcomes]
    assert refused == [0, 409, 422, 409, 0, 409, 409, 404, 0]
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == refused.count(0)
    found = await bench.api.get(ref)
    assert found is not None
    assert found["metadata"]["annotations"] == {"a": "1", "plan": "p"}


async def test_what_is_not_served_or_not_there(bench: Bench) -> None:
    assert await bench.api.get(Ref(LEASES, "kohort-system", "kohort-scheduler")) is None
    missing = await bench.api.patch(Ref(NODES, "", "node"), {"metadata": {}})
    assert isinstance(missing, Refused)
    assert missing.status == 404


async def test_a_reflector_follows_and_lists_anew_after_compaction(bench: Bench) -> None:
    bench.pod("first")
    reflector = Reflector(bench.api, PODS, bench.clock, random.Random(0), ReflectorTimes(backoff_seconds=0.01))
    batches: asyncio.Queue[WatchBatch] = asyncio.Queue()
    following = asyncio.create_task(reflector.run(batches.put_nowait))

    async def told() -> tuple[str, list[str]]:
        batch = await asyncio.wait_for(batches.get(), 60)
        return batch.kind, [f"{event['type']} {event['object']['metadata']['name']}" for event in batch.events]

    assert await told() == ("page", ["ADDED first"])
    assert await told() == ("end", [])
    bench.pod("second")
    assert await told() == ("changes", ["ADDED second"])
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_watch_from_before_compaction_is_410(bench: Bench) -> None:
    bench.pod("first")
    bench.pod("second")
    bench.server.store.compact()
    events = [event async for batch in bench.api.watch(PODS, "1", 5) for event in batch]
    assert [(event["type"], event["object"]["code"]) for event in events] == [("ERROR", 410)]


async def test_a_continue_token_from_before_compaction_is_410(bench: Bench) -> None:
    for index in range(PAGE + 1):
        bench.pod(f"pod-{index:04}")
    pages = bench.api.list_pages(PODS)
    await anext(pages)
    bench.server.store.compact()
    with pytest.raises(ClusterError, match="410"):
        await anext(pages)


PATHS = {
    "/api/v1/pods": (PODS, "", "", ""),
    "/api/v1/namespaces/team/pods/a/binding": (PODS, "team", "a", "binding"),
    "/api/v1/nodes/node-0": (NODES, "", "node-0", ""),
    "/apis/coordination.k8s.io/v1/namespaces/s/leases/l": (LEASES, "s", "l", ""),
}


@pytest.mark.parametrize(("path", "want"), PATHS.items())
def test_address(path: str, want: tuple[object, ...]) -> None:
    ref, subresource = address(path)
    assert (ref.resource, ref.namespace, ref.name, subresource) == want


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1/secrets", "/apis/apps/v1/daemonsets", "/api/v1/pods/a/b/c"])
def test_no_address(path: str) -> None:
    with pytest.raises(StatusError, match="404"):
        address(path)
