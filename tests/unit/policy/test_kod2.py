"""KOD2: weights worked by hand, Algorithms 1 to 3, starvation, and what is freed for whom."""

from dataclasses import replace

import pytest

from policy.cluster.actions import Admit, Resize
from policy.cluster.gang import State
from policy.cluster.node import Node
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.placement.grow import Where
from policy.systems.kod2 import Gate, Kod2, WeightMode
from tests.builders import START, JobBuilder, JobGone, NodeNotOffered, PodGone, RefuseBind, World, guest, job, node, res

ONE_NODE = Snapshot(nodes={"n1": node("n1", cpu=10, memory=32)})
WEIGHTS = {
    "the spec's example: 1 core of 10, 2 GiB of 32": (job("a").workers(1, cpu=1, memory=2), 1 / (0.1 + 0.0625)),
    "twice the minimum, twice the weight": (job("a").workers(2, cpu=1, memory=2), 2 / (0.1 + 0.0625)),
    "half the core and memory, twice the weight": (job("a").workers(1, cpu=0.5, memory=1), 2 / (0.1 + 0.0625)),
    "the ps does not count": (job("a").ps(3, cpu=9).workers(1, cpu=1, memory=2), 1 / (0.1 + 0.0625)),
    "utility multiplies": (job("a", utility=2.0).workers(1, cpu=1, memory=2), 2 / (0.1 + 0.0625)),
    "a request of nothing is clamped": (job("a").workers(1, cpu=0, memory=0), 1e6),
    "no worker role: the whole job": (job("a").role("chief", 1, cpu=1, memory=2), 1 / (0.1 + 0.0625)),
}


GPU = "nvidia.com/gpu"


def with_gpus(name: str, gpus: int) -> Node:
    return node(name, allocatable=res(10, 32, pods=110, **{GPU: gpus}))


@pytest.mark.parametrize(("of", "want"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_raw_weight(of: JobBuilder, want: float) -> None:
    assert Kod2().weights(ONE_NODE)(of.done()) == pytest.approx(want)


def test_the_published_weight_is_the_sigmoid() -> None:
    weight = Kod2().weights(ONE_NODE)(job("a").workers(1, cpu=1, memory=2).done())
    assert Kod2().published(weight) == pytest.approx(0.99788, abs=1e-5)


def test_small_first_favours_the_smaller_gang() -> None:
    policy = Kod2(weight_mode=WeightMode.SMALL_FIRST)
    small, large = (policy.weights(ONE_NODE)(job("a").workers(m).done()) for m in (1, 2))
    assert small == pytest.approx(2 * large)


def test_gpus_count_in_the_weight_only_where_they_are_asked_to() -> None:
    snapshot = Snapshot(nodes={"n1": with_gpus("n1", 4), "n2": with_gpus("n2", 8)})
    of = job("a").workers(1, cpu=1, memory=2, **{GPU: 2}).done()
    plain, weighed = (Kod2(weigh_gpus=gpus).weights(snapshot)(of) for gpus in (False, True))
    assert plain == pytest.approx(1 / (0.1 + 0.0625))
    assert weighed == pytest.approx(1 / (0.1 + 0.0625 + 2 / 8))
    # no node of this cluster has GPUs, so the job can run nowhere, and its GPUs have no weight
    assert Kod2(weigh_gpus=True).weights(ONE_NODE)(of) == plain


def test_utility_counts_in_the_weight_unless_it_is_told_not_to() -> None:
    of = job("a").workers(2, cpu=1, memory=2).with_(utility=3.0).done()
    weighed, plain = (Kod2(weigh_utility=counts).weights(ONE_NODE)(of) for counts in (True, False))
    assert weighed == pytest.approx(3 * plain)
    small = Kod2(weigh_utility=False, weight_mode=WeightMode.SMALL_FIRST).weights(ONE_NODE)(of)
    assert small == pytest.approx(plain / 4)


@pytest.mark.parametrize(("weigh_gpus", "first"), [(False, "many"), (True, "few")])
def test_a_job_with_many_gpus_goes_behind_one_with_few_where_they_count(weigh_gpus: bool, first: str) -> None:
    world = World(Kod2(weigh_gpus=weigh_gpus)).nodes(with_gpus("n1", 8))
    world.start(runs := job("runs").workers(1, cpu=9))
    # without its GPUs this job is a little lighter than the other one
    few = job("few").workers(1, cpu=8, memory=3, **{GPU: 1})
    world.submit(few.arrived(1), job("many").workers(1, cpu=8, memory=2, **{GPU: 8}).arrived(1))
    world.end(runs)
    assert [name for name in ("few", "many") if world.gang(name).admitted] == [first]


LIGHT = job("light").ps().workers(1, 4, asked=4, cpu=2)  # w' = 1 / (0.2 + 0.125) = 3.1
HEAVY = job("heavy").ps().workers(3, cpu=2).arrived(10)  # w' = 3 * 3.1 = 9.2


def full_of_light() -> World:
    """Run the job light at its maximum of 4 workers; it takes 9 of the 10 cores of the only node."""
    world = World(Kod2()).nodes("n1")
    world.start(LIGHT)
    assert world.gang("light").workers == 4
    world.now += 10
    return world


def test_a_heavier_job_takes_the_fewest_workers_and_never_the_ps() -> None:
    world = full_of_light()
    effects = world.submit(HEAVY)
    assert Resize("job-light", 1, on_behalf_of="job-heavy") in effects
    assert world.state("heavy") is State.PLANNED
    assert set(world.gang("heavy").waits_for) == {f"uid-light-worker-{i}" for i in (1, 2, 3)}
    assert world.plan("light") == {"ps-0": "n1", "worker-0": "n1"}


def test_only_as_many_as_are_needed_highest_index_first() -> None:
    world = full_of_light()
    world.submit(job("heavy").workers(1, cpu=3, memory=1).with_(utility=9.0).arrived(10))
    assert world.gang("light").workers == 3
    assert set(world.gang("heavy").waits_for) == {"uid-light-worker-3"}


def test_nothing_is_applied_if_all_together_do_not_suffice() -> None:
    world = full_of_light()
    effects = world.submit(job("heavy").ps().workers(5, cpu=2, memory=1).arrived(10))
    assert effects == ()
    assert (world.gang("light").workers, world.reason("heavy")) == (4, "GangExceedsCluster")
    effects = world.submit(job("h2").ps(cpu=2).workers(3, cpu=2.1, memory=1).with_(utility=9.0).arrived(10))
    assert (effects, world.gang("light").workers, world.reason("h2")) == ((), 4, "WaitingForRoom")


RIVALS = {
    "a lighter one takes nothing": (LIGHT.with_(utility=0.5), 4),
    "an equal, later one takes nothing": (LIGHT, 4),
    "a heavier one takes": (LIGHT.with_(utility=2.0), 3),
}


@pytest.mark.parametrize(("rival", "left"), RIVALS.values(), ids=RIVALS.keys())
def test_who_may_shrink_whom(rival: JobBuilder, left: int) -> None:
    world = full_of_light()
    world.submit(rival.with_(uid="job-rival", name="rival").arrived(10))
    assert world.gang("light").workers == left


def test_among_equal_victims_the_latest_gives_first() -> None:
    world = World(Kod2()).nodes("n1", "n2").rules()
    world.start(LIGHT, LIGHT.with_(uid="job-late", name="late").arrived(5))
    world.now += 10
    world.submit(HEAVY.with_(utility=5.0))
    assert (world.gang("light").workers, world.gang("late").workers) == (4, 1)


TAKEN = {"on the node with the fewest removals": (True, {"n2"}, 3, 4), "by weight, as printed": (False, {"n1"}, 4, 2)}


@pytest.mark.parametrize(("by_node", "heavy", "big", "light"), TAKEN.values(), ids=TAKEN.keys())
def test_from_whom_workers_are_taken_where_a_lighter_job_is_on_another_node(
    by_node: bool, heavy: set[str], big: int, light: int
) -> None:
    world = World(Kod2(by_node=by_node)).nodes("n1", node("n2", cpu=12))
    world.start(job("big").ps().workers(1, 4, asked=4, cpu=2.5), LIGHT.with_(utility=0.5).arrived(5))
    assert set(world.plan("light").values()) == {"n1"}
    world.now += 10
    world.submit(job("heavy").workers(1, cpu=3.5, memory=1).with_(utility=99.0).arrived(10))
    assert set(world.plan("heavy").values()) == heavy
    assert (world.gang("big").workers, world.gang("light").workers) == (big, light)


def test_freed_room_goes_to_its_beneficiary_and_to_nobody_else() -> None:
    world = full_of_light()
    world.submit(HEAVY)
    for index in (3, 2):
        world.do(PodGone(f"uid-light-worker-{index}"))
        world.submit(job(f"small{index}").workers(1, cpu=1, memory=1).arrived(11))
        assert world.state(f"small{index}") is State.WAITING
    assert world.hold("uid-heavy-ps-0") == (RefuseBind("uid-heavy-ps-0", Reason.ROOM_BEING_FREED),)
    world.do(PodGone("uid-light-worker-1"))
    assert not world.gang("heavy").waits_for
    world.bind(HEAVY)
    assert world.state("heavy") is State.RUNNING
    assert world.over() == []


def test_nobody_grows_while_room_is_being_freed() -> None:
    world = World(Kod2()).nodes("n1", node("n2", cpu=3))
    world.start(LIGHT)
    world.see(guest("g2", "n2", cpu=2))
    world.start(job("other").workers(1, 2, cpu=1, memory=15).arrived(1))
    world.now += 10
    world.submit(HEAVY)
    world.do(PodGone("uid-g2"))
    assert (world.gang("other").workers, world.state("heavy")) == (1, State.PLANNED)
    for index in (3, 2, 1):
        world.do(PodGone(f"uid-light-worker-{index}"))
    assert world.gang("other").workers == 2


def test_a_removal_that_a_later_one_made_needless_is_taken_back() -> None:
    world = World(Kod2()).nodes("n1")
    world.start(job("first").workers(1, 2, asked=2, cpu=1, memory=1).with_(utility=0.1))
    world.start(job("second").workers(1, 2, asked=2, cpu=4, memory=1).arrived(1))
    world.now += 10
    world.submit(job("heavy").workers(1, cpu=4, memory=1).with_(utility=99.0).arrived(10))
    assert (world.gang("first").workers, world.gang("second").workers) == (2, 1)


def test_the_room_of_a_member_that_is_restarted_is_not_given_to_another() -> None:
    """The room stays for the member's successor, unless the job is shrunk by this worker for a heavier job."""
    world = full_of_light()
    last = world.pod("light-worker-3")
    world.see(replace(last, terminating=True))
    world.submit(job("heavy").workers(1, cpu=3, memory=1).with_(utility=9.0).arrived(10))
    assert world.gang("light").workers == 3
    assert set(world.gang("heavy").waits_for) == {"uid-light-worker-3"}


def test_a_rigid_job_whose_member_is_restarted_keeps_its_room() -> None:
    world = World().nodes("n1", "n2").start(job("rigid").ps(1, cpu=10).workers(1, cpu=10))
    last = world.pod("rigid-worker-0")
    world.see(replace(last, terminating=True))
    world.submit(job("heavy").workers(1, cpu=3, memory=1).with_(utility=9.0).arrived(10))
    world.do(PodGone(last.uid))
    assert world.state("heavy") is State.WAITING
    assert world.over() == []


def test_pods_that_never_go_the_claim_is_tried_once_more_and_then_the_workers_are_the_victims_again() -> None:
    world = full_of_light()
    world.submit(HEAVY)
    world.pass_time(121)
    assert (world.state("heavy"), world.gang("light").workers) == (State.PLANNED, 1)
    world.pass_time(119)
    assert (world.state("heavy"), world.gang("light").workers) == (State.PLANNED, 1)
    world.pass_time(2)
    assert (world.state("heavy"), world.reason("heavy")) == (State.WAITING, "BackingOff")
    assert world.gang("light").workers == 4


def test_a_shrunk_job_does_not_grow_within_its_cool_down() -> None:
    world = full_of_light()
    world.submit(HEAVY)
    world.operate(LIGHT)
    world.bind(HEAVY)
    world.end(HEAVY)
    assert world.gang("light").workers == 1
    world.pass_time(59)
    assert world.gang("light").workers == 1
    world.pass_time(2)
    assert world.gang("light").workers == 4


def test_a_victim_grows_back_when_its_beneficiary_is_deleted() -> None:
    world = full_of_light()
    world.submit(HEAVY)
    world.operate(LIGHT)
    world.do(JobGone("job-heavy"))
    world.pass_time(61)
    assert world.gang("light").workers == 4


def test_a_job_whose_plans_fail_turns_no_job_more_than_twice_in_ten_minutes() -> None:
    world = full_of_light()
    world.submit(HEAVY)
    turns, workers = 0, world.gang("light").workers
    grew = False
    for _ in range(600):
        world.pass_time(1)
        now = world.gang("light").workers
        if now != workers and (now > workers) != grew:
            turns, grew = turns + 1, now > workers
        workers = now
        if world.state("heavy") is State.PLANNED and not world.gang("heavy").waits_for:
            world.pass_time(31)
    assert turns <= 2


STREAM = {
    "loose: it starts wherever there is room": (Gate.LOOSE, State.PLANNED),
    "strict: not while a heavier one runs": (Gate.STRICT, State.WAITING),
}


@pytest.mark.parametrize(("gate", "state"), STREAM.values(), ids=STREAM.keys())
def test_gates(gate: Gate, state: State) -> None:
    world = World(Kod2(gate=gate)).nodes("n1", "n2")
    world.start(HEAVY)
    world.submit(LIGHT.arrived(20))
    assert world.state("light") is state
    if gate is Gate.STRICT:
        assert world.snapshot.verdicts["job-light"].behind == "job-heavy"


def test_the_heaviest_waits_first_and_others_fill_the_gaps_until_it_starves() -> None:
    world = World(Kod2(starve_limit=100)).nodes("n1")
    world.start(job("runs").workers(3, cpu=2, memory=2))
    world.submit(job("large").workers(4, cpu=2, memory=2).arrived(1))
    world.submit(job("small").workers(1, cpu=2, memory=2).arrived(2))
    assert (world.state("large"), world.state("small")) == (State.WAITING, State.PLANNED)
    world.pass_time(102)
    world.submit(job("late").workers(1, cpu=2, memory=2).arrived(102))
    assert world.state("late") is State.WAITING
    assert world.snapshot.verdicts["job-late"].behind == "job-large"


def test_no_backfill_where_it_is_switched_off() -> None:
    world = World(Kod2(backfill=False)).nodes("n1")
    world.start(job("runs").workers(3, cpu=2, memory=2))
    world.submit(job("large").workers(4, cpu=2, memory=2).arrived(1), job("small").workers(1).arrived(2))
    assert world.reason("small") == "BehindHeavierJob"


def test_jobs_pass_a_starved_head_where_it_only_goes_first_as_in_the_paper() -> None:
    states = []
    for blocks in (True, False):
        world = World(Kod2(starve_limit=100, starving_blocks=blocks)).nodes("n1")
        world.start(job("runs").workers(1, cpu=6, memory=2))
        world.submit(job("head").workers(1, cpu=9, memory=2))
        world.pass_time(101)
        world.submit(job("small").workers(1, cpu=1, memory=2))
        states.append((world.state("head"), world.state("small")))
    assert states == [(State.WAITING, State.WAITING), (State.WAITING, State.PLANNED)]


def test_one_that_asks_for_the_same_as_a_starved_head_is_behind_it_too() -> None:
    world = World(Kod2(starve_limit=100)).nodes("n1")
    world.start(job("runs").workers(3, cpu=2, memory=2))
    world.submit(
        job("large").workers(4, cpu=2, memory=2).arrived(1), job("alike").workers(4, cpu=2, memory=2).arrived(2)
    )
    assert [world.reason(name) for name in ("large", "alike")] == ["WaitingForRoom", "WaitingForRoom"]
    world.pass_time(102)
    assert [world.reason(name) for name in ("large", "alike")] == ["WaitingForRoom", "BehindHeavierJob"]


def test_a_starved_light_job_comes_before_a_stream_of_heavy_ones_and_then_has_its_own_weight_again() -> None:
    world = World(Kod2(starve_limit=100, cooldown=0)).nodes("n1")
    stream = [job(f"h{i}").workers(2, 4, cpu=2, memory=2).with_(utility=9.0).arrived(i) for i in range(3)]
    world.start(stream[0])
    world.submit(job("light").workers(1, cpu=4, memory=2).arrived(1))
    assert world.state("light") is State.PLANNED or world.reason("light") == "WaitingForRoom"
    world.pass_time(102)
    world.submit(stream[1])
    assert world.state("light") is State.PLANNED
    world.operate(stream[0])
    world.bind(job("light"))
    assert world.state("light") is State.RUNNING
    assert Kod2().weights(world.snapshot)(world.snapshot.jobs["job-light"]) < 9


def test_a_head_that_can_never_run_blocks_nobody() -> None:
    world = World(Kod2(starve_limit=1)).nodes("n1")
    world.submit(job("giant").workers(9, cpu=9))
    world.pass_time(10)
    world.submit(LIGHT.arrived(10))
    assert (world.reason("giant"), world.state("light")) == ("GangExceedsCluster", State.PLANNED)


def test_room_held_by_finished_jobs_is_named_and_blocks_nobody() -> None:
    world = World(Kod2(starve_limit=1)).nodes("n1")
    keeper = job("keeper", keeps_pods=True).ps(cpu=4).workers(1, cpu=2)
    world.start(keeper)
    world.see(JobBuilder(world.snapshot.jobs["job-keeper"]).with_(finished=True))
    world.submit(job("head").workers(1, cpu=7).arrived(1))
    world.pass_time(10)
    world.submit(job("small").workers(1, cpu=1).arrived(2))
    assert (world.reason("head"), world.state("small")) == ("RoomHeldByFinishedJobs", State.PLANNED)


def test_room_that_pods_of_other_schedulers_hold_is_named_and_blocks_nobody() -> None:
    world = World(Kod2(starve_limit=1)).nodes("n1")
    world.see(guest("other", "n1", cpu=4))
    world.submit(job("head").workers(1, cpu=7).arrived(1), job("giant").workers(1, cpu=11).arrived(1))
    world.pass_time(10)
    world.submit(job("small").workers(1, cpu=1).arrived(2))
    assert (world.reason("head"), world.state("small")) == ("RoomHeldByOtherPods", State.PLANNED)
    assert world.reason("giant") == "GangExceedsCluster"
    # the nodes have changed, so jobs that were too large for the cluster are judged again
    world.see(node("n1", cpu=11.5))
    assert (world.reason("head"), world.reason("giant")) == ("WaitingForRoom", "RoomHeldByOtherPods")


def test_scale_out_gives_all_to_the_heaviest_first_up_to_its_maximum() -> None:
    world = World(Kod2(scale_out=Where.ANYWHERE)).nodes("n1")
    first = job("first").workers(1, 3, cpu=2, memory=2)
    second = job("second").workers(1, 9, cpu=2, memory=2).with_(utility=2.0).arrived(1)
    effects = world.submit(first, second)
    assert [(e.job_uid, e.workers) for e in effects if isinstance(e, Resize)] == [("job-second", 4)]
    assert [e.job_uid for e in effects if isinstance(e, Admit)] == ["job-second", "job-first"]


def test_nobody_grows_while_a_job_waits_for_room() -> None:
    world = World(Kod2()).nodes("n1")
    world.start(job("a").workers(1, cpu=8, memory=2))
    world.submit(job("big").workers(2, cpu=4, memory=2), job("b").workers(1, 2, cpu=1, memory=2).with_(utility=0.1))
    assert (world.state("b"), world.gang("b").workers) == (State.PLANNED, 1)


@pytest.mark.parametrize(("behind_head", "workers"), [(False, 1), (True, 2)])
def test_who_runs_grows_behind_a_head_that_nobody_can_help_where_it_may_until_the_head_starves(
    behind_head: bool, workers: int
) -> None:
    world = World(Kod2(behind_head=behind_head, starve_limit=100)).nodes("n1")
    world.see(guest("g", "n1", cpu=1))
    world.start(job("a").workers(1, cpu=7, memory=2))
    world.submit(job("big").workers(2, cpu=4, memory=2), job("b").workers(1, 4, cpu=1, memory=2).with_(utility=0.1))
    world.bind(job("b"))
    assert (world.reason("big"), world.state("b")) == ("WaitingForRoom", State.RUNNING)
    assert world.gang("b").workers == workers
    world.pass_time(101)
    world.do(PodGone("uid-g"))
    assert (world.reason("big"), world.gang("b").workers) == ("WaitingForRoom", workers)


def test_a_lone_pod_is_a_gang_of_one_that_never_scales() -> None:
    world = World(Kod2()).nodes("n1")
    world.start(job("lone", kind="Pod").workers(1))
    assert (world.state("lone"), world.gang("lone").workers) == (State.RUNNING, 1)


def test_the_time_of_arrival_counts_from_the_object() -> None:
    assert Kod2(starve_limit=5).starving(job("a").done(), START + 5.1)
    assert not Kod2(starve_limit=5).starving(job("a").done(), START + 5)


def test_a_job_whose_planned_node_is_refused_does_not_grow_before_it_runs() -> None:
    world = World().nodes("n1", "n2")
    world.submit(job("a").workers(1, 3))
    assert world.gang("a").workers == 3
    world.do(NodeNotOffered("uid-a-worker-0", world.plan("a")["worker-0"]))
    assert (world.state("a"), world.gang("a").workers) == (State.PLANNED, 1)
