"""DRS, listing by listing: weighting, gang, main, scale-down, scale-up."""

import math
from dataclasses import replace

import pytest

from policy.answers.queue import places
from policy.cluster.actions import Admit, Resize
from policy.cluster.gang import State
from policy.cluster.training import Training, Utility
from policy.placement.grow import Where
from policy.systems.drs import Drs, Requirement, Victims, Worth
from tests.builders import START, JobBuilder, JobSeen, PodGone, PodSeen, World, guest, job, members, node, pod, w

# a job that takes 9 of 10 cores and has 3 workers above its minimum
WIDE = job("wide").ps().workers(1, 4, asked=4, cpu=2)


def admitted(world: World, *jobs: JobBuilder) -> list[str]:
    return [effect.job_uid for effect in world.submit(*jobs) if isinstance(effect, Admit)]


def test_weighting_more_utility_then_the_larger_requirement_then_the_earlier() -> None:
    world = World(Drs()).nodes("n1", "n2")
    late = job("late").workers(1, cpu=1).arrived(3)
    large = job("large").workers(3, cpu=1).arrived(2)
    first = job("first").workers(1, cpu=1)
    useful = job("useful").workers(1, cpu=1).with_(utility=2.0).arrived(4)
    assert admitted(world, first, late, large, useful) == ["job-useful", "job-large", "job-first", "job-late"]


def test_a_job_that_states_no_utility_has_its_priority_class() -> None:
    world = World(Drs()).nodes("n1", "n2")
    plain, stated, classed = (job(name).workers(1, cpu=1).with_(utility_stated=name == "stated") for name in
                              ("plain", "stated", "classed"))  # fmt: skip
    stated = stated.with_(utility=50.0)
    events = [JobSeen(one.done()) for one in (plain, stated, classed)]
    pods = [replace(p, priority=100) for p in members(classed.done())] + members(plain.done())
    pods += [replace(p, priority=1000) for p in members(stated.done())]
    effects = world.do(*events, *map(PodSeen, pods))
    assert [e.job_uid for e in effects if isinstance(e, Admit)] == ["job-classed", "job-stated", "job-plain"]


def test_people_see_the_waiting_jobs_by_utility() -> None:
    world = World(Drs()).nodes(node("n1", cpu=1))
    world.submit(job("first").workers(1, cpu=1), job("a").workers(1, cpu=1).arrived(1))
    world.submit(job("useful").workers(1, cpu=1).with_(utility=2.0).arrived(2))
    found = [(place.job.name, place.weight) for place in places(world.snapshot, world.policy, world.now)]
    assert found == [("useful", 2.0), ("a", 1.0)]


BY = {"the minimum": (Requirement.MINIMUM, "job-steady"), "what is asked for": (Requirement.ASKED, "job-eager")}


@pytest.mark.parametrize(("requirement", "first"), BY.values(), ids=BY.keys())
def test_weighting_which_requirement_counts(requirement: Requirement, first: str) -> None:
    world = World(Drs(requirement=requirement)).nodes("n1", "n2")
    steady, eager = job("steady").workers(2, cpu=1), job("eager").workers(1, 5, asked=5, cpu=1)
    assert admitted(world, steady, eager)[0] == first


def test_weighting_cpu_and_memory_count_as_shares_of_the_cluster() -> None:
    world = World(Drs()).nodes(node("n1", cpu=10, memory=100))
    cores, memory = job("cores").workers(1, cpu=5, memory=1), job("memory").workers(1, cpu=1, memory=20)
    assert admitted(world, memory, cores) == ["job-cores", "job-memory"]


def test_utility_by_oasis_falls_while_the_job_waits() -> None:
    policy = Drs(worth=Worth.SIGMOID, slot_seconds=60.0)
    curve = Training(epochs=1, chunks=2, batches=30, seconds=2.0, utility=Utility(10.0, 1.0, 3.0))
    of = job("a", training=curve).workers(1, 2).done()  # one worker needs 120 s, two need 60 s, which is one slot
    nobody = World(policy).snapshot
    assert policy.utility(nobody, of, START) == pytest.approx(10 / (1 + math.exp(1 - 3)))
    assert policy.utility(nobody, of, START + 120) == pytest.approx(10 / (1 + math.exp(3 - 3)))
    assert policy.utility(nobody, job("b").workers(1).done(), START) == 1.0


def test_utility_by_oasis_counts_the_exchange_of_gradients_as_oasis_does() -> None:
    policy = Drs(worth=Worth.SIGMOID, slot_seconds=60.0)
    # Each of 60 batches takes 1 s, and 2 s more to exchange 2 * 8 * 125 Mbit at 1 Gbit/s. So one worker needs 180 s,
    # two need 90 s.
    wire = Training(chunks=2, batches=30, seconds=1.0, gradient=125.0, worker_bandwidth=1.0)
    curve = Utility(10.0, 1.0, 3.0)
    of = job("a", training=replace(wire, utility=curve)).workers(1, 2).done()
    assert policy.utility(World(policy).snapshot, of, START) == pytest.approx(curve.at(1.5))


def test_gang_with_as_many_workers_as_fit_on_one_node_if_one_takes_them() -> None:
    world = World(Drs()).nodes(node("n1", cpu=5), node("n2", cpu=9))
    world.submit(job("a").ps().workers(1, 4, asked=4, cpu=2))
    assert set(world.plan("a").values()) == {"n2"}
    world.submit(job("b").ps().workers(1, 4, asked=4, cpu=2).arrived(1))
    assert (world.gang("b").workers, set(world.plan("b").values())) == (2, {"n1"})


def test_main_a_head_of_more_utility_than_all_that_runs_has_others_shrunk_at_once() -> None:
    world = World(Drs()).nodes("n1").start(WIDE)
    effects = world.submit(job("head").workers(1, cpu=2).with_(utility=2.0).arrived(1))
    assert Resize("job-wide", 3, on_behalf_of="job-head") in effects
    assert world.state("head") is State.PLANNED


def test_main_equal_utility_shrinks_nobody_and_stops_nobody() -> None:
    world = World(Drs()).nodes("n1").start(WIDE)
    world.submit(job("a").workers(1, cpu=2).arrived(1), job("small").workers(1, cpu=1).arrived(2))
    assert world.state("small") is State.PLANNED
    assert (world.state("a"), world.gang("wide").workers, world.reason("a")) == (State.WAITING, 4, "WaitingForRoom")


def test_main_a_head_that_fits_shrinks_nobody() -> None:
    world = World(Drs()).nodes("n1", "n2").start(WIDE)
    world.submit(job("head").workers(1, cpu=2).with_(utility=2.0).arrived(1))
    assert (world.state("head"), world.gang("wide").workers) == (State.PLANNED, 4)


def test_main_a_head_that_cannot_be_helped_stops_the_queue_and_the_scale_up() -> None:
    world = World(Drs()).nodes("n1", "n2").start(job("rigid").workers(1, cpu=9), job("b").workers(1, 4, asked=1, cpu=1))
    world.start(job("c").workers(1, cpu=4).arrived(1))
    grown = world.gang("b").workers
    world.submit(job("head").workers(1, cpu=8).with_(utility=2.0), job("small").workers(1, cpu=1).arrived(2))
    world.pass_time(100)
    assert (world.reason("head"), world.reason("small")) == ("WaitingForRoom", "BehindHeavierJob")
    assert world.gang("b").workers == grown


def test_main_whoever_fits_starts_where_nobody_has_more_utility_than_what_runs() -> None:
    world = World(Drs()).nodes("n1").start(WIDE.with_(utility=5.0))
    world.submit(job("large").workers(1, cpu=2).with_(utility=2.0), job("small").workers(1, cpu=1).arrived(1))
    assert (world.state("large"), world.state("small")) == (State.WAITING, State.PLANNED)


def test_scale_down_the_least_utility_first_then_the_latest_start() -> None:
    world = World(Drs()).nodes(node("n1", cpu=12))
    for name, utility in (("poor", 0.5), ("mid", 1.0), ("late", 0.5)):
        world.start(job(name).workers(1, 2, asked=2, cpu=2).with_(utility=utility).arrived(1))
        world.now += 1
    world.submit(job("head").workers(1, cpu=2).with_(utility=2.0).arrived(2))
    assert [world.gang(name).workers for name in ("poor", "mid", "late")] == [2, 2, 1]


def test_scale_down_nobody_below_its_minimum_and_nobody_at_all_if_that_does_not_suffice() -> None:
    world = World(Drs()).nodes("n1").start(WIDE)
    effects = world.submit(job("head").workers(1, cpu=8).with_(utility=2.0).arrived(1))
    assert (effects, world.gang("wide").workers) == ((), 4)


A, B = (job(name).workers(1, 9, asked=1, cpu=2) for name in ("a", "b"))


def test_scale_up_in_the_queues_order_each_to_its_maximum() -> None:
    world = World(Drs()).nodes(node("n1", cpu=14))
    world.submit(A, B.with_(utility=2.0))
    world.pass_time(1)
    assert (world.gang("a").workers, world.gang("b").workers) == (1, 6)


def test_scale_up_without_an_idle_threshold() -> None:
    world = World(Drs()).nodes("n1").start(A)
    world.pass_time(1)
    assert world.gang("a").workers == 5


WHERE = {"nodes on which it runs": (Where.HOSTS, 5), "the listing: any node": (Where.ANYWHERE, 7)}


@pytest.mark.parametrize(("where", "workers"), WHERE.values(), ids=WHERE.keys())
def test_scale_up_where(where: Where, workers: int) -> None:
    world = World(Drs(scale_up=where)).nodes("n1", node("n2", cpu=4)).start(A)
    world.pass_time(1)
    assert world.gang("a").workers == workers


def test_scale_up_in_turns() -> None:
    world = World(Drs(in_turns=True)).nodes(node("n1", cpu=14))
    world.submit(A, B)
    world.pass_time(1)
    assert (world.gang("a").workers, world.gang("b").workers) == (4, 3)
    greedy = World(Drs()).nodes(node("n1", cpu=14))
    greedy.submit(A, B)
    greedy.pass_time(1)
    assert (greedy.gang("a").workers, greedy.gang("b").workers) == (6, 1)


def test_scale_up_not_within_the_cool_down() -> None:
    world = World(Drs(cooldown=15.0)).nodes("n1", node("n2", cpu=8)).start(A)
    world.pass_time(1)
    world.operate(A)
    first = world.gang("a").workers
    world.see(node("n1", cpu=14))
    world.pass_time(10)
    assert world.gang("a").workers == first
    world.pass_time(6)
    assert world.gang("a").workers == first + 2


@pytest.mark.parametrize(("behind", "workers"), [(False, 1), (True, 2)])
def test_scale_up_behind_a_head_that_waits_only_as_the_listing_has_it(behind: bool, workers: int) -> None:
    world = World(Drs(behind_head=behind)).nodes(node("n1", cpu=6))
    world.submit(job("a").workers(1, 2, asked=1, cpu=2), job("rigid").workers(1, cpu=2))
    world.submit(job("head").workers(1, cpu=4).with_(utility=2.0).arrived(1))
    world.bind(job("a"))
    world.pass_time(world.snapshot.rules.plan_seconds - 1)
    assert (world.state("head"), world.gang("a").workers) == (State.WAITING, workers)


@pytest.mark.parametrize(("victims", "state"), [(Victims.LOWER, State.REPAIRING), (Victims.ALL, State.RUNNING)])
def test_scale_down_whose_workers_may_be_taken(victims: Victims, state: State) -> None:
    """Only a gang in repair can have less utility than a victim, because a head that shrinks others has the most
    utility.
    """
    world = World(Drs(victims=victims)).nodes("n1", "n2").start(WIDE.with_(utility=5.0))
    broken = job("broken").workers(2, cpu=4).arrived(1)
    world.start(broken)
    world.see(guest("g", "n2", cpu=2))
    world.do(PodGone("uid-broken-worker-1"))
    world.see(node("n2", unschedulable=True))
    world.do(PodSeen(world.fresh(pod("broken-worker-1", broken.done(), w(1)))))
    world.operate(WIDE)
    world.bind(broken)
    assert world.state("broken") is state
