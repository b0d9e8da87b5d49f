"""What the API server shows becomes fact once, in any order, and is found again after a restart."""

from dataclasses import replace

import pytest

from policy.cluster.constraints import Constraints, Toleration
from policy.cluster.events import Event
from policy.cluster.gang import Scaling, State
from policy.cluster.pod import Phase
from policy.cluster.reasons import Reason
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from tests.builders import (
    START,
    BindHeld,
    JobBuilder,
    JobGone,
    JobSeen,
    Led,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    RefuseBind,
    Synced,
    World,
    guest,
    job,
    members,
    node,
    pod,
    res,
    taint,
    w,
)  # fmt: skip

GANG = job("a").ps().workers(1, 4, asked=2)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    world = World().nodes("n1")
    world.do(NodeSeen(node("n1", cpu=20, version=5)), NodeSeen(node("n1", cpu=1, version=4)))
    assert world.snapshot.nodes["n1"].allocatable == res(20, 32, pods=110)
    world.do(JobSeen(GANG.with_(version=5).done()), JobSeen(GANG.with_(version=4, finished=True).done()))
    assert not world.snapshot.jobs["job-a"].finished
    world.do(PodSeen(pod("p", node="n1", version=5)), PodSeen(pod("p", version=4)))
    assert world.pod("p").node == "n1"


TAINTED = Constraints(tolerations=(Toleration("gpu", "Exists", "", "NoSchedule"),))
SELECTED = Constraints(node_selector=(("pool", "a"),))


def test_members_go_where_their_pods_say_and_not_their_template() -> None:
    """An admission controller has given the pods a toleration, without which no node would take them."""
    world = World().nodes(node("n1", taints=(taint("gpu"),)))
    world.do(JobSeen(GANG.done()))
    pods = [replace(p, places=TAINTED) for p in members(GANG.done())]
    world.do(*map(PodSeen, pods))
    assert world.plan("a").items() >= {str(p.slot): "n1" for p in pods}.items()
    world.do(JobSeen(GANG.with_(version=2).done()))  # a newer version of the job object arrives, with the same template
    assert {role.constraints for role in world.snapshot.jobs["job-a"].roles} == {TAINTED}


@pytest.mark.parametrize("turned", [False, True])
def test_where_pods_of_a_role_differ_the_first_of_them_counts_whoever_is_seen_first(turned: bool) -> None:
    world = World().nodes("n1")
    world.do(JobSeen(GANG.done()))
    first, second = (pod(f"w{n}", GANG.done(), w(n), places=there) for n, there in enumerate((TAINTED, SELECTED)))
    world.do(*map(PodSeen, (second, first) if turned else (first, second)))
    worker = world.snapshot.jobs["job-a"].worker
    assert worker is not None
    assert worker.constraints == TAINTED


def test_a_node_that_was_made_anew_counts_from_its_first_version() -> None:
    world = World().nodes(node("n1", version=9))
    world.do(NodeSeen(node("n1", cpu=2, uid="other", version=1)))
    assert world.snapshot.nodes["n1"].allocatable["cpu"] == 2000


def test_a_late_filter_call_does_not_bring_a_deleted_pod_back() -> None:
    world = World().nodes("n1")
    world.submit(GANG)
    late = world.pod("a-worker-0")
    world.do(PodGone(late.uid))
    world.do(PodSeen(late))
    assert late.uid not in world.snapshot.pods
    world.pass_time(301)
    world.do(PodGone(world.pod("a-worker-1").uid))
    assert late.uid not in world.snapshot.gone


def test_the_slot_is_the_newest_living_pods_whatever_the_order() -> None:
    this = GANG.done()
    old, new = pod("old", this, w(0), since=START), pod("new", this, w(0), since=START + 5)
    for pair in ((old, new), (new, old)):
        world = World().nodes("n1")
        world.do(*(PodSeen(p) for p in pair))
        assert dict(world.snapshot.members["job-a"]) == {w(0): new.uid}
        assert world.snapshot.strays["job-a"] == {old.uid}
        world.do(PodGone(new.uid))
        assert dict(world.snapshot.members["job-a"]) == {w(0): old.uid}
        assert not world.snapshot.strays


@pytest.mark.parametrize("first", [0, 1], ids=["the failed one first", "the failed one last"])
def test_a_failed_pod_gives_its_slot_up_to_one_that_is_as_young(first: int) -> None:
    """A Deployment keeps its failed pods, and a pod that is no younger takes the failed pod's slot (simulation seed
    106482).
    """
    world = World().nodes("n1")
    gang = job("a").workers(2)
    waiting, other = members(gang.done())
    failed = replace(waiting, uid="z", name="failed", node="n1", phase=Phase.FAILED)
    world.see(gang, other, *((failed, waiting) if first == 0 else (waiting, failed)))
    assert world.snapshot.member("job-a", w(0)) == waiting
    assert world.state("a") is State.PLANNED


def test_a_successor_takes_over_the_room_of_its_going_predecessor_without_a_second_charge() -> None:
    world = World().nodes(node("n1", cpu=5))
    world.start(job("a").ps().workers(2))
    world.see(replace(world.pod("a-worker-0"), terminating=True))
    world.see(world.fresh(replace(world.pod("a-worker-0"), node="", terminating=False, phase=Phase.PENDING)))
    assert world.snapshot.charged["n1"]["cpu"] == 5000
    assert world.over() == []


def test_a_failed_member_keeps_its_room_for_its_restart_and_a_succeeded_one_does_not() -> None:
    world = World().nodes("n1").start(job("a").ps().workers(2))
    world.see(replace(world.pod("a-worker-0"), phase=Phase.FAILED))
    assert world.snapshot.charged["n1"]["cpu"] == 5000
    world.see(replace(world.pod("a-worker-1"), phase=Phase.SUCCEEDED))
    assert world.snapshot.charged["n1"]["cpu"] == 3000


def test_workers_that_succeed_one_by_one_are_not_lost() -> None:
    world = World().nodes("n1").start(job("a").ps().workers(3))
    for index in (2, 0, 1):
        world.see(replace(world.pod(f"a-worker-{index}"), phase=Phase.SUCCEEDED))
        world.pass_time(60)
        assert world.state("a") is State.RUNNING


def test_a_user_lowers_the_replicas_and_they_stay_for_the_cool_down() -> None:
    world = World().nodes("n1").start(GANG)
    assert world.gang("a").workers == 4
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).replicas(2))
    assert world.gang("a").workers == 2
    world.pass_time(61)
    assert world.gang("a").workers == 4


def test_a_user_who_raises_the_replicas_is_set_back_to_what_the_policy_gave() -> None:
    world = World().nodes(node("n1", cpu=4)).start(GANG)
    assert world.gang("a").workers == 1
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).replicas(3))
    assert world.gang("a").workers == 1
    assert [order.workers for order in desired(world.snapshot, 500).replicas] == [1]


def test_our_own_earlier_order_that_is_shown_late_is_nobodys_edit() -> None:
    world = World().nodes("n1")
    world.submit(GANG.with_(max_workers=3))
    world.bind(GANG)
    assert world.gang("a").workers == 3
    world.now += 1
    world.submit(job("b").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    assert world.gang("a").workers == 2
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).replicas(3))
    assert world.gang("a").workers == 2
    # The watch shows the ordered 3 workers only after a second shrink, to 1.
    world.snapshot = replace(
        world.snapshot,
        gangs={**world.snapshot.gangs, "job-a": replace(world.gang("a"), workers=3, scaling=Scaling(targets=(2,)))},
    )
    world.checked = False
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).replicas(2))
    assert world.gang("a").workers == 3


def test_bounds_that_change_are_obeyed_at_once() -> None:
    world = World().nodes("n1").start(GANG)
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).with_(max_workers=2))
    assert world.gang("a").workers == 2
    assert set(world.plan("a")) == {"ps-0", "worker-0", "worker-1"}


def test_a_raised_minimum_does_not_break_what_runs() -> None:
    world = World().nodes(node("n1", cpu=5)).start(job("a").ps().workers(2))
    world.see(JobBuilder(world.snapshot.jobs["job-a"]).with_(min_workers=3, max_workers=3))
    world.pass_time(300)
    assert world.state("a") is State.RUNNING


def test_a_job_that_becomes_malformed_keeps_what_it_runs_and_goes_on_when_mended() -> None:
    world = World().nodes("n1").start(GANG)
    good = world.snapshot.jobs["job-a"]
    world.see(replace(good, invalid="spec: no", roles=()))
    world.pass_time(300)
    assert desired(world.snapshot, 500).release == ()
    world.see(good)
    assert world.state("a") is State.RUNNING


def test_a_suspended_job_gives_up_its_plan() -> None:
    world = World().nodes("n1")
    world.submit(GANG)
    world.hold("uid-a-worker-0")
    effects = world.see(JobBuilder(world.snapshot.jobs["job-a"]).with_(suspended=True))
    assert RefuseBind("uid-a-worker-0", Reason.SUSPENDED) in effects or world.state("a") is State.WAITING
    assert not world.snapshot.charged


def test_a_deleted_jobs_pods_hold_their_room_until_they_are_gone() -> None:
    world = World().nodes("n1").start(GANG)
    world.do(JobGone("job-a"))
    assert world.snapshot.charged["n1"]["cpu"] == 9000
    world.do(*(PodGone(p) for p in list(world.snapshot.pods)))
    assert not world.snapshot.charged


def test_nothing_is_decided_before_every_list_is_in() -> None:
    world = World()
    world.do(NodeSeen(node("n1")), JobSeen(GANG.done()), *map(PodSeen, members(GANG.done())))
    assert world.state("a") is State.WAITING
    world.do(Synced())
    assert world.state("a") is State.PLANNED


def test_adoption_after_a_restart_whole_gangs_run_and_half_ones_are_repaired() -> None:
    whole, half = job("a").ps().workers(2).done(), job("b").ps().workers(2).done()
    world = World()
    bound = [replace(p, node="n1", phase=Phase.RUNNING, plan="7-1") for p in members(whole)]
    part = [replace(members(half)[0], node="n1"), *members(half)[1:]]
    world.do(*map(PodSeen, [*bound, *part]), JobSeen(whole), JobSeen(half), NodeSeen(node("n1")), Synced())
    assert (world.state("a"), world.state("b")) == (State.RUNNING, State.REPAIRING)
    assert world.gang("a").plan == "7-1"
    assert set(world.plan("b")) == {"ps-0", "worker-0", "worker-1"}


def test_a_replica_that_stops_leading_forgets_its_plans_and_concludes_nothing_from_time() -> None:
    world = World().nodes("n1")
    world.submit(GANG)
    world.hold("uid-a-worker-0")
    assert world.do(Led(False)) == (RefuseBind("uid-a-worker-0", Reason.NOT_LEADING),)
    assert (world.state("a"), dict(world.snapshot.charged)) == (State.WAITING, {})
    this = world.snapshot.jobs["job-a"]
    world.see(replace(world.pod("a-ps-0"), node="n1"))
    world.pass_time(1000)
    assert world.state("a") is State.REPAIRING
    world.see(replace(world.pod("a-worker-0"), node="n1"))
    assert world.state("a") is State.RUNNING
    world.see(JobBuilder(this).replicas(1))
    assert world.gang("a").workers == 1
    world.see(replace(world.fresh(world.pod("a-worker-1")), node="", slot=w(0)))
    fresh = next(p for p in world.snapshot.pods_of("job-a") if not p.node)
    assert world.do(BindHeld(fresh.uid, "n1")) == (RefuseBind(fresh.uid, Reason.NOT_LEADING),)


def test_foreign_pods_are_counted_apart() -> None:
    world = World().nodes("n1")
    world.see(guest("g", "n1", cpu=3))
    assert world.snapshot.foreign["n1"]["cpu"] == 3000
    world.see(replace(world.pod("g"), phase=Phase.SUCCEEDED))
    assert not world.snapshot.foreign
    assert not world.snapshot.charged


def test_every_field_of_the_snapshot_says_how_it_comes_back() -> None:
    fields = Snapshot.__dataclass_fields__.values()
    assert all(f.metadata["kept"].split(":")[0] in ("derived", "volatile", "persisted") for f in fields)


def test_a_node_that_comes_back_brings_its_bound_pods_with_it() -> None:
    world = World().nodes("n1").start(job("a").workers(1))
    world.do(NodeGone("n1"))
    assert world.state("a") is State.REPAIRING
    world.see(node("n1"))
    assert world.state("a") is State.RUNNING


@pytest.mark.parametrize("job_first", [True, False], ids=["the job is known", "the job becomes known"])
def test_a_pod_that_claims_a_slot_under_another_jobs_name_gets_none(job_first: bool) -> None:
    """The newest pod gets a slot, so a pod with a forged owner would replace a real member and be planned for."""
    rigid = job("a").ps().workers(2)
    real = [replace(p, owner="a") for p in members(rigid.done())]
    forged = replace(real[1], uid="uid-x", name="x-worker-0", owner="x", since=real[1].since + 5)
    world = World().nodes("n1")
    pods = [PodSeen(p) for p in (*real, forged)]
    of: list[Event] = [JobSeen(rigid.done())]
    for event in [*of, *pods] if job_first else [*pods, *of]:
        world.do(event)
    assert world.snapshot.members["job-a"][w(0)] == real[1].uid
    assert refuse_pod(world.snapshot, world.snapshot.pods["uid-x"]) is Reason.NOT_A_MEMBER
    world.see(replace(forged, refused=True))
    assert world.snapshot.members["job-a"][w(0)] == real[1].uid
    world.bind(rigid)
    assert world.state("a") is State.RUNNING
    assert not world.snapshot.pods["uid-x"].node
