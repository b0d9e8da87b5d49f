"""How the service takes in what its watches bring."""

import random
from typing import Any

from extender.app import Live, resources
from extender.config.settings import Settings
from extender.kube.api import PODS
from extender.kube.reflector import Batch
from tests.stage import FakeApi, LoopClock, virtual


def pod(name: str, version: int) -> dict[str, Any]:
    meta = {"uid": f"uid-{name}", "namespace": "default", "name": name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"schedulerName": "kohort"}}


def live() -> Live:
    made = Live(Settings(), FakeApi(), LoopClock(), random.Random(1))
    for reflector in made.reflectors:
        reflector.synced = True
    for resource in resources():
        made.deliver(Batch(resource, "replace", [], "10"))
    return made


@virtual
async def test_a_list_does_not_end_a_pod_that_was_created_while_it_was_on_its_way() -> None:
    service = live()
    for item in (pod("old", 12), pod("new", 30)):  # as filter calls showed them
        service.ledger.step(*service.translator.pod_events(item))
    service.deliver(Batch(PODS, "replace", [], "20"))
    assert sorted(service.ledger.snapshot.pods) == ["uid-new"]
    service.deliver(Batch(PODS, "changes", [{"type": "ADDED", "object": pod("new", 30)}], "30"))
    service.ledger.step()
    assert sorted(service.ledger.snapshot.pods) == ["uid-new"]
