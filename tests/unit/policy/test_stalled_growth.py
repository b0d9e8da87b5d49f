"""Workers that a running job is given and that never come: reported, tried once more, given back, and a back-off."""

from dataclasses import replace

import pytest

from policy.answers.explain import explain
from policy.answers.otherwise import Beside
from policy.answers.standing import grounds
from policy.answers.verdict import filter_pod
from policy.cluster.actions import RefuseBind, Resize, Stalled
from policy.cluster.events import BindHeld, BindUnknown, Led, PodGone, PodSeen
from policy.cluster.gang import State
from policy.cluster.reasons import Reason
from policy.systems import make_policy
from policy.systems.base import Policy
from tests.builders import World, job, members, node, w

ELASTIC = job("a").workers(1, 4, asked=1, cpu=1)
GROWING = ["kod2", "drs", "dragon", "kod2+specon"]
SECONDS = 60.0


def grown(policy: str | Policy = "kod2") -> World:
    """Start a job of one to four workers with one; it is given room for three more, whose pods nobody creates."""
    system = make_policy(policy) if isinstance(policy, str) else policy
    world = World(system).nodes(node("n1", cpu=1)).start(ELASTIC)
    world.see(node("n1", cpu=4))
    for _ in range(200):
        if world.gang("a").workers == 4:
            break
        world.pass_time(1)
    assert world.gang("a").workers == 4
    return world


def test_what_is_given_back_is_so_too_where_another_policy_is_asked_beside() -> None:
    """As in `replay --policy` and the page's comparison, asking a second policy must not change the state."""
    kod2 = make_policy("kod2")
    alone, beside = grown(kod2), grown(Beside(kod2, make_policy("kubeflow-spread")))
    for _ in range(150):
        alone.pass_time(1)
        beside.pass_time(1)
    assert stalled(alone)[-1].given_back
    assert beside.effects == alone.effects
    assert beside.snapshot == alone.snapshot


def come(world: World, *indices: int) -> None:
    """Create these workers, as the operator does, and bind them on their planned nodes."""
    this = world.snapshot.jobs["job-a"]
    wanted = {w(index) for index in indices}
    world.do(*(PodSeen(world.fresh(pod)) for pod in members(this, 4) if pod.slot in wanted))
    world.bind(this)


def stalled(world: World) -> list[Stalled]:
    return [effect for effect in world.effects if isinstance(effect, Stalled)]


@pytest.mark.parametrize("policy", GROWING)
def test_late_workers_are_reported_once_and_tried_again_under_a_new_plan(policy: str) -> None:
    world = grown(policy)
    plan = world.gang("a").plan
    world.pass_time(SECONDS - 1)
    assert stalled(world) == []
    world.pass_time(1)
    world.pass_time(1)
    assert stalled(world) == [Stalled("job-a", 4, 3, given_back=False)]
    assert (world.gang("a").workers, len(world.gang("a").nodes)) == (4, 4)
    assert world.gang("a").plan != plan


@pytest.mark.parametrize("policy", GROWING)
def test_after_as_long_again_their_room_is_given_back_and_another_job_has_it(policy: str) -> None:
    world = grown(policy)
    world.pass_time(SECONDS)
    assert world.snapshot.free("n1")["cpu"] == 0
    world.pass_time(SECONDS)
    assert world.snapshot.free("n1")["cpu"] == 3000
    assert Stalled("job-a", 4, 3, given_back=True) in world.effects
    assert Resize("job-a", 1) in world.effects
    assert (world.gang("a").workers, world.state("a")) == (1, State.RUNNING)
    world.start(job("b").workers(3, cpu=1))
    assert world.state("b") is State.RUNNING
    assert world.over() == []


@pytest.mark.parametrize("policy", GROWING)
def test_it_is_grown_again_after_a_rest_that_doubles(policy: str) -> None:
    world, rests = grown(policy), []
    for _ in range(3):
        while world.gang("a").workers == 4:
            world.pass_time(1)
        began = world.now
        while world.gang("a").workers == 1:
            world.pass_time(1)
            assert world.now - began < 20 * SECONDS
        rests.append(world.now - began)
    assert [rest // SECONDS for rest in rests] == [2, 4, 8]


@pytest.mark.parametrize("policy", GROWING)
def test_a_worker_that_is_lost_and_does_not_come_again_is_given_back_too(policy: str) -> None:
    """The operator may be down or a quota lowered; without this the worker's room would stay reserved."""
    world = grown(policy)
    come(world, 1, 2, 3)
    world.do(*(PodGone(pod.uid) for pod in world.snapshot.pods_of("job-a") if pod.slot == w(3)))
    world.pass_time(SECONDS)
    assert stalled(world) == [Stalled("job-a", 4, 1, given_back=False)]
    assert world.snapshot.free("n1")["cpu"] == 0
    world.pass_time(SECONDS)
    assert stalled(world)[-1] == Stalled("job-a", 4, 1, given_back=True)
    assert (world.gang("a").workers, world.snapshot.free("n1")["cpu"]) == (3, 1000)


def test_one_that_comes_again_is_waited_for_no_more() -> None:
    world = grown()
    come(world, 1, 2, 3)
    world.do(*(PodGone(pod.uid) for pod in world.snapshot.pods_of("job-a") if pod.slot == w(3)))
    world.pass_time(SECONDS - 1)
    come(world, 3)
    world.pass_time(10 * SECONDS)
    assert (stalled(world), world.gang("a").workers) == ([], 4)


def test_workers_that_are_done_are_not_waited_for() -> None:
    """The workers with the highest indices of an Indexed Job have succeeded, and their pods are removed one by one."""
    world = grown()
    come(world, 1, 2, 3)
    world.see(replace(world.snapshot.jobs["job-a"], over=(w(2), w(3))))
    world.do(*(PodGone(pod.uid) for pod in world.snapshot.pods_of("job-a") if pod.slot in (w(2), w(3))))
    world.pass_time(10 * SECONDS)
    assert (stalled(world), world.gang("a").workers) == ([], 4)


def test_each_one_that_comes_gives_the_others_their_time_anew() -> None:
    world = grown()
    world.pass_time(SECONDS - 10)
    come(world, 1)
    world.pass_time(SECONDS - 10)
    assert stalled(world) == []
    world.pass_time(10)
    assert stalled(world) == [Stalled("job-a", 4, 2, given_back=False)]
    world.pass_time(SECONDS)
    assert world.gang("a").workers == 2
    assert {str(slot) for slot in world.gang("a").nodes} == {"worker-0", "worker-1"}


def test_the_last_one_ends_the_wait_and_earlier_failures_are_forgotten() -> None:
    world = grown()
    for _ in range(2):
        world.pass_time(SECONDS)
    assert world.gang("a").tries.attempts == 1
    while world.gang("a").workers == 1:
        world.pass_time(1)
    come(world, 1, 2, 3)
    gang = world.gang("a")
    assert (gang.awaited, gang.tries.attempts, gang.tries.not_before) == (0, 0, 0.0)
    world.pass_time(10 * SECONDS)
    assert world.gang("a").workers == 4


def test_pods_that_come_after_all_are_refused_as_surplus() -> None:
    world = grown()
    world.pass_time(SECONDS)
    world.pass_time(SECONDS)
    late = next(world.fresh(pod) for pod in members(world.snapshot.jobs["job-a"], 4) if pod.slot == w(3))
    other = job("b").workers(3, cpu=1)
    world.start(other)
    world.see(late)
    assert filter_pod(world.snapshot, late.uid, ["n1"]).reason is Reason.SURPLUS
    assert [type(effect) for effect in world.do(BindHeld(late.uid, "n1"))] == [RefuseBind]
    assert world.over() == []


def test_a_worker_in_the_middle_that_is_lost_takes_nobody_with_it() -> None:
    """Workers are only taken from the end, so no running worker is removed in place of a missing one before it."""
    world = grown()
    come(world, 1, 3)
    for _ in range(4):
        world.pass_time(SECONDS)
    assert (world.gang("a").workers, stalled(world)) == (4, [])


def test_it_keeps_its_minimum() -> None:
    world = grown()
    world.see(job("a").workers(3, 4, asked=4, cpu=1))
    world.effects.clear()
    for _ in range(3):
        world.pass_time(SECONDS)
    assert [effect.workers for effect in world.effects if isinstance(effect, Resize)] == [3]


def test_those_that_a_job_starts_with_beyond_its_minimum_are_awaited_alike() -> None:
    world = World(make_policy("kod2")).nodes(node("n1", cpu=1), node("n2", cpu=3))
    this = job("a").workers(1, 3, asked=1, cpu=1).done()
    world.submit(this)
    assert world.gang("a").workers == 3
    world.bind(this)
    assert world.state("a") is State.RUNNING
    world.pass_time(SECONDS)
    world.pass_time(SECONDS)
    assert world.gang("a").workers == 1


@pytest.mark.parametrize("policy", ["fifo", "specon", "oasis"])
def test_a_policy_that_never_grows_what_runs_has_it_reported_only(policy: str) -> None:
    """Such a policy would not give the workers again; OASiS's schedule, for example, states their numbers."""
    world = World(make_policy(policy)).nodes(node("n1", cpu=4))
    this = job("a").workers(1, 4, asked=4, cpu=1).done()
    world.see(this)
    world.do(*(PodSeen(pod) for pod in members(this, 1)))
    while world.state("a") is State.WAITING:
        world.pass_time(1)
    world.bind(this)
    assert (world.state("a"), world.gang("a").workers) == (State.RUNNING, 4)
    for _ in range(8):
        world.pass_time(SECONDS)
    assert stalled(world) == [Stalled("job-a", 4, 3, given_back=False)]
    assert world.gang("a").workers == 4


def test_a_follower_concludes_nothing_and_a_new_leader_gives_the_whole_time() -> None:
    world = grown()
    world.do(Led(leading=False))
    for _ in range(3):
        world.pass_time(SECONDS)
    world.do(Led(leading=True))
    world.pass_time(SECONDS - 1)
    assert stalled(world) == []
    assert world.gang("a").workers == 4
    world.pass_time(1)
    assert len(stalled(world)) == 1


def test_a_running_gang_with_a_lost_binding_is_not_released_by_whoever_leads_again() -> None:
    world = grown()
    late = next(world.fresh(pod) for pod in members(world.snapshot.jobs["job-a"], 4) if pod.slot == w(1))
    world.see(late)
    world.hold(late.uid)
    world.do(BindUnknown(late.uid))
    world.do(PodGone("nobody"), Led(leading=False))
    world.do(Led(leading=True))
    for _ in range(4):
        world.pass_time(SECONDS)
    assert world.state("a") is State.RUNNING
    assert world.gang("a").workers >= 1


def test_a_shrink_for_another_job_ends_the_wait() -> None:
    world = grown()
    world.start(job("b").workers(3, cpu=1))
    assert (world.state("b"), world.gang("a").workers) == (State.RUNNING, 1)
    for _ in range(3):
        world.pass_time(SECONDS)
    assert stalled(world) == []


def test_explain_says_so_while_they_are_late_and_what_holds_its_growth_then() -> None:
    world = grown()
    world.pass_time(SECONDS)
    told = explain(world.snapshot, "job-a", world.policy, world.now)
    assert told is not None
    assert told.waits is not None
    assert (told.waits.reason, told.waits.detail) == (
        Reason.STALLED.value,
        "the job was given 4 workers, and 3 of them have not arrived",
    )
    assert "ResourceQuota" in told.mend
    world.pass_time(SECONDS)
    told = explain(world.snapshot, "job-a", world.policy, world.now)
    stands = grounds(world.snapshot, world.snapshot.jobs["job-a"], world.policy, world.now)
    assert told is not None
    assert stands is not None
    assert told.waits is None
    assert stands.growth.startswith("its last growth")
    assert "120 s" in stands.growth
