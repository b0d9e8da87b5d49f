"""Metrics that a scrape computes from the ledger's snapshot: queue, room, network traffic and prices."""

from __future__ import annotations

from prometheus_client.core import Metric

from extender.observe.snapshotmetrics import RESOURCES, snapshot_metrics
from policy.cluster.events import UsageSeen
from policy.cluster.reasons import Reason
from policy.cluster.resources import Resources
from policy.cluster.training import Training, Utility
from policy.systems.kod2 import Kod2
from policy.systems.oasis import Oasis
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon
from tests.builders import GIB, World, guest, job, members, node


def read(world: World) -> dict[str, Metric]:
    return {family.name: family for family in snapshot_metrics(world.snapshot, world.policy, world.now)}


def value(world: World, name: str, suffix: str = "", **labels: str) -> float | None:
    found = (one for one in read(world)[name].samples if one.name == name + suffix)
    return next((one.value for one in found if labels.items() <= one.labels.items()), None)


def test_room_is_told_in_base_units_and_by_whose_it_is() -> None:
    world = World().nodes(node("n1"), node("n2"), node("gone", ready=False))
    world.see(guest("other", "n1", cpu=1, memory=2))
    world.submit(job("a").ps(1, cpu=1, memory=2).workers(2, cpu=2, memory=4))
    assert value(world, "kohort_allocatable", resource="cpu", unit="core") == 20
    assert value(world, "kohort_allocatable", resource="memory", unit="byte") == 64 * GIB
    assert value(world, "kohort_requested", resource="cpu", holder="kohort") == 5
    assert value(world, "kohort_requested", resource="cpu", holder="others") == 1
    assert value(world, "kohort_requested", resource="memory", holder="kohort") == 10 * GIB


def test_nodes_are_counted_by_their_use_and_fragments_are_what_is_left_on_used_ones() -> None:
    world = World().nodes("n1", "n2", "n3", "n4")
    world.see(guest("half", "n1", cpu=5), guest("full", "n2", cpu=10))
    buckets = {"0.0": 2, "0.25": 2, "0.5": 3, "0.9": 3, "1.0": 4, "+Inf": 4}
    for le, count in buckets.items():
        assert value(world, "kohort_node_utilisation_ratio", "_bucket", resource="cpu", le=le) == count
    assert value(world, "kohort_node_utilisation_ratio", "_gsum", resource="cpu") == 1.5
    assert value(world, "kohort_fragmentation_ratio", resource="cpu") == 5 / 25
    empty = World().nodes("n1")
    assert value(empty, "kohort_fragmentation_ratio", resource="cpu") == 0


def test_only_some_resources_of_the_nodes_are_told() -> None:
    given = {f"example.com/device-{number:02}": 1 for number in range(30)}
    world = World().nodes(node("n1", allocatable=node("n1").allocatable + Resources(given)))
    told = [sample.labels["resource"] for sample in read(world)["kohort_allocatable"].samples]
    assert len(told) == RESOURCES
    assert told[0] == "cpu"
    assert "pods" not in told


def test_waiting_jobs_are_counted_by_reason() -> None:
    world = World().nodes("n1")
    world.submit(job("wide").workers(9, cpu=2), job("also").workers(9, cpu=2))
    assert value(world, "kohort_queue_jobs", reason=Reason.TOO_LARGE.value) == 2
    reasons = {sample.labels["reason"] for sample in read(world)["kohort_queue_jobs"].samples}
    assert reasons == {reason.value for reason in Reason}, "one that nobody waits for is 0, not absent"


def test_members_of_running_gangs_that_have_no_node_are_counted() -> None:
    world = World().nodes(node("n1", cpu=2)).start(job("a").workers(1, cpu=1))
    assert value(world, "kohort_unplaced_members") == 0
    more = job("a").workers(4, cpu=1).with_(version=9).done()
    world.see(more)
    world.see(*(one for one in members(more) if one.uid not in world.snapshot.pods))
    assert value(world, "kohort_unplaced_members") == 2


def test_pairs_across_nodes_are_counted() -> None:
    world = World().nodes("n1", "n2")
    world.submit(job("near").ps(1).workers(2, cpu=2))
    assert (value(world, "kohort_ps_worker_pairs"), value(world, "kohort_cross_node_pairs")) == (2, 0)
    world.submit(job("far").ps(1, cpu=1).workers(4, cpu=3))
    assert value(world, "kohort_ps_worker_pairs") == 6
    nodes = world.snapshot.gang("job-far").nodes
    servers, workers = ([n for s, n in nodes.items() if s.role == role] for role in ("ps", "worker"))
    assert value(world, "kohort_cross_node_pairs") == sum(1 for n in workers if n != servers[0]) > 0


def test_only_a_policy_that_prices_room_has_prices() -> None:
    assert read(World(Kod2()).nodes("n1"))["kohort_price"].samples == []
    oasis = Oasis(slot_seconds=1000.0, horizon=10)
    for policy in (oasis, Rebalanced(oasis, SpeCon())):
        world = World(policy).nodes("n1")
        assert read(world)["kohort_price"].samples == [], "nobody has asked for anything yet"
        training = Training(epochs=2, chunks=4, seconds=1000.0, utility=Utility(100.0, 0.1, 20.0))
        world.submit(job("a", training=training).ps(1, cpu=1).workers(1, 4, asked=1, cpu=2))
        idle = value(world, "kohort_price", resource="cpu", unit="core")
        assert idle is not None
        assert idle > 0
        world.submit(job("b", training=training).ps(1, cpu=1).workers(1, 4, asked=1, cpu=2))
        busy = value(world, "kohort_price", resource="cpu", unit="core")
        assert busy is not None
        assert busy >= idle


def test_measured_use_is_told_of_the_nodes_that_are_measured_alone() -> None:
    world = World().nodes("n1", "n2", "n3")
    assert value(world, "kohort_node_used_ratio", "_bucket", resource="cpu", le="+Inf") == 0
    world.do(
        UsageSeen({"n1": Resources({"cpu": 5000}), "n2": Resources({"memory": GIB}), "gone": Resources({"cpu": 1})})
    )
    assert value(world, "kohort_node_used_ratio", "_bucket", resource="cpu", le="+Inf") == 1
    assert value(world, "kohort_node_used_ratio", "_gsum", resource="cpu") == 0.5
    assert value(world, "kohort_node_utilisation_ratio", "_gsum", resource="cpu") == 0
