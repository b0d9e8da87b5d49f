"""Members that another controller's scheduling gate keeps from kube-scheduler are told with the gate's name."""

from __future__ import annotations

from dataclasses import replace

from policy.answers.explain import explain, verdict_of
from policy.cluster.reasons import Reason, Verdict
from tests.builders import State, World, job, members, node

GATE = "kueue.x-k8s.io/admission"
TOLD = f"the scheduling gate {GATE} keeps worker-0, worker-1, worker-2 and 1 more from kube-scheduler"


def gated(count: int = 4) -> World:
    """Make a gang of four workers, ``count`` of which have the gate of another controller."""
    world = World().nodes(node("n1", cpu=8))
    made = job("a").workers(4, cpu=1, memory=1).done()
    world.see(made)
    world.see(*(replace(one, gates=(GATE,) if n < count else ()) for n, one in enumerate(members(made))))
    return world


def told(world: World) -> Verdict | None:
    return verdict_of(world.snapshot, world.snapshot.jobs["job-a"])


def test_a_plan_whose_members_are_gated_by_others_is_told_so() -> None:
    world = gated()
    assert world.state("a") is State.PLANNED
    assert told(world) == Verdict(Reason.MEMBER_REFUSED, TOLD)


def test_only_the_members_with_a_gate_are_named() -> None:
    found = told(gated(1))
    assert found == Verdict(Reason.MEMBER_REFUSED, f"the scheduling gate {GATE} keeps worker-0 from kube-scheduler")


def test_the_plan_is_given_up_for_that_reason_and_an_innocent_gang_starts() -> None:
    world = gated()
    innocent = job("b").workers(8, cpu=1, memory=1).done()
    world.submit(innocent)
    assert not world.gang("b").admitted
    while world.state("a") is State.PLANNED:
        world.pass_time(5)
    found = told(world)
    assert found is not None
    assert (found.reason, TOLD in found.detail) == (Reason.BACKING_OFF, True)
    assert world.gang("b").admitted
    said = explain(world.snapshot, "job-a", world.policy, world.now)
    assert said is not None
    assert said.waits is not None
    assert TOLD in said.waits.detail


def test_while_it_backs_off_beside_free_room_explain_does_not_say_that_it_fits_now() -> None:
    world = gated()
    while world.state("a") is State.PLANNED:
        world.pass_time(5)
    said = explain(world.snapshot, "job-a", world.policy, world.now)
    assert said is not None
    assert said.arithmetic == f"all members would fit, but {TOLD}"


def test_once_the_gate_is_gone_nothing_is_told_and_the_gang_is_bound() -> None:
    world = gated()
    world.see(*(replace(one, gates=(), version=5) for one in world.snapshot.pods_of("job-a")))
    assert told(world) is None
    world.bind(job("a").workers(4, cpu=1, memory=1).done())
    assert world.state("a") is State.RUNNING
