"""Room of a plan that another pod takes: the plan ends in the step that learns of this, without a time-out."""

from policy.cluster.gang import State
from policy.cluster.reasons import Reason
from tests.builders import PodGone, RefuseBind, Released, World, guest, job, node

GANG = job("a").ps().workers(2, cpu=4)


def stolen(effects: object) -> list[str]:
    """Return the jobs whose plan was given up because its room was taken."""
    assert isinstance(effects, tuple)
    return [e.job_uid for e in effects if isinstance(e, Released) and e.reason is Reason.ROOM_TAKEN]


def test_a_gang_moves_to_other_room_in_the_step_that_sees_the_theft() -> None:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    world.hold("uid-a-worker-0")
    effects = world.see(guest("thief", "n1", cpu=5))
    assert stolen(effects) == ["job-a"]
    assert RefuseBind("uid-a-worker-0", Reason.ROOM_TAKEN) in effects
    assert (world.state("a"), set(world.plan("a").values())) == (State.PLANNED, {"n2"})


def test_where_no_node_is_left_it_waits_says_so_and_is_planned_when_the_thief_goes() -> None:
    world = World().nodes("n1")
    world.submit(GANG)
    assert stolen(world.see(guest("thief", "n1", cpu=5))) == ["job-a"]
    assert (world.state("a"), world.reason("a")) == (State.WAITING, "RoomHeldByOtherPods")
    world.do(PodGone("uid-thief"))
    assert world.state("a") is State.PLANNED


def test_a_guest_beside_whom_the_gang_still_fits_changes_nothing() -> None:
    world = World().nodes("n1")
    world.submit(GANG)
    plan = world.gang("a").plan
    assert stolen(world.see(guest("neighbour", "n1", cpu=1))) == []
    assert world.gang("a").plan == plan


def test_only_as_many_plans_go_as_must_and_the_one_that_came_last_goes_first() -> None:
    world = World().nodes("n1")
    world.submit(job("first").workers(1, cpu=4))
    world.submit(job("last").workers(1, cpu=4).arrived(5))
    assert stolen(world.see(guest("thief", "n1", cpu=4))) == ["job-last"]
    assert (world.state("first"), world.state("last")) == (State.PLANNED, State.WAITING)


def test_a_node_that_shrinks_is_a_thief_too() -> None:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    assert stolen(world.see(node("n1", cpu=5))) == ["job-a"]
    assert set(world.plan("a").values()) == {"n2"}


def test_what_is_bound_already_is_not_given_up_for_a_thief() -> None:
    world = World().nodes("n1").start(GANG)
    assert stolen(world.see(guest("thief", "n1", cpu=5))) == []
    assert world.state("a") is State.RUNNING


def waiting_for_room() -> World:
    """Plan a heavy gang in the room of two workers of a light gang, whose pods have not gone yet."""
    world = World().nodes("n1").start(job("light").workers(1, 5, asked=5))
    world.submit(job("heavy", utility=9.0).workers(2).arrived(1))
    assert world.gang("heavy").waits_for
    return world


def test_a_plan_that_waits_for_room_is_not_taken_for_a_theft() -> None:
    world = waiting_for_room()
    assert stolen(world.see(guest("neighbour", "n1", cpu=0))) == []
    assert world.state("heavy") is State.PLANNED


def test_room_that_was_stolen_while_it_was_being_freed_is_found_out_when_it_is_free() -> None:
    world = waiting_for_room()
    world.see(guest("thief", "n1", cpu=3))
    assert world.gang("heavy").waits_for
    assert stolen(world.do(*(PodGone(uid) for uid in world.gang("heavy").waits_for))) == ["job-heavy"]
