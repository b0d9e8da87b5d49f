"""Room that another scheduler has promised: nominated pods, victims of its preemption, and what they leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.sim.invariants import bound_into_taken
from policy.answers.explain import explain, verdict_of
from policy.cluster.actions import Preempted
from policy.cluster.job import Job
from policy.cluster.pod import Phase, Pod
from policy.cluster.preemption import VACATED_SECONDS, Preemption
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from tests.builders import (
    START,
    Bind,
    BindHeld,
    JobBuilder,
    NodeSeen,
    PodGone,
    PodSeen,
    RefuseBind,
    Released,
    Resize,
    State,
    Synced,
    World,
    guest,
    job,
    node,
    pod,
    res,
    w,
)

URGENT = 1000


def preemptor(name: str = "other", where: str = "n1", cpu: float = 3, priority: int = URGENT) -> Pod:
    """Return a pod of another scheduler, nominated to a node where it preempts others."""
    return pod(name, nominated=where, requests=res(cpu, 1, pods=1), priority=priority)


def full_cluster(workers: int = 6, *, cpu: float = 1, least: int = 1, most: int | None = None) -> tuple[World, Job]:
    """Make two nodes that an elastic job of ``workers`` workers fills; return the world and the job."""
    per_node = workers * cpu / 2
    world = World().nodes(node("n1", cpu=per_node), node("n2", cpu=per_node))
    made = job("a").workers(least, workers if most is None else most, asked=workers, cpu=cpu, memory=1).done()
    world.start(made)
    assert len([p for p in world.snapshot.pods_of(made.uid) if p.node]) == workers
    return world, made


def on(world: World, made: Job, where: str) -> list[Pod]:
    return [p for p in world.snapshot.pods_of(made.uid) if p.node == where and not p.ended]


def evict(world: World, victims: list[Pod]) -> None:
    """Mark the victims as preempted by kube-scheduler, then as terminating, then remove them."""
    for victim in victims:
        world.see(replace(victim, preempted=True))
    for victim in victims:
        world.see(replace(world.snapshot.pods[victim.uid], terminating=True))
    world.do(*(PodGone(victim.uid) for victim in victims))


def recreate(world: World, victims: list[Pod]) -> list[Pod]:
    """Create the same pods again, as their operator does."""
    new = [world.fresh(replace(victim, node="", plan="", preempted=False, phase=Phase.PENDING)) for victim in victims]
    world.do(*(PodSeen(one) for one in new))
    return [world.snapshot.pods[one.uid] for one in new]


def binds(world: World) -> list[Bind]:
    return [effect for effect in world.effects if isinstance(effect, Bind)]


def try_to_bind(world: World, members: list[Pod]) -> None:
    """Make the bind call of every unbound member that has a planned node, and let the bindings succeed."""
    for member in members:
        gang = world.snapshot.gang(member.job_uid)
        if member.uid in world.snapshot.pods and member.slot in gang.nodes and not member.node:
            effects = world.hold(member.uid)
            assert bound_into_taken(world.snapshot, effects) == []
            world.answer(effects)


# -- The tests below are about the room of nominated pods. ----------------------------------------


def test_members_that_are_preempted_say_by_whom_also_when_the_preemptor_is_bound() -> None:
    world, made = full_cluster(least=6)
    victims = on(world, made, "n1")[:1]
    world.see(preemptor(cpu=1), replace(guest("lesser", "n1", cpu=0), priority=-1))
    evict(world, victims)
    recreate(world, victims)
    said = f"{victims[0].slot} lost its room on n1 to team/other"
    assert verdict_of(world.snapshot, world.snapshot.jobs[made.uid]) == Verdict(Reason.PREEMPTED, said)
    world.see(replace(world.pod("other"), nominated="", node="n1", phase=Phase.RUNNING))
    assert verdict_of(world.snapshot, world.snapshot.jobs[made.uid]) == Verdict(Reason.PREEMPTED, said)


@pytest.mark.parametrize("cpu", [1, 3])
def test_a_preempted_worker_is_not_bound_again_into_the_room_of_a_nominated_pod(cpu: int) -> None:
    world, made = full_cluster()
    victims = on(world, made, "n1")[:cpu]
    world.see(preemptor(cpu=cpu))
    evict(world, victims)
    world.effects.clear()
    try_to_bind(world, recreate(world, victims))
    assert binds(world) == []
    world.see(replace(world.pod("other"), nominated="", node="n1", phase=Phase.RUNNING))
    try_to_bind(world, list(world.snapshot.pods_of(made.uid)))
    assert binds(world) == []
    assert not world.over()


def test_room_goes_back_to_the_workers_once_the_preemptor_has_ended() -> None:
    world, made = full_cluster()
    victims = on(world, made, "n1")
    world.see(preemptor())
    evict(world, victims)
    world.see(replace(world.pod("other"), nominated="", node="n1", phase=Phase.RUNNING))
    world.pass_time(700)
    world.operate(made)
    assert len(on(world, made, "n1")) == 0
    world.see(replace(world.pod("other"), phase=Phase.SUCCEEDED))
    world.operate(made)
    assert world.gang("a").workers == 6
    assert len(on(world, made, "n1")) == 3


def waits(world: World, priority: int = 0) -> JobBuilder:
    """Make a waiting gang of one worker of 2 cores, whose pod has that priority."""
    made = job("b").workers(1, cpu=2, memory=1).done()
    world.do(*(PodSeen(pod("b-worker-0", made, w(0), priority=priority)),))
    world.see(made)
    return JobBuilder(made)


@pytest.mark.parametrize(("priority", "starts"), [(0, False), (URGENT, False), (URGENT + 1, True)])
def test_only_a_gang_of_higher_priority_starts_in_the_room_of_a_nominated_pod(priority: int, starts: bool) -> None:
    world = World().nodes(node("n1", cpu=4))
    world.see(preemptor(cpu=3))
    made = waits(world, priority)
    world.bind(made)
    assert [bind.node for bind in binds(world)] == (["n1"] if starts else [])
    assert bound_into_taken(world.snapshot, world.effects) == []


def test_a_gang_of_higher_priority_keeps_its_plan_when_a_pod_of_lower_priority_is_nominated() -> None:
    world = World().nodes(node("n1", cpu=4))
    made = waits(world, priority=URGENT + 1)
    world.see(preemptor(cpu=3))
    assert world.plan("b") == {"worker-0": "n1"}
    assert not [effect for effect in world.effects if isinstance(effect, Released)]
    world.bind(made)
    assert [bind.node for bind in binds(world)] == ["n1"]


def test_a_nomination_that_another_one_of_the_same_size_replaces_counts_by_its_own_priority() -> None:
    world = World().nodes(node("n1", cpu=4))
    low, high = preemptor("low", priority=0), preemptor("high", priority=URGENT)
    world.see(high)
    made = waits(world, priority=500)
    assert world.state("b") is State.WAITING
    world.do(PodGone(high.uid), PodSeen(low))
    assert world.plan("b") == {"worker-0": "n1"}
    world.bind(made)
    assert [bind.node for bind in binds(world)] == ["n1"]


def test_a_plan_is_given_up_for_a_nomination_and_made_anew_on_another_node() -> None:
    world = World().nodes(node("n1", cpu=4))
    waits(world)
    assert world.plan("b") == {"worker-0": "n1"}
    world.do(NodeSeen(node("n2", cpu=4)))
    world.see(preemptor(cpu=3))
    assert world.plan("b") == {"worker-0": "n2"}


ENDS = {
    "cleared": lambda world: world.see(replace(world.pod("other"), nominated="")),
    "moved": lambda world: world.see(replace(world.pod("other"), nominated="n2")),
    "deleted": lambda world: world.do(PodGone("uid-other")),
    "terminating": lambda world: world.see(replace(world.pod("other"), terminating=True)),
    "ended": lambda world: world.see(replace(world.pod("other"), phase=Phase.FAILED)),
    "bound elsewhere": lambda world: world.see(replace(world.pod("other"), nominated="", node="n2")),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_nomination_that_ends_frees_the_room_in_the_same_step(how: str) -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=1))
    world.see(preemptor(cpu=3))
    waits(world)
    assert world.state("b") is State.WAITING
    ENDS[how](world)
    assert world.plan("b") == {"worker-0": "n1"}


def test_a_bound_preemptor_is_charged_once() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.see(preemptor(cpu=3))
    assert world.snapshot.free("n1")["cpu"] == 1000
    world.see(replace(world.pod("other"), node="n1"))  # an API server before 1.35 keeps the nomination on a bound pod
    assert world.snapshot.free("n1")["cpu"] == 1000
    assert not world.snapshot.preemptions


def test_two_preemptors_on_one_node_keep_room_for_both() -> None:
    world = World().nodes(node("n1", cpu=4))
    world.see(preemptor("one", cpu=1), preemptor("two", cpu=2))
    assert world.snapshot.free("n1")["cpu"] == 1000
    world.see(replace(world.pod("one"), nominated="", node="n1"))
    assert world.snapshot.free("n1")["cpu"] == 1000
    world.do(PodGone("uid-two"))
    assert world.snapshot.free("n1")["cpu"] == 3000


def test_a_nomination_of_a_member_of_ours_is_its_plan_and_not_charged_beside_it() -> None:
    world = World().nodes(node("n1", cpu=4))
    made = waits(world)
    world.see(replace(world.pod("b-worker-0"), nominated="n1"))
    assert world.snapshot.free("n1")["cpu"] == 2000
    world.bind(made)
    assert [bind.node for bind in binds(world)] == ["n1"]


def test_a_nomination_for_a_node_that_is_not_known_yet_counts_when_the_node_comes() -> None:
    world = World().nodes(node("n1", cpu=1))
    world.see(preemptor(where="n9", cpu=3))
    waits(world)
    world.do(NodeSeen(node("n9", cpu=4)))
    assert world.state("b") is State.WAITING
    world.do(PodGone("uid-other"))
    assert world.plan("b") == {"worker-0": "n9"}


def test_a_restart_finds_the_nomination_again() -> None:
    world, made = full_cluster()
    world.see(preemptor(cpu=3))
    evict(world, on(world, made, "n1"))
    world.pass_time(VACATED_SECONDS)
    again = World(now=world.now)
    again.do(*(NodeSeen(n) for n in world.snapshot.nodes.values()))
    again.see(*world.snapshot.jobs.values())
    again.do(*(PodSeen(p) for p in world.snapshot.pods.values()), Synced())
    for kept in ("preemptions", "foreign"):
        assert getattr(again.snapshot, kept) == getattr(world.snapshot, kept)
    assert again.snapshot.free("n1") == world.snapshot.free("n1") == res(0, 32 - 1, pods=109)


# -- The tests below are about the room of preempted members. -------------------------------------


def test_the_room_of_a_victim_is_kept_until_the_nomination_is_seen() -> None:
    """The watch may show that victims are gone, and created again, before it shows the nominated pod."""
    world, made = full_cluster()
    victims = on(world, made, "n1")[:1]
    evict(world, victims)
    world.effects.clear()
    new = recreate(world, victims)
    try_to_bind(world, new)
    assert binds(world) == []
    world.see(preemptor(cpu=1))
    world.pass_time(VACATED_SECONDS)
    try_to_bind(world, new)
    assert binds(world) == []


def test_a_victim_that_is_still_stopping_has_its_successor_planned_elsewhere() -> None:
    world, made = full_cluster(least=6)
    victim = on(world, made, "n1")[0]
    world.do(NodeSeen(node("n3", cpu=1)))
    world.see(preemptor(cpu=1), replace(victim, preempted=True))
    # a victim that is not terminating yet may never be deleted, so it keeps its slot
    assert world.plan("a")[str(victim.slot)] == "n1"
    world.see(replace(world.snapshot.pods[victim.uid], terminating=True))
    assert world.plan("a")[str(victim.slot)] == "n3"


def test_a_victim_that_goes_without_stopping_first_loses_its_place_too() -> None:
    world, made = full_cluster(least=6)
    victim = on(world, made, "n1")[0]
    world.see(replace(victim, preempted=True))
    world.do(PodGone(victim.uid))
    world.pass_time(VACATED_SECONDS - 1)
    assert str(victim.slot) not in world.plan("a")
    told = [effect for effect in world.effects if isinstance(effect, Preempted)]
    assert [dict(effect.nodes) for effect in told] == [{victim.slot: "n1"}]


def test_the_room_of_a_victim_is_free_again_when_nobody_comes_for_it() -> None:
    world, made = full_cluster(least=6)
    victims = on(world, made, "n1")[:1]
    evict(world, victims)
    new = recreate(world, victims)
    world.pass_time(VACATED_SECONDS - 0.1)
    assert victims[0].slot not in world.gang("a").nodes
    world.pass_time(0.1)
    world.effects.clear()
    try_to_bind(world, new)
    assert [bind.node for bind in binds(world)] == ["n1"]


def test_what_victims_leave_beyond_the_preemptor_is_free_once_that_is_bound() -> None:
    world = World().nodes(node("n1", cpu=10))
    made = job("a").workers(1, cpu=10, memory=1).done()
    world.start(made)
    small = job("b").workers(1, cpu=2, memory=1)
    world.submit(small)
    world.see(preemptor(cpu=3))
    evict(world, on(world, made, "n1"))
    assert world.state("b") is State.WAITING
    world.see(replace(world.pod("other"), nominated="", node="n1", phase=Phase.RUNNING))
    assert world.plan("b") == {"worker-0": "n1"}


def test_victims_that_still_hold_their_room_are_not_charged_beside_the_claim() -> None:
    world = World().nodes(node("n1", cpu=4))
    bound = guest("low", "n1", cpu=3)
    world.see(bound)
    world.see(replace(bound, preempted=True))
    world.see(preemptor(cpu=3))
    assert world.snapshot.free("n1")["cpu"] == 1000
    waits(world)
    world.see(replace(world.pod("low"), terminating=True))
    world.do(PodGone("uid-low"))
    assert world.snapshot.free("n1")["cpu"] == 1000


def test_nobody_is_planned_into_the_room_that_victims_are_leaving() -> None:
    world, made = full_cluster(least=1)
    victims = on(world, made, "n1")
    for victim in victims:
        world.see(replace(victim, preempted=True))
        world.see(replace(world.snapshot.pods[victim.uid], terminating=True))
    rival = job("b").workers(1, cpu=3, memory=1).with_(utility=0.1, utility_stated=True)
    world.submit(rival)
    assert not {victim.uid for victim in victims}.intersection(world.gang("b").waits_for)


# -- The tests below are about what becomes of a gang that loses members to a preemption. ---------


def test_an_elastic_gang_goes_on_with_fewer_workers_and_says_who_preempted_it() -> None:
    world, made = full_cluster()
    last = [p for p in world.snapshot.pods_of(made.uid) if p.slot == w(5)]
    where = last[0].node
    world.see(preemptor(where=where, cpu=1))
    evict(world, last)
    recreate(world, last)
    assert world.gang("a").workers == 5
    assert Preempted(made.uid, {w(5): where}, ("team/other",)) in world.effects
    assert Resize(made.uid, 5) in world.effects
    assert world.state("a") is State.RUNNING


def test_an_operator_that_stumbles_over_gaps_has_made_all_lost_workers_again_before_the_gang_is_shrunk() -> None:
    world, made = full_cluster()
    last = [p for p in world.snapshot.pods_of(made.uid) if p.slot in (w(3), w(4), w(5))]
    world.see(preemptor(where=last[0].node, cpu=3))
    evict(world, last)
    recreate(world, last[1:])
    assert world.gang("a").workers == 6
    recreate(world, last[:1])
    assert world.gang("a").workers == 3


def test_a_worker_amid_the_others_waits_for_room_and_no_other_worker_goes_for_it() -> None:
    world, made = full_cluster()
    first = on(world, made, "n1")[:1]
    assert first[0].slot == w(0)
    world.see(preemptor(cpu=1))
    evict(world, first)
    recreate(world, first)
    assert world.gang("a").workers == 6
    told = explain(world.snapshot, made.uid, world.policy, world.now)
    assert told is not None
    assert told.waits is not None
    assert told.waits.reason == "MembersPreempted"
    assert "worker-0" in told.waits.detail
    assert "team/other" in told.waits.detail


def test_a_lost_member_goes_where_there_is_other_room() -> None:
    world, made = full_cluster(least=6)
    victims = on(world, made, "n1")[:1]
    world.see(preemptor(cpu=1))
    world.do(NodeSeen(node("n3", cpu=1)))
    evict(world, victims)
    world.effects.clear()
    try_to_bind(world, recreate(world, victims))
    assert [bind.node for bind in binds(world)] == ["n3"]
    assert world.gang("a").preempted == {}
    assert world.snapshot.gang(made.uid).lost == {}


def test_a_rigid_gang_that_finds_no_room_is_released_for_the_preemption() -> None:
    world, made = full_cluster(least=6)
    victims = on(world, made, "n1")[:1]
    world.see(preemptor(cpu=1))
    evict(world, victims)
    recreate(world, victims)
    assert world.state("a") is State.REPAIRING
    world.pass_time(100)
    assert [effect.reason.value for effect in world.effects if isinstance(effect, Released)] == ["MembersPreempted"]


# -- In the tests below, room is lost just when a gang is to be bound. ----------------------------


def test_a_complete_gang_is_not_bound_when_the_same_batch_tells_of_a_nomination() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=1))
    waits(world)
    effects = world.do(PodSeen(preemptor(cpu=3)), BindHeld("uid-b-worker-0", "n1"))
    assert [type(effect) for effect in effects if isinstance(effect, Bind | RefuseBind)] == [RefuseBind]
    assert world.state("b") is State.WAITING


def test_a_worker_that_follows_its_gang_is_not_bound_when_the_same_batch_tells_of_a_nomination() -> None:
    world = World().nodes(node("n1", cpu=4))
    made = job("b").workers(1, 2, asked=2, cpu=2, memory=1).done()
    world.submit(made)
    world.answer(world.hold("uid-b-worker-0"))
    assert world.state("b") is State.RUNNING
    effects = world.do(PodSeen(preemptor(cpu=2)), BindHeld("uid-b-worker-1", "n1"))
    assert [type(effect) for effect in effects if isinstance(effect, Bind | RefuseBind)] == [RefuseBind]
    assert world.gang("b").nodes.get(w(1)) is None


def test_a_binding_into_room_that_is_known_to_be_taken_is_named() -> None:
    world = World().nodes(node("n1", cpu=4))
    waits(world)
    snapshot: Snapshot = world.snapshot
    bind = Bind("uid-b-worker-0", "team", "b-worker-0", "n1", "p", w(0))
    flying = replace(snapshot.gang("job-b"), in_flight={"uid-b-worker-0": "n1"})
    sent = replace(snapshot, gangs={"job-b": flying})
    assert bound_into_taken(sent, [bind]) == []
    for taker in (preemptor(cpu=3), guest("guest", "n1", cpu=3)):
        other = World(snapshot=sent, checked=False)
        other.snapshot = replace(sent, pods={**sent.pods, taker.uid: taker})
        if taker.claims:
            other.snapshot = replace(other.snapshot, preemptions=_promised(taker))
        assert len(bound_into_taken(other.snapshot, [bind])) == 1
    lower = preemptor(cpu=3, priority=-1)
    assert bound_into_taken(replace(sent, preemptions=_promised(lower)), [bind]) == []


def _promised(taker: Pod) -> dict[str, Preemption]:
    world = World(now=START)
    world.see(taker)
    return dict(world.snapshot.preemptions)
