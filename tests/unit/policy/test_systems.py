"""The registry of policies, and the baseline policies."""

import math

import pytest

from policy.cluster.gang import State
from policy.placement.spread import Order
from policy.systems import SYSTEMS, make_policy
from policy.systems.baselines import FifoPod, KubeflowSpread, Retry
from policy.systems.kod2 import Gate, Kod2
from tests.builders import JobSeen, NodeSeen, PodSeen, Synced, World, job, node

BAD = {
    "an unknown name": ("kod3", {}, f"policy 'kod3' is not known; known are {', '.join(sorted(SYSTEMS))}"),
    "an unknown parameter": (
        "kubeflow-spread",
        {"x": 1},
        "kubeflow-spread has no parameter 'x'; it has backfill, order, seed",
    ),
    "a value that is no choice": ("kod2", {"gate": "wide"}, "kod2: gate is 'wide', must be one of loose, strict"),
    "a value of another type": ("kod2", {"backfill": 1}, "kod2: backfill is 1, must be of type bool"),
    "nobody of that name can move jobs": (
        "kod2+drs",
        {},
        "kod2: 'drs' cannot move its jobs; allowed are guests, specon",
    ),
    "a system does not move its own jobs twice": (
        "specon+specon",
        {},
        "specon: 'specon' cannot move its jobs; allowed are guests",
    ),
    "the same by two names": (
        "kod2",
        {"cooldown": 1, "cooldown_seconds": 2},
        "kod2: cooldown_seconds is given twice, also as cooldown",
    ),
    "a name with a unit of another system": (
        "fifo-pod",
        {"cooldown_seconds": 1},
        "fifo-pod has no parameter 'cooldown_seconds'; it has retry, seed",
    ),
    "what there is, by the names with units": (
        "drs",
        {"patience": 1},
        "drs has no parameter 'patience'; it has behind_head, by_node, cooldown_seconds, in_turns, requirement, "
        "restart_seconds, scale_up, slot_seconds, victims, worth",
    ),
    "a truth value is no number": ("kod2", {"cooldown": True}, "kod2: cooldown is True, must be of type float"),
}


@pytest.mark.parametrize(("name", "parameters", "error"), BAD.values(), ids=BAD.keys())
def test_make_policy_names_what_is_wrong(name: str, parameters: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make_policy(name, **parameters)
    assert str(caught.value) == error


def test_make_policy_from_plain_values() -> None:
    assert make_policy("kod2", gate="strict", cooldown=5) == Kod2(gate=Gate.STRICT, cooldown=5.0)
    assert make_policy("fifo-pod", retry="random", seed=7) == FifoPod(Retry.RANDOM, 7)
    assert {make_policy(name).name for name in SYSTEMS} == set(SYSTEMS)


@pytest.mark.parametrize(
    ("word", "order"),
    [("apart", Order.APART), ("least", Order.LEAST), ("chance", Order.CHANCE), ("turn", Order.TURN)],
)
def test_the_orders_of_kubeflow_spread_are_given_by_their_words(word: str, order: Order) -> None:
    assert make_policy("kubeflow-spread", order=word) == KubeflowSpread(order=order)


def test_a_parameter_has_the_name_with_its_unit_everywhere() -> None:
    """The settings' section kod2 uses the names with units; make_policy also accepts the shorter names
    of the policies.
    """
    long = make_policy("kod2", starve_limit_seconds=90, cooldown_seconds=5)
    assert long == make_policy("kod2", starve_limit=90, cooldown=5) == Kod2(starve_limit=90.0, cooldown=5.0)
    assert make_policy("drs+specon", cooldown_seconds=7) == make_policy("drs+specon", cooldown=7)


def test_fifo_pod_places_half_jobs_which_hold_their_room() -> None:
    world = World(FifoPod()).nodes("n1")
    a, b = (job(name).ps().workers(3, cpu=2, memory=2) for name in ("a", "b"))
    world.submit(a, b)
    world.bind(a)
    world.bind(b)
    assert (world.state("a"), world.state("b")) == (State.RUNNING, State.BINDING)
    assert set(world.plan("b")) == {"ps-0", "worker-0"}
    world.pass_time(10_000)
    assert world.state("b") is State.BINDING
    world.end(a)
    world.bind(b)
    assert world.state("b") is State.RUNNING


def test_fifo_pod_knows_a_half_placed_job_again_after_a_restart() -> None:
    before = World(FifoPod()).nodes("n1")
    half = job("a").ps().workers(5, cpu=3).done()
    before.submit(half)
    before.bind(half)
    world = World(FifoPod()).rules(gangs=False)
    pods = map(PodSeen, before.snapshot.pods.values())
    world.do(JobSeen(half), *pods, *map(NodeSeen, before.snapshot.nodes.values()), Synced())
    assert (world.state("a"), world.plan("a")) == (State.RUNNING, before.plan("a"))
    world.pass_time(10_000)
    assert world.state("a") is State.RUNNING
    world.see(node("n2"))
    assert len(world.plan("a")) == 6


def test_fifo_pod_binds_each_pod_at_once() -> None:
    world = World(FifoPod()).nodes("n1")
    world.submit(job("a").ps().workers(3))
    assert len(world.hold("uid-a-worker-2")) == 1


def test_the_random_retry_order_is_the_seeds_and_the_generations() -> None:
    def order(seed: int) -> list[str]:
        world = World(FifoPod(Retry.RANDOM, seed)).nodes("n1")
        world.submit(*(job(f"j{i}").workers(1, cpu=4) for i in range(8)))
        return [name for name in (f"j{i}" for i in range(8)) if world.state(name) is not State.WAITING]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(6)}) > 1


def test_kubeflow_spread_admits_whole_jobs_spreads_them_and_never_scales() -> None:
    world = World(KubeflowSpread()).nodes("n1", "n2", "n3")
    world.submit(job("a").ps(cpu=2).workers(1, 6, asked=2, cpu=2))
    assert world.plan("a") == {"ps-0": "n1", "worker-0": "n2", "worker-1": "n3"}
    world.bind(job("a"))
    world.pass_time(100)
    assert (world.state("a"), world.gang("a").workers) == (State.RUNNING, 2)


def test_kubeflow_spread_in_turn_goes_on_where_the_last_job_ended() -> None:
    world = World(make_policy("kubeflow-spread", order="turn")).nodes("n1", "n2", node("n3", cpu=1))
    world.submit(job("a").workers(3, cpu=2), job("b").workers(2, cpu=2).arrived(1))
    assert world.plan("a") == {"worker-0": "n1", "worker-1": "n2", "worker-2": "n1"}
    assert world.plan("b") == {"worker-0": "n1", "worker-1": "n2"}
    world.submit(job("c").workers(2, cpu=2).arrived(2), job("d").workers(1, cpu=40))
    assert world.plan("c") == {"worker-0": "n1", "worker-1": "n1"}
    assert not make_policy("kubeflow-spread", order="turn").draws


@pytest.mark.parametrize(("backfill", "state"), [(True, State.PLANNED), (False, State.WAITING)])
def test_kubeflow_spread_order(backfill: bool, state: State) -> None:
    world = World(KubeflowSpread(backfill)).nodes("n1")
    world.start(job("a").workers(1, cpu=6))
    world.submit(job("b").workers(1, cpu=6).arrived(1), job("c").workers(1, cpu=2).arrived(2))
    assert (world.state("b"), world.state("c")) == (State.WAITING, state)


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        ("specon", {"interval": 0}, "specon: interval is 0.0, must be above 0, and finite"),
        ("specon", {"alpha": float("nan")}, "specon: alpha is nan, must be above 0, and finite"),
        ("specon", {"w_cc": -1.0}, "specon: w_cc is -1.0, must be above 0, and finite"),
        ("specon", {"hysteresis": -0.1}, "specon: hysteresis is -0.1, must be 0 or more, and finite"),
        ("specon", {"smoothing": 8}, "specon: smoothing is 8, must be from 1 to 7 reports"),
        ("guests", {"interval": float("inf")}, "guests: interval is inf, must be 0 or more, and finite"),
        ("kod2", {"starve_limit": -1}, "kod2: starve_limit is -1.0, must be 0 or more"),
        ("kod2", {"starve_limit": float("nan")}, "kod2: starve_limit is nan, must be 0 or more"),
        ("kod2", {"cooldown": float("inf")}, "kod2: cooldown is inf, must be 0 or more, and finite"),
        ("kod2", {"restart_seconds": -1}, "kod2: restart_seconds is -1.0, must be 0 or more, and finite"),
        ("drs", {"cooldown": float("nan")}, "drs: cooldown is nan, must be 0 or more, and finite"),
        ("drs", {"slot_seconds": 0}, "drs: slot_seconds is 0.0, must be above 0, and finite"),
        ("drs", {"restart_seconds": -1}, "drs: restart_seconds is -1.0, must be 0 or more, and finite"),
        ("dragon", {"urgent_threshold": -1}, "dragon: urgent_threshold is -1.0, must be 0 or more"),
        ("dragon", {"idle_threshold": float("nan")}, "dragon: idle_threshold is nan, must be 0 or more"),
        ("dragon", {"restart_seconds": -1}, "dragon: restart_seconds is -1.0, must be 0 or more, and finite"),
        ("rrh", {"slot_seconds": 0}, "rrh: slot_seconds is 0.0, must be above 0, and finite"),
        ("rrh", {"threshold": -0.1}, "rrh: threshold is -0.1, must be 0 or more, and finite"),
        ("oasis", {"slot_seconds": float("inf")}, "oasis: slot_seconds is inf, must be above 0, and finite"),
        ("oasis", {"price_ratio": 0.5}, "oasis: price_ratio is 0.5, must be 1 or more, and finite"),
        ("oasis", {"grace": -0.1}, "oasis: grace is -0.1, must be from 0 to 1"),
        ("oasis", {"hopeless": 1.1}, "oasis: hopeless is 1.1, must be from 0 to 1"),
        ("oasis", {"drift": float("nan")}, "oasis: drift is nan, must be 0 or more, and finite"),
        ("oasis", {"end": float("nan")}, "oasis: end is nan, must be seconds since the epoch, or infinite"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(name: str, parameters: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        make_policy(name, **parameters)
    assert str(caught.value) == error


def test_who_is_patient_for_ever_is_never_starved_nor_urgent() -> None:
    """Only these three time limits may be infinite."""
    made = (
        make_policy("dragon", urgent_threshold=math.inf, idle_threshold=math.inf),
        make_policy("kod2", starve_limit=math.inf),
    )
    for policy in made:
        world = World(policy).nodes("n1").start(job("a").workers(1, cpu=8))
        world.submit(job("b").workers(1, cpu=8).arrived(1))
        world.pass_time(1e6)
        assert world.state("b") is State.WAITING
