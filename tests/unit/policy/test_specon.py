"""SpeCon rule by rule. A scene is a few one-worker jobs on two or three nodes, and what each reports every 30 s."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from policy.cluster.actions import Action, Decision, Effect, Migrate
from policy.cluster.events import Reported, UsageSeen
from policy.cluster.node import Node
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.training import Goal, Report, Training
from policy.systems.fleet import at_rest
from policy.systems.growth import Category, Growth, Ladder, Progress
from policy.systems.moving import Balance
from policy.systems.specon import CLOCK, COUNTS, KEY, Counts, SpeCon
from policy.systems.speconchoices import FirstNode, Gate
from tests.builders import JobBuilder, PodGone, PodSeen, State, World, job, node, ps, w

PC, WC, CC = Category.PROGRESSING, Category.WATCHING, Category.CONVERGED
PLAIN = SpeCon(smoothing=1, balance=Balance.OFF)
# With alpha 0.01 these reports mean: growing, growing, slow (WC), slower (CC), slower still (the job asks to move).
CONVERGING = (10.0, 5.0, 4.99, 4.985, 4.983, 4.982)
GROWING = (10.0, 9.0, 8.0, 7.0, 6.0, 5.0)


def alone(name: str, cpu: float = 1) -> JobBuilder:
    """Return a job of one worker that may be migrated."""
    return job(name).workers(1, cpu=cpu).with_(migratable=True)


def scene(policy: SpeCon, nodes: Sequence[str | Node], *jobs: str | JobBuilder) -> World:
    """Start the jobs in this order, placed over the nodes in turn."""
    world = World(policy).nodes(*nodes)
    for index, one in enumerate(jobs):
        made = alone(one) if isinstance(one, str) else one
        world.start(made.arrived(index))
    return world


def rounds(world: World, **metrics: Sequence[float | None]) -> list[Effect]:
    """Let each job report its next value every 30 s (None: no report); return the effects of all rounds."""
    found: list[Effect] = []
    for values in zip(*metrics.values(), strict=True):
        world.now += 30.0
        told = zip(metrics, values, strict=True)
        found += world.do(*(Reported(f"job-{name}", Report(world.now, x)) for name, x in told if x is not None))
    return found


def moves(effects: Sequence[Effect]) -> dict[str, str]:
    """Return the node to which each job was migrated, by the job's name."""
    found = [effect for effect in effects if isinstance(effect, Migrate)]
    return {one.job_uid.removeprefix("job-"): next(iter(one.nodes.values())) for one in found}


def arrive(world: World, name: str) -> None:
    """Complete a migration: remove the job's old pod, and bind its successor on the new node."""
    old = world.snapshot.member(f"job-{name}", w(0))
    assert old is not None
    world.do(PodGone(old.uid))
    world.do(PodSeen(world.fresh(replace(old, node="", phase=Phase.PENDING, plan=""))))
    world.bind(world.snapshot.jobs[f"job-{name}"])


def known(world: World, name: str) -> Progress:
    progress = world.snapshot.memory[KEY + f"job-{name}"]
    assert isinstance(progress, Progress)
    return progress


def counts(world: World) -> Counts:
    found = world.snapshot.memory.get(COUNTS, Counts())
    assert isinstance(found, Counts)
    return found


# -- The tests below are about the nodes on which SpeCon places new jobs. -----------------------------


def test_jobs_are_placed_round_and_round_whatever_has_ended() -> None:
    world = scene(PLAIN, ("n1", "n2", "n3"), "a", "b", "c", "d")
    world.end(alone("b"))
    world.start(alone("e"), alone("f"))
    assert [world.gang(name).nodes[w(0)] for name in "acdef"] == ["n1", "n3", "n1", "n2", "n3"]


@pytest.mark.parametrize(("first_node", "where"), [(FirstNode.TURN, "n1"), (FirstNode.SCORE, "n2")])
def test_a_new_job_goes_to_the_node_at_its_turn_or_to_the_one_with_the_least_score(
    first_node: FirstNode, where: str
) -> None:
    """Each node has two jobs; those of n2 have converged."""
    world = scene(replace(PLAIN, gate=Gate.PRINTED, first_node=first_node), ("n1", "n2"), "a", "b", "c", "d")
    rounds(world, a=GROWING, b=CONVERGING, c=GROWING, d=CONVERGING)
    world.start(alone("e").arrived(world.now))
    assert world.gang("e").nodes[w(0)] == where


def test_new_jobs_of_one_step_count_where_they_are_placed_and_equals_go_by_turn() -> None:
    world = World(replace(PLAIN, first_node=FirstNode.SCORE)).nodes("n1", "n2", "n3")
    world.start(job("wide").workers(2, cpu=1).with_(migratable=True))
    world.submit(*(alone(name).arrived(1) for name in "abcde"))
    assert world.gang("wide").nodes[w(0)] == "n1"
    assert [world.gang(name).nodes[w(0)] for name in "abcde"] == ["n2", "n3", "n2", "n3", "n3"]


def test_a_job_that_does_not_fit_at_its_turn_takes_the_next_node() -> None:
    world = World(PLAIN).nodes(node("n1", cpu=1), node("n2", cpu=8)).start(alone("a", cpu=4), alone("b", cpu=4))
    assert (world.plan("a"), world.plan("b")) == ({"worker-0": "n2"}, {"worker-0": "n2"})


def test_a_gang_that_no_node_takes_whole_is_spread() -> None:
    world = World(PLAIN).nodes("n1", "n2").start(job("a").ps(1).workers(3, cpu=4))
    assert (world.state("a"), set(world.plan("a").values())) == (State.RUNNING, {"n1", "n2"})


def test_first_come_first_served_nobody_passes_the_first_that_waits() -> None:
    world = World(PLAIN).nodes("n1").start(alone("a", cpu=6))
    world.submit(alone("b", cpu=6).arrived(1), alone("c").arrived(2))
    assert (world.reason("b"), world.reason("c")) == ("WaitingForRoom", "BehindHeavierJob")
    assert world.snapshot.verdicts["job-c"].behind == "job-b"


# -- The tests below are about Algorithm 1, which puts jobs into categories by their progress. ---------


def categories(policy: SpeCon, values: Sequence[float | None], **more: object) -> list[Category]:
    """Return the category of one job after each round in which it reports the next value."""
    world = scene(policy, ("n1", "n2"), alone("a").with_(**more))
    found = []
    for value in values:
        rounds(world, a=[value])
        found.append(known(world, "a").category)
    return found


def test_two_slow_rounds_make_a_job_watched_and_then_converged() -> None:
    assert categories(PLAIN, CONVERGING) == [PC, PC, WC, CC, CC, CC]


def test_a_slow_round_that_is_no_slower_than_the_last_changes_nothing() -> None:
    assert categories(PLAIN, (10.0, 5.0, 4.99, 4.975, 4.95)) == [PC, PC, WC, WC, WC]


def test_growth_above_alpha_makes_it_a_growing_job_again() -> None:
    assert categories(PLAIN, (*CONVERGING[:4], 4.0)) == [PC, PC, WC, CC, PC]
    world = scene(PLAIN, ("n1",), "a")
    rounds(world, a=CONVERGING[:4])
    assert known(world, "a").converged == world.now
    rounds(world, a=[4.0])
    assert known(world, "a").converged is None


def test_hysteresis_keeps_what_is_hardly_above_alpha() -> None:
    jitter = (*CONVERGING[:4], 4.985 - 0.012 * 5.0)
    assert categories(PLAIN, jitter)[-1] is PC
    assert categories(replace(PLAIN, hysteresis=0.5), jitter)[-1] is CC


def test_printed_lines_10_to_12_never_let_a_job_converge() -> None:
    assert categories(replace(PLAIN, ladder=Ladder.PRINTED), CONVERGING) == [PC, PC, WC, WC, WC, WC]


def test_a_job_with_a_threshold_of_its_own_is_judged_by_it_and_the_others_by_the_setting() -> None:
    """The job's growth falls to 1/6, 1/20, 1/60 and 1/300 of the reduction so far."""
    slowly = (10.0, 5.0, 4.0, 3.7, 3.6, 3.58)
    assert categories(PLAIN, slowly) == [PC, PC, PC, PC, PC, WC]
    assert categories(PLAIN, slowly, training=Training(alpha=0.1)) == [PC, PC, PC, WC, CC, CC]
    assert categories(replace(PLAIN, alpha=0.1), slowly, training=Training(alpha=0.001)) == [PC] * 6


def test_a_job_asks_to_be_moved_by_its_own_threshold() -> None:
    slowly = (10.0, 5.0, 4.0, 3.7, 3.55, 3.45)  # in the last round the growth is still 1.5 % of the reduction so far
    for own, asked in ((None, 0), (0.1, 1)):
        world = scene(replace(PLAIN, gate=Gate.OPEN), ("n1", "n2"), alone("a").with_(training=Training(alpha=own)))
        rounds(world, a=slowly)
        assert counts(world).requests == asked


def test_growth_is_a_share_of_the_reduction_so_far() -> None:
    """The same curve in units a thousand times as large is the same training; the paper's alpha depends on the unit."""
    large = [1000.0 * value for value in CONVERGING]
    assert categories(PLAIN, large) == categories(PLAIN, CONVERGING)
    printed = replace(PLAIN, growth=Growth.ABSOLUTE)
    assert categories(printed, large) == [PC] * 6
    assert categories(printed, [value / 1000.0 for value in GROWING])[-1] is not PC


def test_growth_is_counted_for_30_s_whatever_the_interval() -> None:
    world = scene(PLAIN, ("n1",), "a")
    rounds(world, a=[10.0, 5.0])
    world.now += 60.0
    world.do(Reported("job-a", Report(world.now, 4.9)))
    assert known(world, "a").growth == pytest.approx(0.1 / 5.1 / 2)


def test_a_metric_that_is_to_rise_converges_alike() -> None:
    rising = [-value for value in CONVERGING]
    assert categories(PLAIN, rising, training=Training(goal=Goal.MAX)) == categories(PLAIN, CONVERGING)


def test_nothing_is_looked_at_within_an_interval() -> None:
    world = scene(PLAIN, ("n1",), "a")
    rounds(world, a=[10.0])
    before = known(world, "a")
    world.now += 5.0
    world.do(Reported("job-a", Report(world.now, 5.0)))
    assert known(world, "a") == before


def test_the_median_of_three_reports_is_looked_at() -> None:
    """Without the median, one report far below all others would make every later growth look small."""
    spiked = (10.0, 9.0, 8.0, -1e6, 7.0, 6.0, 5.0, 4.0, 3.0)
    assert set(categories(replace(PLAIN, smoothing=3), spiked)) == {PC}
    assert WC in categories(PLAIN, spiked)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 1e300])
def test_a_report_that_says_nothing_is_not_there(value: float | None) -> None:
    told = list[float | None](CONVERGING)
    told[3] = value
    assert categories(PLAIN, told)[:5] == [PC, PC, WC, WC, CC]


def test_a_report_from_the_future_is_not_there() -> None:
    world = scene(PLAIN, ("n1",), "a")
    world.do(Reported("job-a", Report(world.now + 1e6, 1.0)))
    rounds(world, a=[None])
    assert known(world, "a").value is None


# -- The tests below are about Algorithm 2, which moves converged jobs away. ---------------------------


def crowded(policy: SpeCon = PLAIN, *more: str) -> World:
    """Place the jobs a, b, c ... in turn on n1 and n2; the tests let a converge and the others grow."""
    return scene(policy, ("n1", "n2"), "a", "b", "c", *more)


def test_a_converged_job_leaves_for_the_node_with_the_least_score() -> None:
    """Node n1 has the score 1 (a, converged) + 2 (c, growing) = 3; n2 has 2 (b, growing)."""
    world = crowded()
    assert moves(rounds(world, a=CONVERGING[:4], b=GROWING[:4], c=GROWING[:4])) == {}
    assert moves(rounds(world, a=CONVERGING[4:5], b=GROWING[4:5], c=GROWING[4:5])) == {"a": "n2"}
    assert counts(world) == Counts(requests=1, moves=1)


def test_it_stays_where_the_score_is_least_and_never_asks_again() -> None:
    """Node n1 has the score 1 + 2 = 3; n2 has 2 + 2 = 4."""
    world = crowded(PLAIN, "d")
    found = rounds(world, a=CONVERGING, b=GROWING, c=GROWING, d=GROWING)
    assert (moves(found), counts(world)) == ({}, Counts(requests=1, stays=1))
    world.end(alone("b"))
    world.end(alone("d"))
    assert moves(rounds(world, a=[4.9815, 4.9813], c=[4.0, 3.0])) == {}


def test_weights_make_a_node_of_converged_jobs_the_lighter_one() -> None:
    """Node n1 has the score 1 + 2 + 2 = 5; n2 has as many jobs, but all have converged: 1 + 1 + 1 = 3."""
    world = crowded(PLAIN, "d", "e", "f")
    slow = [10.0, 5.0, 4.99, 4.985, 4.985, 4.985]
    told = rounds(world, a=CONVERGING, b=slow, c=GROWING, d=slow, e=GROWING, f=slow)
    assert moves(told) == {"a": "n2"}
    flat = crowded(replace(PLAIN, w_cc=2.0, w_wc=2.0), "d", "e", "f")
    assert moves(rounds(flat, a=CONVERGING, b=slow, c=GROWING, d=slow, e=GROWING, f=slow)) == {}


def test_among_equal_scores_the_node_with_the_least_cpu_asked_for() -> None:
    world = scene(PLAIN, ("n1", "n2", "n3"), "a", alone("b", cpu=4), alone("c", cpu=2), "d")
    told = rounds(world, a=CONVERGING, b=GROWING, c=GROWING, d=GROWING)
    assert moves(told) == {"a": "n3"}


def test_what_is_measured_counts_before_what_is_asked_for() -> None:
    world = scene(PLAIN, ("n1", "n2", "n3"), "a", alone("b", cpu=4), alone("c", cpu=2), "d")
    world.do(UsageSeen({"n2": Resources({"cpu": 100}), "n3": Resources({"cpu": 1900})}))
    told = rounds(world, a=CONVERGING, b=GROWING, c=GROWING, d=GROWING)
    assert moves(told) == {"a": "n2"}


def test_a_node_without_room_is_no_candidate() -> None:
    world = scene(PLAIN, ("n1", "n2", "n3"), "a", alone("b", cpu=9.5), "c", "d", "e", "f")
    rest = dict.fromkeys("cdef", GROWING)
    assert moves(rounds(world, a=CONVERGING, b=GROWING, **rest)) == {}
    assert counts(world).stays == 1


def test_it_moves_once() -> None:
    world = crowded()
    rounds(world, a=CONVERGING[:5], b=GROWING[:5], c=GROWING[:5])
    arrive(world, "a")
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, {"worker-0": "n2"})
    world.end(alone("c"))
    later = [4.9, 4.899, 4.8985, 4.8984, 4.8983]
    assert moves(rounds(world, a=later, b=[4.0, 3.0, 2.0, 1.0, 0.5])) == {}
    assert known(world, "a").category is CC


def test_after_a_move_growth_is_taken_between_two_new_reports() -> None:
    world = crowded()
    rounds(world, a=CONVERGING[:5], b=GROWING[:5], c=GROWING[:5])
    arrive(world, "a")
    rounds(world, a=[9.0], b=[1.0], c=[1.0])
    assert (known(world, "a").growth, known(world, "a").category) == (None, CC)


def test_what_was_reported_before_a_move_is_no_sample_of_the_restarted_job() -> None:
    """In the first round after the move there is no new report; the report of the next round is the first sample."""
    world = crowded()
    rounds(world, a=CONVERGING[:5], b=GROWING[:5], c=GROWING[:5])
    arrive(world, "a")
    rounds(world, a=[None], b=[4.5], c=[4.5])
    assert (known(world, "a").value, known(world, "a").at) == (None, None)
    rounds(world, a=[4.9], b=[4.0], c=[4.0])
    assert (known(world, "a").value, known(world, "a").growth) == (4.9, None)
    rounds(world, a=[4.8], b=[3.5], c=[3.5])
    assert known(world, "a").growth == pytest.approx(0.1 / (10.0 - 4.8))


def test_what_the_old_pods_report_while_a_job_moves_is_no_sample_either() -> None:
    world = crowded()
    rounds(world, a=CONVERGING[:5], b=GROWING[:5], c=GROWING[:5])
    rounds(world, a=[4.98], b=[4.5], c=[4.5])
    assert world.state("a") is State.MIGRATING
    arrive(world, "a")
    rounds(world, a=[None], b=[4.0], c=[4.0])
    assert known(world, "a").at is None


def test_two_requests_of_one_round_do_not_go_to_the_same_node() -> None:
    """By the scores both a and d would go from n1 to n2; the second one has to ask again in the next round."""
    world = scene(PLAIN, ("n1", "n2", "n3"), "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
    world.end(alone("b"))
    world.end(alone("e"))
    world.end(alone("h"))
    rest: dict[str, Sequence[float]] = dict.fromkeys("cfgij", GROWING[:5])
    assert moves(rounds(world, a=CONVERGING[:5], d=CONVERGING[:5], **rest)) == {"a": "n2"}
    assert counts(world) == Counts(requests=2, moves=1)
    arrive(world, "a")
    rest = dict.fromkeys("cfgij", GROWING[5:])
    assert moves(rounds(world, a=[4.9], d=CONVERGING[5:], **rest)) == {"d": "n2"}


@pytest.mark.parametrize(
    ("gate", "others", "moved"),
    [
        (Gate.GROWING, GROWING[:5], True), (Gate.GROWING, (*CONVERGING[:4], 4.985), False),
        (Gate.PRINTED, GROWING[:5], False), (Gate.OPEN, (*CONVERGING[:4], 4.985), True),
    ],
)  # fmt: skip
def test_who_may_ask(gate: Gate, others: Sequence[float], moved: bool) -> None:
    """The one other job on the node grows or has converged; the paper's gate wants two other jobs that grow."""
    world = scene(replace(PLAIN, gate=gate), ("n1", "n2"), "a", "b", "c")
    world.end(alone("b"))
    assert moves(rounds(world, a=CONVERGING[:5], c=others)) == ({"a": "n2"} if moved else {})


def test_the_printed_gate_opens_for_two_that_grow() -> None:
    world = scene(replace(PLAIN, gate=Gate.PRINTED), ("n1", "n2"), "a", "b", "c", "d", "e")
    rest = dict.fromkeys("bcde", GROWING)
    assert moves(rounds(world, a=CONVERGING, **rest)) == {"a": "n2"}


def test_the_guard_wants_the_new_node_to_be_the_lighter_one_with_the_job() -> None:
    """Node n1 has the score 1 + 2 = 3; n2 has 2, but 3 with the job, so a move would gain nothing."""
    world = crowded(replace(PLAIN, guard=True))
    told = rounds(world, a=CONVERGING, b=GROWING, c=GROWING)
    assert moves(told) == {}
    world = crowded(replace(PLAIN, guard=True), "d", "e")
    world.end(alone("b"))
    assert moves(rounds(world, a=CONVERGING, c=GROWING, d=GROWING, e=GROWING)) == {"a": "n2"}


# -- The tests below are about jobs that SpeCon does not move. -----------------------------------------


def spoiled(how: str) -> JobBuilder:
    match how:
        case "not migratable":
            return alone("a").with_(migratable=False)
        case "on two nodes":
            return job("a").ps(1, cpu=6).workers(1, cpu=6).with_(migratable=True)
        case _:
            return alone("a")


@pytest.mark.parametrize(("how", "moved"), [("", True), ("not migratable", False), ("on two nodes", False)])
def test_only_migratable_jobs_on_one_node_move(how: str, moved: bool) -> None:
    world = scene(PLAIN, ("n1", "n2"), spoiled(how), "b", "c")
    found = moves(rounds(world, a=CONVERGING, b=GROWING, c=GROWING))
    assert found == ({"a": "n2"} if moved else {})


def test_a_gang_moves_whole() -> None:
    gang = job("a").ps(1).workers(2, cpu=1).with_(migratable=True)
    world = scene(PLAIN, ("n1", "n2"), gang, "b", "c")
    found = rounds(world, a=CONVERGING, b=GROWING, c=GROWING)
    assert [dict(move.nodes) for move in found if isinstance(move, Migrate)] == [
        dict.fromkeys((ps(0), w(0), w(1)), "n2")
    ]


def test_a_silent_job_is_neutral() -> None:
    """A job that has converged and then does not report for three intervals, or reports the same value,
    asks no more.
    """
    world = crowded(replace(PLAIN, balance=Balance.UNBALANCED))
    rounds(world, a=CONVERGING[:4], b=GROWING[:4], c=[10.0, None, None, None])
    rounds(world, a=[None] * 3, b=[5.0, 4.0, 3.0], c=[9.0, 8.0, 7.0])
    world.end(alone("b"))
    assert moves(rounds(world, a=[4.985], c=[6.0])) == {}
    assert moves(rounds(world, a=[4.9849], c=[5.5])) == {"a": "n2"}


@pytest.mark.parametrize(("silent", "moved"), [(False, {"a": "n2"}), (True, {})])
def test_a_silent_job_weighs_like_one_that_has_just_begun(silent: bool, moved: dict[str, str]) -> None:
    """Node n1 has the score 1 + 2 + 2 = 5; n2, whose jobs have converged, has 3, or 6 if its jobs are silent."""
    world = crowded(PLAIN, "d", "e", "f")
    rounds(world, **dict.fromkeys("bdf", CONVERGING[:4]), **dict.fromkeys("ace", GROWING[:4]))
    slow = [None] * 4 if silent else [4.984, 4.983, 4.982, 4.981]
    growing = (6.0, 5.0, 4.0, 3.0)
    told = rounds(world, a=(6.0, 5.99, 5.985, 5.983), c=growing, e=growing, **dict.fromkeys("bdf", slow))
    assert [known(world, name).category for name in "bdf"] == [CC, CC, CC]
    assert moves(told) == moved


def test_nobody_is_moved_for_a_job_that_says_nothing() -> None:
    world = crowded()
    found = rounds(world, a=CONVERGING, b=GROWING, c=[None] * 6)
    assert (moves(found), counts(world).requests) == ({}, 0)


def test_nobody_moves_while_somebody_waits_for_room() -> None:
    world = crowded()
    rounds(world, a=CONVERGING[:4], b=GROWING[:4], c=GROWING[:4])
    world.submit(alone("x", cpu=10))
    assert world.reason("x") == "WaitingForRoom"
    assert moves(rounds(world, a=CONVERGING[4:5], b=GROWING[4:5], c=GROWING[4:5])) == {}
    world.do(PodGone("uid-x-worker-0"))
    assert moves(rounds(world, a=CONVERGING[5:], b=GROWING[5:], c=GROWING[5:])) == {"a": "n2"}


def test_nor_while_somebody_may_not_shrink_others_yet() -> None:
    decided = Decision((), {"job-x": Verdict(Reason.RESIZES_LIMITED)})
    assert not at_rest(crowded().snapshot, decided)
    assert at_rest(crowded().snapshot, Decision((), {"job-x": Verdict(Reason.TOO_LARGE)}))


# -- The tests below are about Algorithm 3, which moves jobs to idle nodes. ----------------------------

EVEN = SpeCon(smoothing=1, gate=Gate.PRINTED)
SLOW = (10.0, 5.0, 4.99, 4.985)


def test_an_idle_node_is_given_the_job_that_converged_last() -> None:
    world = scene(EVEN, ("n1", "n2"), "a", "b", "c", "d", "e")
    world.end(alone("b"))
    world.end(alone("d"))
    late = (10.0, 5.0, 4.0, 3.99)
    rounds(world, a=SLOW[:3], c=late[:3], e=(10.0, 5.0, 4.0))
    assert moves(rounds(world, a=SLOW[3:], c=late[3:], e=(3.0,))) == {"a": "n2"}
    world = scene(EVEN, ("n1", "n2"), "a", "b", "c", "d", "e")
    both = (10.0, 5.0, 4.99, 4.985, 4.984)
    last = (10.0, 5.0, 4.0, 3.99, 3.985)
    rounds(world, a=both, c=last, e=(10.0, 5.0, 4.0, 3.0, 2.0), b=[None] * 5, d=[None] * 5)
    world.end(alone("b"))
    world.end(alone("d"))
    assert moves(rounds(world, a=[4.983], c=[3.984], e=[1.0])) == {"c": "n2"}


def test_a_growing_job_is_not_balanced_unless_asked_for() -> None:
    for policy, moved in ((EVEN, {}), (replace(EVEN, balance_any=True), {"a": "n2"})):
        world = scene(policy, ("n1", "n2"), "a", "b", "c")
        world.end(alone("b"))
        assert moves(rounds(world, a=[10.0], c=[10.0])) == moved


def test_an_idle_node_is_filled_from_nodes_with_more_than_their_share_only() -> None:
    """Node n1 has four jobs that may not be migrated, n2 two that have converged, n3 none: the balance factor is 2."""
    fixed = [alone(name).with_(migratable=False) for name in "adgj"]
    jobs: list[str | JobBuilder] = [fixed[0], "b", "c", fixed[1], "e", "f", fixed[2], "h", "i", fixed[3]]
    world = scene(EVEN, ("n1", "n2", "n3"), *jobs)
    for name in "cfhi":
        world.end(alone(name))
    told = rounds(world, b=SLOW, e=SLOW)
    assert ({world.gang(name).nodes[w(0)] for name in "be"}, moves(told)) == ({"n2"}, {})


def test_nodes_at_their_share_are_given_nobody() -> None:
    """The nodes have four, two and two jobs: the balance factor is 2."""
    world = scene(EVEN, ("n1", "n2", "n3"), *"abcdefghij")
    for name in "hi":
        world.end(alone(name))
    assert moves(rounds(world, **dict.fromkeys("abcdefgj", SLOW))) == {}


def test_idle_nodes_are_filled_when_there_are_fewer_jobs_than_nodes() -> None:
    world = scene(EVEN, ("n1", "n2", "n3"), *"abcd")
    for name in "bc":
        world.end(alone(name))
    assert moves(rounds(world, a=SLOW, d=SLOW)) == {"a": "n2"}


def test_room_is_given_away_once_in_a_round() -> None:
    """The balance factor is 2, but n2 has room for only one job."""
    world = scene(EVEN, ("n1", node("n2", cpu=1)), *"abcdefg")
    for name in "bdf":
        world.end(alone(name))
    assert moves(rounds(world, **dict.fromkeys("aceg", SLOW))) == {"a": "n2"}


def test_it_evens_out_only_what_is_uneven() -> None:
    """Node n1 has two jobs and n2 has one, so a move would gain nothing."""
    world = crowded(EVEN)
    assert moves(rounds(world, a=SLOW, b=SLOW, c=SLOW)) == {}


def unbalanced(policy: SpeCon) -> dict[str, str]:
    """Return the moves when four converged jobs are on n1 and one is on n2; the balance factor is 2."""
    world = scene(policy, ("n1", "n2"), *"abcdefgh")
    for name in "bdf":
        world.end(alone(name))
    return moves(rounds(world, **dict.fromkeys("acegh", SLOW)))


@pytest.mark.parametrize(
    ("balance", "moved"),
    [
        (Balance.UNBALANCED, {"a": "n2"}), (Balance.ALL_MIGRATED, {}), (Balance.PRINTED, {}), (Balance.OFF, {}),
    ],
)  # fmt: skip
def test_when_balance_runs(balance: Balance, moved: dict[str, str]) -> None:
    assert unbalanced(replace(EVEN, balance=balance)) == moved


def test_the_printed_second_branch_is_dead_even_when_all_have_been_decided() -> None:
    """All jobs have made their request; by line 27 as the paper prints it no job moves, and by the mended line one
    does.
    """
    found = {}
    for balance in (Balance.PRINTED, Balance.ALL_MIGRATED):
        policy = SpeCon(smoothing=1, gate=Gate.OPEN, balance=balance, guard=True)
        world = scene(policy, ("n1", "n2"), *"abcdefgh")
        told = moves(rounds(world, **dict.fromkeys("abcdefgh", (*SLOW, 4.984))))
        assert (told, counts(world).stays) == ({}, 8)
        for name in "bdf":
            world.end(alone(name))
        found[balance] = moves(rounds(world, **dict.fromkeys("acegh", (4.9835,))))
    assert found == {Balance.PRINTED: {}, Balance.ALL_MIGRATED: {"a": "n2"}}


def moved_by_3(policy: SpeCon) -> World:
    """Let Algorithm 3 move a from n1 to n2, which was idle; then a growing job joins a there, and n1 becomes idle."""
    world = scene(policy, ("n1", "n2"), "a", "b", "c")
    world.end(alone("b"))
    assert moves(rounds(world, a=SLOW, c=GROWING[:4])) == {"a": "n2"}
    arrive(world, "a")
    world.start(alone("d").arrived(9), alone("e").arrived(10))
    world.end(alone("c"))
    world.end(alone("e"))
    assert {world.gang(name).nodes[w(0)] for name in "ad"} == {"n2"}
    return world


def test_balance_moves_a_job_once() -> None:
    world = moved_by_3(EVEN)
    assert moves(rounds(world, a=[4.98, 4.979, 4.9785, 4.978], d=GROWING[:4])) == {}


# -- The tests below check that each job is moved only once. -------------------------------------------

BOTH = SpeCon(smoothing=1)


def moved_by_2(policy: SpeCon) -> World:
    """Let Algorithm 2 move a to n2; then n1 becomes idle and n2 has two jobs."""
    world = scene(policy, ("n1", "n2"), "a", "b", "c")
    assert moves(rounds(world, a=CONVERGING[:5], b=GROWING[:5], c=GROWING[:5])) == {"a": "n2"}
    arrive(world, "a")
    world.end(alone("c"))
    return world


@pytest.mark.parametrize(("limit", "again"), [(1, {}), (2, {"a": "n1"})])
def test_whom_algorithm_2_has_moved_algorithm_3_moves_only_where_each_may(limit: int, again: dict[str, str]) -> None:
    world = moved_by_2(replace(BOTH, moves_per_job=limit))
    assert moves(rounds(world, a=[4.98, 4.979], b=[4.0, 3.0])) == again


@pytest.mark.parametrize(("limit", "again"), [(1, {}), (2, {"a": "n1"})])
def test_whom_algorithm_3_has_moved_algorithm_2_moves_only_where_each_may(limit: int, again: dict[str, str]) -> None:
    world = moved_by_3(replace(BOTH, moves_per_job=limit))
    assert moves(rounds(world, a=[4.98, 4.979, 4.9785, 4.9784], d=GROWING[:4])) == again
    assert counts(world).requests == limit - 1


def test_whom_algorithm_2_has_let_stay_algorithm_3_may_still_move() -> None:
    """Jobs 10, 11 and 13 in the log of the paper's authors were moved in this way."""
    world = crowded(BOTH, "d")
    assert moves(rounds(world, a=CONVERGING, b=GROWING, c=GROWING, d=GROWING)) == {}
    assert counts(world).stays == 1
    world.end(alone("b"))
    world.end(alone("d"))
    assert moves(rounds(world, a=[4.9815], c=[4.0])) == {"a": "n2"}


def test_one_move_is_remembered_over_a_restart() -> None:
    world = moved_by_2(BOTH)
    parts = {uid: dict(part) for uid, part in BOTH.parts(world.snapshot.memory).items()}
    world.snapshot = replace(world.snapshot, memory=dict(BOTH.recalled(world.snapshot, parts)))
    assert known(world, "a").was_moved
    assert moves(rounds(world, a=[4.98, 4.979], b=[4.0, 3.0])) == {}


@pytest.mark.parametrize("limit", [0, 3])
def test_a_limit_that_says_nothing_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="moves_per_job"):
        SpeCon(moves_per_job=limit)


# -- The tests below are about what the policy remembers. ----------------------------------------------


def test_jobs_that_have_ended_are_forgotten() -> None:
    world = crowded()
    rounds(world, a=[10.0], b=[10.0], c=[10.0])
    world.end(alone("a"))
    rounds(world, b=[9.0], c=[9.0])
    assert sorted(key for key in world.snapshot.memory if key.startswith(KEY)) == [KEY + "job-b", KEY + "job-c"]


def test_a_decision_changes_nothing_but_by_its_actions() -> None:
    world = crowded()
    rounds(world, a=CONVERGING[:4], b=GROWING[:4], c=GROWING[:4])
    world.now += 30.0
    told = [Reported(f"job-{name}", Report(world.now, 4.98)) for name in "abc"]
    policy, world.policy = world.policy, SpeCon(interval=1e9)
    world.do(*told)
    one, two = policy.decide(world.snapshot, world.now), policy.decide(world.snapshot, world.now)
    assert one == two
    assert any(isinstance(action, Migrate) for action in list[Action](one.actions))


# -- The tests below are about remembered times that are in the future because a clock was wrong. ------


def test_what_a_clock_that_was_ahead_has_written_does_not_hold_the_rounds_up() -> None:
    """The clock of the replica that led before was an hour ahead, and what it wrote is on the job objects."""
    world = scene(PLAIN, ["n1", "n2"], "a", "b", "c")
    rounds(world, a=CONVERGING[:3], b=GROWING[:3], c=GROWING[:3])
    before = known(world, "a")
    later = replace(before, since=before.since + 3600, at=(before.at or 0.0) + 3600)
    world.snapshot = replace(
        world.snapshot, memory={**world.snapshot.memory, CLOCK: world.now + 3600, KEY + "job-a": later}
    )
    rounds(world, a=CONVERGING[3:4], b=GROWING[3:4], c=GROWING[3:4])
    assert world.snapshot.memory[CLOCK] == world.now
    assert (known(world, "a").since, known(world, "a").at, known(world, "a").growth) == (world.now, world.now, None)
    assert known(world, "b").growth is not None  # what was written with the right time is kept
    rounds(world, a=CONVERGING[4:5], b=GROWING[4:5], c=GROWING[4:5])
    assert known(world, "a").growth is not None


def test_times_after_now_are_not_believed() -> None:
    told = Progress(since=90.0, category=CC, first=9.0, best=1.0, value=1.0, at=90.0, converged=200.0, restart=150.0)
    assert told.by(200.0) is told
    assert told.by(100.0) == replace(told, since=100.0, value=None, at=None, converged=100.0, restart=100.0)
