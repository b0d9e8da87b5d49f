"""Where a gang goes: one node by best fit, else the fewest nodes, the ps with most of its workers, never in part."""

from dataclasses import replace

import pytest

from policy.cluster.constraints import Constraints, Requirement, Term, Toleration
from policy.cluster.events import PodGone
from policy.cluster.gang import State
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.resources import Resources, largest_share
from policy.cluster.snapshot import Snapshot
from policy.placement.fit import accepts
from policy.placement.gang import ask_of, cross_node_pairs, place
from policy.placement.room import Room
from policy.placement.spread import Order, spread
from policy.systems import SYSTEMS, make_policy
from tests.builders import GIB, JobBuilder, World, job, members, node, ps, res, slots, taint, w


def placed(of: JobBuilder, workers: int, *nodes: Node) -> dict[str, str] | None:
    snapshot = Snapshot(nodes={n.name: n for n in nodes})
    found = place(Room.of(snapshot), ask_of(snapshot, of.done(), workers))
    return slots(found) if found is not None else None


SMALL = job("a").ps(cpu=1).workers(1, 9, cpu=2).with_(elastic=False)
PLACES = {
    "one node takes all: the tightest that does": (
        SMALL, 2, [node("big"), node("tight", cpu=5), node("narrow", cpu=4)],
        {"ps-0": "tight", "worker-0": "tight", "worker-1": "tight"},
    ),
    "an elastic gang: the node on which most of its later workers would fit": (
        SMALL.with_(elastic=True), 2, [node("big"), node("tight", cpu=5)],
        {"ps-0": "big", "worker-0": "big", "worker-1": "big"},
    ),
    "equal nodes: the first by name": (SMALL, 1, [node("n2"), node("n1")], {"ps-0": "n1", "worker-0": "n1"}),
    "no single node: as few as possible, the ps with most of its workers": (
        SMALL, 6, [node("n1", cpu=5), node("n2", cpu=9), node("n3", cpu=5)],
        {"ps-0": "n2", **{f"worker-{i}": "n2" for i in range(4)}, "worker-4": "n1", "worker-5": "n1"},
    ),
    "the last node is the tightest that suffices": (
        SMALL, 5, [node("n1", cpu=9), node("n2", cpu=8), node("n3", cpu=2)],
        {"ps-0": "n1", **{f"worker-{i}": "n1" for i in range(4)}, "worker-4": "n3"},
    ),
    "shrink-aware: the highest indices sit off the ps's node": (
        SMALL, 4, [node("n1", cpu=5), node("n2", cpu=4)],
        {"ps-0": "n1", "worker-0": "n1", "worker-1": "n1", "worker-2": "n2", "worker-3": "n2"},
    ),
    "never in part": (SMALL, 6, [node("n1", cpu=5), node("n2", cpu=6)], None),
    "the sum would fit, the members do not": (SMALL, 2, [node(f"n{i}", cpu=1.5) for i in range(4)], None),
    "chief, master and evaluator are members like any other": (
        job("b").role("chief", 1).role("evaluator", 1).workers(1, cpu=2), 1, [node("n1", cpu=4), node("n2", cpu=3)],
        {"chief-0": "n1", "evaluator-0": "n1", "worker-0": "n1"},
    ),
    "rigid members that find no room on the first node go to the idlest": (
        job("b").ps(2, cpu=4).workers(1, cpu=1), 1, [node("n1", cpu=5), node("n2", cpu=6)],
        {"ps-0": "n1", "ps-1": "n2", "worker-0": "n1"},
    ),
    "a cordoned or unready node takes nobody": (
        SMALL, 1, [node("n1", unschedulable=True), node("n2", ready=False), node("n3")],
        {"ps-0": "n3", "worker-0": "n3"},
    ),
    "workers only": (job("b").workers(2), 2, [node("n1")], {"worker-0": "n1", "worker-1": "n1"}),
    "chief only": (job("b").role("chief", 1), 0, [node("n1")], {"chief-0": "n1"}),
    "a host port once per node": (
        job("b").workers(2, **{"hostport/TCP/80": 1}), 2, [node("n1"), node("n2")],
        {"worker-0": "n1", "worker-1": "n2"},
    ),
    "memory counts as cpu does": (job("b").workers(1, memory=40), 1, [node("n1")], None),
}  # fmt: skip


@pytest.mark.parametrize(("of", "workers", "nodes", "want"), PLACES.values(), ids=PLACES.keys())
def test_place(of: JobBuilder, workers: int, nodes: list[Node], want: dict[str, str] | None) -> None:
    assert placed(of, workers, *nodes) == want


def test_place_leaves_the_room_as_it_was() -> None:
    snapshot = Snapshot(nodes={"n1": node("n1")})
    room = Room.of(snapshot)
    place(room, ask_of(snapshot, SMALL.done(), 2))
    assert room.free("n1") == node("n1").allocatable


def test_spread_takes_the_idlest_node_at_each_turn() -> None:
    snapshot = Snapshot(nodes={n: node(n) for n in ("n1", "n2", "n3")})
    found = spread(Room.of(snapshot), ask_of(snapshot, SMALL.done(), 3))
    assert found is not None
    assert slots(found) == {"ps-0": "n1", "worker-0": "n2", "worker-1": "n3", "worker-2": "n1"}
    assert spread(Room.of(snapshot), ask_of(snapshot, SMALL.done(), 16)) is None


@pytest.mark.parametrize(
    ("order", "where"), [(Order.APART, ["n1", "n2"]), (Order.LEAST, ["n1", "n1"]), (Order.CHANCE, ["n1", "n1"])]
)
def test_spread_looks_at_as_much_as_it_is_told(order: Order, where: list[str]) -> None:
    snapshot = Snapshot(nodes={"n1": node("n1"), "n2": node("n2")})
    room = Room.of(snapshot)
    room.take("n2", res(cpu=6))
    ask = ask_of(snapshot, job("b").workers(2, cpu=2, memory=2).done(), 2)
    assert list((spread(room, ask, order=order) or {}).values()) == where


def test_spread_by_chance_is_the_draws_alone() -> None:
    """The random draw takes a full node as often as an empty one, and may put members of a gang together."""
    snapshot = Snapshot(nodes={"n1": node("n1"), "n2": node("n2")})
    room = Room.of(snapshot)
    room.take("n2", res(cpu=6))
    ask = ask_of(snapshot, job("b").workers(2, cpu=2, memory=2).done(), 2)
    found = [spread(room, ask, str(seed), Order.CHANCE) or {} for seed in range(1, 30)]
    assert {tuple(nodes.values()) for nodes in found} == {(a, b) for a in ("n1", "n2") for b in ("n1", "n2")}


def test_cross_node_pairs_counts_what_crosses_the_network() -> None:
    assert cross_node_pairs({ps(0): "a", ps(1): "b", w(0): "a", w(1): "c"}) == 3


def labelled(operator: str, *values: str) -> Constraints:
    return Constraints(terms=(Term((Requirement("disk", operator, values),), ()),))


SSD = node("n1", labels={"disk": "ssd", "size": "7"})
FITS = {
    "anywhere": (SSD, Constraints(), True),
    "selector that holds": (SSD, Constraints((("disk", "ssd"),)), True),
    "selector that does not": (SSD, Constraints((("disk", "hdd"),)), False),
    "In": (SSD, labelled("In", "hdd", "ssd"), True),
    "In, not among them": (SSD, labelled("In", "hdd"), False),
    "NotIn": (SSD, labelled("NotIn", "hdd"), True),
    "NotIn holds without the label": (node("n1"), labelled("NotIn", "hdd"), True),
    "Exists": (SSD, labelled("Exists"), True),
    "DoesNotExist": (SSD, labelled("DoesNotExist"), False),
    "Gt": (SSD, Constraints(terms=(Term((Requirement("size", "Gt", ("6",)),), ()),)), True),
    "Lt is strict": (SSD, Constraints(terms=(Term((Requirement("size", "Lt", ("7",)),), ()),)), False),
    **{
        f"Gt of a label that Go does not read as a number: {value}": (
            node("n1", labels={"size": value}), Constraints(terms=(Term((Requirement("size", "Gt", ("0",)),), ()),)),
            False,
        )
        for value in ("1_0", "1e1", "0x7", "\u0661", " 7", "9223372036854775808", "7" * 5000)
    },
    "Gt of a label with leading zeros": (
        node("n1", labels={"size": "007"}), Constraints(terms=(Term((Requirement("size", "Gt", ("6",)),), ()),)), True,
    ),
    "Gt of no number": (SSD, labelled("Gt", "6"), False),
    "an unknown operator never holds": (SSD, labelled("Near", "ssd"), False),
    "by the node's name": (SSD, Constraints(terms=(Term((), (Requirement("metadata.name", "In", ("n1",)),)),)), True),
    "an empty term matches nothing": (SSD, Constraints(terms=(Term((), ()),)), False),
    "one of two terms is enough": (SSD, Constraints(terms=(Term((), ()), *labelled("Exists").terms)), True),
    "a taint": (node("n1", taints=(taint("gpu"),)), Constraints(), False),
    "a preference is no bar": (node("n1", taints=(taint("gpu", "", "PreferNoSchedule"),)), Constraints(), True),
    "a toleration for all": (
        node("n1", taints=(taint("gpu"),)), Constraints(tolerations=(Toleration("", "Exists", "", ""),)), True,
    ),
    "a toleration of another value": (
        node("n1", taints=(taint("gpu", "a"),)), Constraints(tolerations=(Toleration("gpu", "Equal", "b", ""),)), False,
    ),
    "a toleration of another effect": (
        node("n1", taints=(taint("gpu", "a"),)),
        Constraints(tolerations=(Toleration("gpu", "Equal", "a", "NoExecute"),)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("where", "constraints", "want"), FITS.values(), ids=FITS.keys())
def test_accepts(where: Node, constraints: Constraints, want: bool) -> None:
    assert accepts(where, constraints) is want


def test_resources_are_exact_and_order_free() -> None:
    assert res(1, 2) + res(2) - res(3) == Resources({"memory": 2 * GIB})
    assert hash(Resources({"cpu": 1, "gpu": 0})) == hash(Resources({"cpu": 1}))
    assert res(1).times(3) == res(3)


SIZES = {
    "what is not asked for is not compared": (res(1), Resources({"cpu": 1000, "memory": -5}), 1),
    "exactly": (res(2), res(4), 2),
    "an over-charged node": (res(1), res(-1), 0),
    "a request of nothing": (Resources(), res(4), 0),
    "a free host port": (res(1, **{"hostport/TCP/80": 1}), res(9), 1),
    "a taken host port": (res(1, **{"hostport/TCP/80": 1}), res(9, **{"hostport/TCP/80": -1}), 0),
}


@pytest.mark.parametrize(("wanted", "free", "count"), SIZES.values(), ids=SIZES.keys())
def test_how_many_and_fits_agree(wanted: Resources, free: Resources, count: int) -> None:
    assert wanted.how_many(free) == count
    assert wanted.fits(free) is (count > 0 or not wanted)


PORT = "hostport/TCP/80"
TOGETHER = {
    "what is free and what is freed are added up": (res(3), res(1), res(2), True),
    "and are too little": (res(4), res(1), res(2), False),
    "a free host port": (res(1, **{PORT: 1}), res(9), res(), True),
    "a taken host port": (res(1, **{PORT: 1}), res(9, **{PORT: -1}), res(), False),
    "a taken host port that is freed": (res(1, **{PORT: 1}), res(0, **{PORT: -1}), res(1, **{PORT: 1}), True),
}


@pytest.mark.parametrize(("wanted", "free", "freed", "want"), TOGETHER.values(), ids=TOGETHER.keys())
def test_fits_both_is_to_fit_their_sum(wanted: Resources, free: Resources, freed: Resources, want: bool) -> None:
    assert wanted.fits_both(free, freed) is wanted.fits(free + freed) is want


SHARES = {
    "the largest counts": ({"cpu": 1, "memory": 3}, {"cpu": 4, "memory": 4}, 0.75),
    "of what there is none of there is no share": ({"cpu": 1, "gpu": 2}, {"cpu": 4, "gpu": 0}, 0.25),
    "of nothing known": ({"gpu": 1}, {"cpu": 4}, 0.0),
    "nothing is a share of 0": ({}, {"cpu": 4}, 0.0),
}


@pytest.mark.parametrize(("part", "whole", "want"), SHARES.values(), ids=SHARES.keys())
def test_the_largest_share(part: dict[str, int], whole: dict[str, int], want: float) -> None:
    assert largest_share(part, whole) == want


def test_shortfall_names_only_what_is_missing() -> None:
    assert res(4, 2).shortfall(res(1, 8)) == res(3)


@pytest.mark.parametrize("policy", sorted(SYSTEMS.keys() - {"oasis", "fifo-pod", "guests"}))
@pytest.mark.parametrize("gone", [False, True], ids=["succeeded", "over"])
def test_of_a_gang_with_members_that_are_done_the_others_are_placed(policy: str, gone: bool) -> None:
    """Two of an Indexed Job's four workers have succeeded; the node has room for the two others, but not for four."""
    world = World(make_policy(policy)).nodes(node("n1", cpu=5))
    four = job("a").workers(4, 4, cpu=2).with_(kind="Job", over=(w(0), w(1)) if gone else ()).done()
    done = [replace(pod, node="n1", phase=Phase.SUCCEEDED) for pod in members(four)[:2] if not gone]
    world.see(four, *done, *members(four)[2:])
    assert world.plan("a") == {"worker-2": "n1", "worker-3": "n1"}
    assert world.gang("a").workers == 4
    for pod in members(four)[2:]:
        world.hold(pod.uid)
    assert world.state("a") is State.BINDING


def test_a_member_that_is_lost_is_repaired_whoever_is_done() -> None:
    world = World().nodes(node("n1", cpu=9), node("n2", cpu=9)).start(four := job("a").workers(4, 4, cpu=2))
    first, second = (world.pod(f"a-worker-{index}") for index in (0, 1))
    world.see(replace(first, phase=Phase.SUCCEEDED, version=first.version + 1))
    world.do(PodGone(second.uid))
    world.see(world.fresh(members(four.done())[1]))
    world.operate(four)
    assert world.state("a") is State.RUNNING
    again = world.snapshot.member("job-a", w(1))
    assert again is not None
    assert again.node
