"""How the service handles the events, lists and failures of its watches."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from extender.app import Live, resources
from extender.config.sections import JournalSettings
from extender.config.settings import Settings
from extender.kube.api import DEPLOYMENTS, JOBSETS, NODES, PODS, ClusterError, Json, Resource
from extender.kube.podgroupkinds import COSCHEDULING
from extender.kube.watchbatch import WatchBatch
from tests.stage import FakeApi, VirtualClock, virtual
from tests.unit.test_own_kinds import deployment, group, in_group, replica
from tests.unit.test_own_kinds_in_time import OTHERS_JOB, owned


def pod(name: str, version: int) -> dict[str, Any]:
    meta = {"uid": f"uid-{name}", "namespace": "default", "name": name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"schedulerName": "kohort"}}


def live() -> Live:
    made = Live(Settings(), FakeApi(), VirtualClock(), random.Random(1))
    for reflector in made.reflectors:
        reflector.synced = True
    for resource in resources():
        made.deliver(WatchBatch(resource, "end", [], "10"))
    return made


@virtual
async def test_a_list_does_not_end_a_pod_that_was_created_while_it_was_on_its_way() -> None:
    service = live()
    for item in (pod("old", 12), pod("new", 30)):  # filter calls have shown these pods before the watch
        service.ledger.step(*service.translator.pod_events(item))
    service.deliver(WatchBatch(PODS, "end", [], "20"))
    assert sorted(service.ledger.snapshot.pods) == ["uid-new"]
    service.deliver(WatchBatch(PODS, "changes", [{"type": "ADDED", "object": pod("new", 30)}], "30"))
    service.ledger.step()
    assert sorted(service.ledger.snapshot.pods) == ["uid-new"]


@virtual
async def test_a_pod_that_only_filter_has_shown_leaves_its_place_when_a_list_lacks_it() -> None:
    """Simulation seed 638: the Deployment counted the lost pod for ever, and the plan had no slots for the others."""
    service = live()
    first, second, third = (replica(f"train-abc-{end}") for end in "abc")
    for item in (first, second, third):
        item["metadata"]["resourceVersion"] = "12"
    service.deliver(WatchBatch(DEPLOYMENTS, "changes", [{"type": "ADDED", "object": deployment(2)}], "11"))
    for item in (first, second):  # filter calls have shown these pods before the watch
        service.ledger.step(*service.translator.pod_events(item))
    for item in (second, third):
        service.deliver(WatchBatch(PODS, "page", [{"type": "ADDED", "object": item}], "20"))
    service.deliver(WatchBatch(PODS, "end", [], "20", frozenset(item["metadata"]["uid"] for item in (second, third))))
    slots = {found.name: str(found.slot) for found in service.ledger.snapshot.pods.values()}
    assert slots == {"train-abc-b": "worker-1", "train-abc-c": "worker-0"}


@virtual
async def test_a_lone_pod_that_only_filter_has_shown_is_no_job_when_a_list_lacks_it() -> None:
    service = live()
    service.ledger.step(*service.translator.pod_events(pod("lone", 12)))
    assert len(service.ledger.snapshot.jobs) == 1
    service.deliver(WatchBatch(PODS, "end", [], "20"))
    assert not service.ledger.snapshot.jobs


@virtual
async def test_a_member_of_a_group_that_filter_shows_first_completes_its_gang() -> None:
    service = live()
    first, second = (owned(in_group(COSCHEDULING, name), OTHERS_JOB) for name in ("a", "b"))
    second["metadata"]["resourceVersion"] = "12"
    service.deliver(
        WatchBatch(COSCHEDULING.resource, "changes", [{"type": "ADDED", "object": group(COSCHEDULING, 2)}], "11")
    )
    service.deliver(WatchBatch(PODS, "changes", [{"type": "ADDED", "object": first}], "12"))
    service.ledger.step()
    (before,) = service.ledger.snapshot.jobs
    await service.verbs.filter(asked(second))
    assert sorted(found.name for found in service.ledger.snapshot.pods_of(before)) == ["a", "b"]


def asked(item: Json) -> Request:
    """Return kube-scheduler's filter request about that pod."""
    body = json.dumps({"Pod": item, "Nodes": None, "NodeNames": ["n1"]}).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


class Forbidding(FakeApi):
    """An empty cluster that forbids reading one resource."""

    def __init__(self, forbidden: Resource) -> None:
        super().__init__()
        self.forbidden = forbidden

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        if resource == self.forbidden:
            raise ClusterError(403, "Forbidden")
        yield [], "10"

    async def watch(self, resource: Resource, version: str, timeout: float) -> AsyncGenerator[list[Json], None]:
        yield []
        await asyncio.sleep(timeout)


@pytest.mark.parametrize(("forbidden", "ready"), [(JOBSETS, True), (PODS, False), (NODES, False)], ids=str)
@virtual
async def test_a_kind_that_an_old_clusterrole_leaves_out_does_not_keep_the_rest_from_working(
    forbidden: Resource, ready: bool
) -> None:
    service = Live(Settings(), Forbidding(forbidden), VirtualClock(), random.Random(1))
    running = [asyncio.create_task(reflector.run(service.deliver)) for reflector in service.reflectors]
    await asyncio.sleep(50)
    found = service.metrics.readiness()
    assert (service.synced, service.ledger.snapshot.synced) == (ready, ready)
    assert any(f"may not read {forbidden}" in one for one in found.warnings) == ready
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@virtual
async def test_a_list_is_one_step_however_many_pages_it_has() -> None:
    service = live()
    before = service.ledger.snapshot.generation
    for name in ("a", "b"):
        service.deliver(WatchBatch(PODS, "page", [{"type": "ADDED", "object": pod(name, 15)}], "20"))
    assert service.ledger.snapshot.generation == before
    service.deliver(WatchBatch(PODS, "end", [], "20", frozenset({"uid-a", "uid-b"})))
    assert sorted(service.ledger.snapshot.pods) == ["uid-a", "uid-b"]
    assert service.ledger.snapshot.generation == before + 1


@virtual
async def test_the_lease_is_given_back_before_the_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Live(Settings(journal=JournalSettings(folder=str(tmp_path))), FakeApi(), VirtualClock(), random.Random(1))
    done: list[str] = []
    assert service.recorder is not None
    end = service.recorder.close

    async def release() -> None:
        done.append("lease")

    def close() -> None:
        done.append("journal")
        end()

    monkeypatch.setattr(service.lease, "release", release)
    monkeypatch.setattr(service.recorder, "close", close)
    await service.close()
    assert done == ["lease", "journal"]
