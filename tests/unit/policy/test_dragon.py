"""DRAGON, box by box of Figure 5: urgent jobs, victims, AFCFS, scale-up."""

import random

import pytest

from policy.cluster.actions import Resize
from policy.cluster.events import Reported
from policy.cluster.gang import State
from policy.cluster.training import Report, remaining_seconds
from policy.placement.gang import worker_demand
from policy.placement.grow import Where
from policy.placement.shrink import NOBODY, Reclaimable
from policy.systems.dragon import Dragon, DragonCycle
from policy.systems.dragonchoices import Idle, Sizes, Urgent, Victims
from tests.builders import START, JobBuilder, World, guest, job, node

# a job that takes 9 of 10 cores and has 3 workers above its minimum
WIDE = job("wide").ps().workers(1, 4, asked=4, cpu=2)
NEVER = 1e9


def full() -> World:
    """Fill 9 of the 10 cores of a node with the job WIDE."""
    return World(Dragon()).nodes("n1").start(WIDE)


def test_1_a_job_that_waits_within_the_threshold_shrinks_nobody() -> None:
    world = full()
    world.submit(job("a").workers(1, cpu=2))
    world.pass_time(120)
    assert (world.state("a"), world.gang("wide").workers) == (State.WAITING, 4)
    assert world.reason("a") == "WaitingForRoom"


def test_1_a_job_that_has_waited_longer_is_urgent_and_gets_the_fewest_workers_of_others() -> None:
    world = full()
    world.submit(job("a").workers(1, cpu=2))
    effects = world.pass_time(121)
    assert Resize("job-wide", 3, on_behalf_of="job-a") in effects
    assert world.state("a") is State.PLANNED
    assert set(world.gang("a").waits_for) == {"uid-wide-worker-3"}


def test_1_the_smallest_urgent_job_comes_first_whoever_came_first() -> None:
    world = full()
    world.submit(job("large").workers(3, cpu=2), job("small").workers(2, cpu=2).arrived(1))
    world.pass_time(122)
    assert (world.state("small"), world.state("large")) == (State.PLANNED, State.WAITING)


SMALLEST = {
    "by its whole requirement": (Urgent.RESOURCES, "few-large", State.WAITING),
    "by workers alone, as in the code": (Urgent.WORKERS, "few-large", State.PLANNED),
    "nobody, the first to come": (Urgent.ARRIVAL, "few-large", State.PLANNED),
    "nobody, not the last to come": (Urgent.ARRIVAL, "many-small", State.WAITING),
}


@pytest.mark.parametrize(("smallest", "name", "state"), SMALLEST.values(), ids=SMALLEST.keys())
def test_1_what_the_smallest_is(smallest: Urgent, name: str, state: State) -> None:
    world = World(Dragon(smallest=smallest)).nodes("n1").start(WIDE)
    world.submit(job("few-large").workers(1, cpu=6), job("many-small").workers(2, cpu=1))
    world.pass_time(121)
    assert world.state(name) is state


def test_1_who_came_first_may_be_the_smallest_whatever_its_size() -> None:
    world = World(Dragon(smallest=Urgent.ARRIVAL)).nodes("n1").start(WIDE)
    world.submit(job("many").workers(2, cpu=2), job("few").workers(1, cpu=6).arrived(1))
    world.pass_time(122)
    assert (world.state("many"), world.state("few")) == (State.PLANNED, State.WAITING)


def test_1_if_the_smallest_cannot_be_helped_nobody_is_shrunk_for_a_larger_one() -> None:
    world = World(Dragon(smallest=Urgent.WORKERS)).nodes("n1", "n2").start(WIDE)
    world.start(job("rigid").workers(1, cpu=9).arrived(1))
    world.submit(job("few").workers(1, cpu=8), job("many").workers(2, cpu=2))
    world.pass_time(121)
    assert (world.state("few"), world.state("many"), world.gang("wide").workers) == (State.WAITING, State.WAITING, 4)


def test_2_an_urgent_job_that_fits_shrinks_nobody() -> None:
    world = full()
    world.submit(job("a").workers(1, cpu=2))
    world.now += 121
    world.see(node("n2"))
    assert (world.plan("a"), world.gang("wide").workers) == ({"worker-0": "n2"}, 4)


SURPLUS = {
    "enough, as ours": (False, 3, 0, True),
    "no more than enough, as in the code": (True, 3, 0, False),
    "more than enough, as in the code": (True, 2, 0, True),
    "what is idle does not count in the code": (True, 3, 1, False),
}


@pytest.mark.parametrize(("strict", "minimum", "idle", "starts"), SURPLUS.values(), ids=SURPLUS.keys())
def test_2_how_much_surplus_there_must_be(strict: bool, minimum: int, idle: int, starts: bool) -> None:
    world = World(Dragon(strict_surplus=strict)).nodes(node("n1", cpu=9 + 2 * idle)).start(WIDE)
    world.submit(job("u").workers(minimum + idle, cpu=2))
    world.pass_time(121)
    assert world.state("u") is (State.PLANNED if starts else State.WAITING)
    assert world.gang("wide").workers == (4 - minimum if starts else 4)


def two_hosts(victims: Victims) -> World:
    """Fill node n1 with a job of 3 workers above its minimum and n2 with one of 2; each worker has 2 cores."""
    world = World(Dragon(victims=victims)).nodes(node("n1", cpu=8), node("n2", cpu=6))
    world.start(job("two").workers(1, 3, asked=3, cpu=2))
    world.now += 1
    world.start(job("three").workers(1, 4, asked=4, cpu=2).arrived(1))
    assert {*world.plan("two").values()} | {*world.plan("three").values()} == {"n1", "n2"}
    return world


TAKEN = {
    "node-aware: all from one node": (Victims.NODE_AWARE, 1),
    "largest surplus: wherever that is": (Victims.SURPLUS, 2),
    "queue: in the order of starts": (Victims.QUEUE, 1),
}


@pytest.mark.parametrize(("victims", "nodes"), TAKEN.values(), ids=TAKEN.keys())
def test_3_whose_workers_are_taken(victims: Victims, nodes: int) -> None:
    world = two_hosts(victims)
    world.submit(job("u").workers(2, cpu=2).arrived(2))
    world.pass_time(130)
    assert len(set(world.plan("u").values())) == nodes


def test_3_the_largest_surplus_gives_first_then_whose_is_the_largest_then() -> None:
    world = World(Dragon()).nodes(node("n1", cpu=14))
    world.start(job("two").workers(1, 3, asked=3, cpu=2), job("three").workers(1, 4, asked=4, cpu=2).arrived(1))
    world.submit(job("u").workers(3, cpu=2).arrived(2))
    world.pass_time(130)
    assert (world.gang("three").workers, world.gang("two").workers) == (2, 2)


@pytest.mark.parametrize("seed", range(40))
def test_3_all_turns_at_once_are_those_of_choosing_one_after_the_other(seed: int) -> None:
    draw = random.Random(seed)
    world = World(Dragon()).nodes(node("n1", cpu=1000, memory=1000))
    for number in range(draw.randint(1, 8)):
        most = draw.randint(2, 6)
        world.start(job(f"j{number}").workers(1, most, asked=most, cpu=draw.choice((1, 1, 2, 3))))
    turning = DragonCycle(Dragon(), world.snapshot, world.now)
    victims = [Reclaimable.of(NOBODY, ()), *turning.reclaimable(turning.yielding())]
    left = {index: len(victim.rooms) for index, victim in enumerate(victims) if victim.job_uid != NOBODY}
    expected = [0]

    def surplus(index: int) -> tuple[float, int]:
        demand = worker_demand(world.snapshot, world.snapshot.jobs[victims[index].job_uid])
        return left[index] * demand.dominant_share(world.snapshot.nodes["n1"].allocatable), -index

    while any(left.values()):
        most = max(left, key=surplus)
        left[most] -= 1
        expected.append(most)
    assert len(expected) > 1
    assert turning.largest_surplus(victims) == expected


def test_3_nobody_goes_below_its_minimum_and_no_ps_goes() -> None:
    world = full()
    world.submit(job("a").workers(1, cpu=8))
    world.pass_time(500)
    assert (world.state("a"), world.plan("wide")["ps-0"], world.gang("wide").workers) == (State.WAITING, "n1", 4)


def test_3_what_is_left_of_the_freed_room_is_nobodys_before_it_is_free() -> None:
    world = World(Dragon()).nodes(node("n1", cpu=10)).start(job("big").workers(1, 2, asked=2, cpu=5))
    world.submit(job("u").workers(1, cpu=3, memory=1).arrived(1))
    world.now += 120
    world.submit(job("tiny").workers(1, cpu=1, memory=1).arrived(121))
    world.pass_time(2)
    assert (world.state("u"), world.state("tiny")) == (State.PLANNED, State.WAITING)
    assert world.over() == []


def test_4_afcfs_the_first_that_fits_passes_one_that_does_not() -> None:
    world = full()
    world.submit(job("large").workers(1, cpu=2), job("small").workers(1, cpu=1).arrived(1))
    assert (world.state("large"), world.state("small")) == (State.WAITING, State.PLANNED)


STARTS = {
    "as many as fit": (Sizes.MOST, 3),
    "the minimum if not as asked": (Sizes.ASKED_OR_LEAST, 2),
    "as asked or not at all": (Sizes.ASKED, 0),
}


@pytest.mark.parametrize(("sizes", "workers"), STARTS.values(), ids=STARTS.keys())
def test_4_with_how_many_workers_a_job_starts(sizes: Sizes, workers: int) -> None:
    world = World(Dragon(sizes=sizes)).nodes(node("n1", cpu=6))
    world.submit(job("a").workers(2, 5, asked=4, cpu=2))
    assert world.gang("a").workers == workers


def small_one(policy: Dragon, *others: JobBuilder) -> World:
    """Start an elastic job of 1 to 4 workers with one worker; there is room for all four."""
    return World(policy).nodes("n1", "n2").start(job("a").ps().workers(1, 4, asked=1, cpu=2), *others)


def test_5_room_that_is_idle_for_longer_than_the_threshold_is_used() -> None:
    world = small_one(Dragon())
    world.pass_time(60)
    assert world.gang("a").workers == 1
    world.pass_time(1)
    assert world.gang("a").workers == 4


def test_5_one_worker_in_turn_in_the_order_of_starts() -> None:
    world = World(Dragon()).nodes(node("n1", cpu=10))
    world.start(job("a").workers(1, 9, asked=1, cpu=2), job("b").workers(1, 9, asked=1, cpu=2).arrived(1))
    world.pass_time(61)
    assert (world.gang("a").workers, world.gang("b").workers) == (3, 2)


def test_5_each_to_its_maximum_where_turns_are_off() -> None:
    world = World(Dragon(in_turns=False)).nodes(node("n1", cpu=10))
    world.start(job("a").workers(1, 9, asked=1, cpu=2), job("b").workers(1, 9, asked=1, cpu=2).arrived(1))
    world.pass_time(61)
    assert (world.gang("a").workers, world.gang("b").workers) == (4, 1)


WHERE = {"nodes on which it runs": (Where.HOSTS, 4), "any node, as in the code": (Where.ANYWHERE, 8)}


@pytest.mark.parametrize(("where", "workers"), WHERE.values(), ids=WHERE.keys())
def test_5_where_a_job_grows(where: Where, workers: int) -> None:
    world = World(Dragon(scale_up=where)).nodes(node("n1", cpu=8), node("n2", cpu=8))
    world.start(job("a").workers(1, 9, asked=1, cpu=2))
    world.pass_time(61)
    assert world.gang("a").workers == workers


def test_5_nobody_grows_while_an_urgent_job_waits() -> None:
    world = small_one(Dragon(), job("b").workers(1, cpu=9).arrived(1))
    world.submit(job("u").workers(1, cpu=9).arrived(2))
    world.pass_time(130)
    assert (world.state("u"), world.gang("a").workers) == (State.WAITING, 1)


def test_5_idle_room_is_used_beside_an_urgent_job_that_nobody_can_help_where_it_may_be() -> None:
    world = small_one(Dragon(behind_urgent=True), job("b").workers(1, cpu=9).arrived(1))
    world.submit(job("u").workers(1, cpu=9).arrived(2))
    world.pass_time(130)
    assert (world.state("u"), world.gang("a").workers) == (State.WAITING, 4)


def test_5_no_job_is_restarted_that_is_done_in_less_than_two_restarts() -> None:
    world = small_one(Dragon(restart_seconds=50.0))
    world.now += 60
    # By these reports the job has 80 s left at second 60, which is less than two restarts of 50 s.
    for at, done in ((50, 0.1), (60, 0.2)):
        world.do(Reported("job-a", Report(START + at, done=done)))
    world.pass_time(1)
    assert world.gang("a").workers == 1


def test_5_by_node_only_room_that_has_been_the_same_for_long_is_given_away() -> None:
    world = small_one(Dragon(idle=Idle.NODE))
    world.pass_time(50)
    world.see(guest("g", "n1", cpu=1))
    world.pass_time(50)
    assert world.gang("a").workers == 1
    world.pass_time(11)
    assert world.gang("a").workers == 4


def test_without_urgency_and_idleness_nobody_is_scaled() -> None:
    world = World(Dragon(urgent_threshold=NEVER, idle_threshold=NEVER)).nodes("n1").start(WIDE)
    world.submit(job("a").workers(1, cpu=2))
    for _ in range(20):
        world.pass_time(100)
    assert (world.gang("wide").workers, world.state("a")) == (4, State.WAITING)


TOLD = {
    "one report tells no pace": ([(0, 0.1)], 10, None),
    "no progress tells none": ([(0, 0.1), (10, 0.1)], 10, None),
    "the last two count": ([(0, 0.0), (10, 0.5), (20, 0.6)], 20, 40.0),
    "time has passed since": ([(0, 0.0), (10, 0.5)], 15, 5.0),
    "never below nothing": ([(0, 0.0), (10, 0.5)], 99, 0.0),
}


@pytest.mark.parametrize(("told", "now", "left"), TOLD.values(), ids=TOLD.keys())
def test_remaining_seconds(told: list[tuple[float, float]], now: float, left: float | None) -> None:
    found = remaining_seconds([Report(at, done=done) for at, done in told], now)
    assert found == (pytest.approx(left) if left is not None else None)
