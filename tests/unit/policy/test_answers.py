"""The verbs' answers, the controller's orders, and the explanation."""

from collections import UserDict
from collections.abc import Iterator
from dataclasses import replace

import pytest

from policy.answers.explain import explain, held_room
from policy.answers.explanation import Ahead, Explanation
from policy.answers.queue import places, weights
from policy.answers.verdict import FilterAnswer, filter_pod, preempt_pod, prioritize_pod
from policy.cluster.amounts import Quantity, amounts
from policy.cluster.gang import State
from policy.cluster.job import Slot
from policy.cluster.node import Node
from policy.cluster.orders import Desired
from policy.cluster.pod import Phase
from policy.cluster.reasons import TEXTS, Concern, Lasts, Reason
from policy.cluster.refusal import refuse_pod
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from policy.systems.kod2 import Gate, Kod2
from tests.builders import JobBuilder, Led, PodGone, World, guest, job, members, node, pod, res, w

GANG = job("a").ps().workers(2)
NODES = ("n1", "n2")


def planned() -> World:
    world = World().nodes("n1", "n2")
    world.submit(GANG)
    return world


@pytest.mark.parametrize("reason", Reason, ids=lambda r: r.value)
def test_every_reason_has_one_constant_text(reason: Reason) -> None:
    assert TEXTS[reason].startswith("kohort: ")
    assert not any(letter.isdigit() or letter in "{}%" for letter in reason.text)
    assert list(TEXTS.values()).count(reason.text) == 1
    assert isinstance(reason.concern, Concern)
    assert isinstance(reason.lasts, Lasts)


def test_filter_answers_with_exactly_the_planned_node() -> None:
    world = planned()
    assert filter_pod(world.snapshot, "uid-a-ps-0", NODES).nodes == ("n1",)


def test_a_planned_node_that_is_not_offered_is_reported_as_missed() -> None:
    offer = filter_pod(planned().snapshot, "uid-a-ps-0", ("n2",))
    assert (offer.nodes, offer.reason, offer.missed) == ((), Reason.NODE_NOT_OFFERED, "n1")


def test_ranked_every_node_on_which_the_plan_stays_feasible() -> None:
    world = World().rules(ranked=True).nodes("n1", "n2", node("n3", cpu=0.5))
    world.submit(GANG)
    assert filter_pod(world.snapshot, "uid-a-ps-0", ("n1", "n2", "n3", "n9")).nodes == ("n1", "n2")


def test_scores_prefer_the_planned_node_and_then_company() -> None:
    world = World().nodes(node("n1", cpu=5), node("n2", cpu=5))
    world.submit(job("a").ps().workers(4))
    scores = prioritize_pod(world.snapshot, "uid-a-worker-3", ("n1", "n2", "n3"))
    assert scores["n2"] == 10
    assert 0 < scores["n1"] < 10
    assert scores["n3"] == 0
    assert prioritize_pod(world.snapshot, "uid-nobody", NODES) == {"n1": 0, "n2": 0}


def refusal(world: World, name: str = "a-worker-0") -> Reason | None:
    return refuse_pod(world.snapshot, world.snapshot.pods.get(f"uid-{name}"))


def test_refusals() -> None:
    assert refuse_pod(Snapshot(), None) is Reason.NOT_SYNCED
    world = planned()
    assert refusal(world) is None
    assert refusal(world, "nobody") is Reason.UNKNOWN_JOB
    world.submit(job("big").workers(1, cpu=9, memory=1).arrived(5), job("b2").workers(2, cpu=9, memory=1).arrived(6))
    assert refusal(world, "b2-worker-0") is Reason.NO_ROOM
    world.see(JobBuilder(world.snapshot.jobs["job-b2"]).with_(suspended=True))
    assert refusal(world, "b2-worker-0") is Reason.SUSPENDED
    world.see(JobBuilder(world.snapshot.jobs["job-b2"]).with_(deleting=True))
    assert refusal(world, "b2-worker-0") is Reason.DELETING
    world.do(Led(False))
    assert refusal(world) is Reason.NOT_LEADING


def test_a_replica_that_does_not_lead_gives_no_node_even_where_it_knows_the_plan() -> None:
    world = World().nodes("n1").start(GANG)
    world.do(PodGone("uid-a-worker-1"))
    again = world.fresh(members(GANG.done())[-1])
    world.see(again)
    assert filter_pod(world.snapshot, again.uid, ("n1",)).nodes == ("n1",)
    follower = replace(world.snapshot, leading=False)
    assert filter_pod(follower, again.uid, ("n1",)) == FilterAnswer(reason=Reason.NOT_LEADING)
    assert refuse_pod(follower, None) is Reason.NOT_LEADING
    assert filter_pod(follower, "uid-a-ps-0", ("n1",)).nodes == ("n1",)


def test_a_worker_beyond_the_given_number_is_surplus() -> None:
    world = World().nodes(node("n1", cpu=3))
    world.submit(job("a").ps().workers(1, 3, asked=3))
    assert refusal(world, "a-worker-2") is Reason.SURPLUS


def test_preemption_spares_half_gangs_and_takes_whole_ones_and_strangers() -> None:
    world = planned()
    world.bind(GANG)
    world.see(guest("g", "n1"))
    whole = [p.uid for p in world.snapshot.pods_of("job-a")]
    assert preempt_pod(world.snapshot, {"n1": ["uid-g"]}) == {"n1": ["uid-g"]}
    assert preempt_pod(world.snapshot, {"n1": ["uid-a-worker-0", "uid-g"]}) == {}
    assert preempt_pod(world.snapshot, {"n1": whole}) == {"n1": whole}


# -- The tests below are about `desired`, the changes that the controller is to make. ------------------------------


def test_a_follower_and_an_unsynced_ledger_order_nothing() -> None:
    assert desired(Snapshot(), 0) == Desired(gate=False)
    world = planned()
    world.do(Led(False))
    assert desired(world.snapshot, 0) == Desired(gate=False)


def test_the_gate_closes_while_a_job_waits() -> None:
    world = planned()
    assert not desired(world.snapshot, 500).gate
    world.submit(job("b").workers(9, cpu=2))
    assert desired(world.snapshot, 500).gate


def test_who_waits_for_pods_or_could_never_start_gates_nobody_else() -> None:
    world = planned()
    world.see(job("podless").workers(2))
    world.submit(job("huge").workers(90, cpu=9))
    assert world.reason("podless") == "WaitingForPods"
    assert world.reason("huge") == "GangExceedsCluster"
    assert not desired(world.snapshot, 500).gate


def test_gated_pods_that_no_room_would_help_are_let_go() -> None:
    world = planned()
    malformed = job("malformed").workers(1).with_(invalid="kohort.dev/min-workers: 'two'").done()
    waits = job("waits").workers(9, cpu=2).done()
    stray = pod("stray", opted_in=True, gated=True)
    gated = [replace(p, gated=True) for of in (malformed, waits) for p in members(of)]
    world.see(malformed, waits, stray, *gated)
    assert world.reason("waits") == "WaitingForRoom"
    assert {order.name for order in desired(world.snapshot, 500).ungate} == {
        "stray",
        "malformed-worker-0",
    }


def test_gated_members_are_ungated_once_they_are_planned() -> None:
    world = World().nodes("n1")
    world.see(GANG, *(replace(p, gated=True) for p in members(GANG.done())))
    assert [o.name for o in desired(world.snapshot, 500).ungate] == ["a-ps-0", "a-worker-0", "a-worker-1"]
    assert desired(world.snapshot, 500).wake == ()


def test_refused_members_are_woken_once_per_plan() -> None:
    world = planned()
    plan = world.gang("a").plan
    world.see(replace(world.pod("a-ps-0"), refused=True))
    assert [(o.name, o.value) for o in desired(world.snapshot, 500).wake] == [("a-ps-0", plan)]
    world.see(replace(world.pod("a-ps-0"), woken=plan))
    assert desired(world.snapshot, 500).wake == ()
    world.pass_time(31)
    world.pass_time(6)
    assert world.gang("a").plan != plan
    assert [o.value for o in desired(world.snapshot, 500).wake] == [world.gang("a").plan]


def test_a_refused_member_is_nominated_with_its_wake_up_on_a_cluster_of_any_size() -> None:
    world = planned()
    gang = world.gang("a")
    world.see(replace(world.pod("a-ps-0"), refused=True))
    wanted = [(o.name, o.value) for o in desired(world.snapshot, 500).nominate]
    assert wanted == [("a-ps-0", gang.nodes[Slot("ps", 0)])]
    world.see(replace(world.pod("a-ps-0"), woken=gang.plan))
    assert desired(world.snapshot, 500).nominate == ()


def test_where_kube_scheduler_ranks_the_nodes_a_refused_member_is_woken_and_not_nominated() -> None:
    world = planned()
    world.see(replace(world.pod("a-ps-0"), refused=True))
    ranked = replace(world.snapshot, rules=replace(world.snapshot.rules, ranked=True))
    found = desired(ranked, 500)
    assert ([order.name for order in found.wake], found.nominate) == (["a-ps-0"], ())


def test_nobody_is_woken_while_the_room_is_being_freed() -> None:
    world = World().nodes("n1").start(job("light").ps().workers(1, 4, asked=4))
    world.submit(job("heavy").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    assert refusal(world, "heavy-worker-0") is Reason.ROOM_BEING_FREED
    world.see(replace(world.pod("heavy-worker-0"), refused=True))
    assert desired(world.snapshot, 500).wake == ()
    assert [(o.name, o.workers) for o in desired(world.snapshot, 500).replicas] == [("light", 3)]


def test_workers_are_taken_one_by_one_each_when_the_one_before_is_gone() -> None:
    world = World().nodes("n1").start(job("light").ps().workers(1, 4, asked=4))
    world.submit(job("heavy").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    assert world.gang("light").workers == 2
    world.see(JobBuilder(world.snapshot.jobs["job-light"]).replicas(3))
    assert desired(world.snapshot, 500).replicas == ()
    world.see(replace(world.pod("light-worker-3"), terminating=True))
    assert desired(world.snapshot, 500).replicas == ()
    world.do(PodGone("uid-light-worker-3"))
    assert [(o.name, o.workers) for o in desired(world.snapshot, 500).replicas] == [("light", 2)]


def test_workers_of_a_kind_that_can_remove_several_are_taken_at_once() -> None:
    world = World().nodes("n1").start(job("light", one_by_one=False).ps().workers(1, 4, asked=4))
    world.submit(job("heavy").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    assert [(o.name, o.workers) for o in desired(world.snapshot, 500).replicas] == [("light", 2)]


def test_a_pod_that_has_another_number_now_is_told_so_before_workers_are_taken() -> None:
    """A Deployment's last pod takes the number of worker 1, which is lost; by its old number it would be
    deleted first.
    """
    made = job("light", kind="Deployment", one_by_one=False).workers(1, 4, asked=4)
    world = World().nodes("n1").start(made)
    last = world.pod("light-worker-3")
    world.do(PodGone("uid-light-worker-1"))
    world.see(made.replicas(3), replace(last, slot=w(1), numbered=w(3)))
    world.submit(job("heavy").workers(1, cpu=6).with_(utility=9.0).arrived(1))
    assert world.gang("light").workers == 2
    found = desired(world.snapshot, 500)
    assert [(o.name, o.value) for o in found.renumber] == [("light-worker-3", "worker-1")]
    assert found.replicas == ()
    world.see(replace(last, slot=w(1), numbered=w(1)))
    found = desired(world.snapshot, 500)
    assert found.renumber == ()
    assert [(o.name, o.workers) for o in found.replicas] == [("light", 2)]


def test_surplus_pods_without_numbers_go_before_a_member_is_bound() -> None:
    """The ReplicaSet may not have seen the bindings yet, and would then delete a pod that was just bound."""
    made = job("light", kind="Deployment", one_by_one=False, unnumbered=True).workers(2, 4, asked=3)
    world = World().nodes(node("n1", cpu=4))
    world.see(made, *(replace(p, gated=n > 0, refused=n == 0) for n, p in enumerate(members(made.done()))))
    assert (world.gang("light").state, world.gang("light").workers) == (State.PLANNED, 2)
    for _ in ("asked for too many", "one of them is still there"):
        found = desired(world.snapshot, 500)
        assert (found.ungate, found.wake, found.nominate) == ((), (), ())
        assert refusal(world, "light-worker-0") is Reason.SURPLUS_FIRST
        world.see(made.replicas(2))
    world.see(replace(world.pod("light-worker-2"), terminating=True))
    found = desired(world.snapshot, 500)
    assert [order.name for order in found.wake] == ["light-worker-0"]
    assert [order.name for order in found.ungate] == ["light-worker-1"]
    assert refusal(world, "light-worker-0") is None


def test_of_pods_with_numbers_the_surplus_holds_nobody_back() -> None:
    made = job("light", one_by_one=False).workers(2, 4, asked=3)
    world = World().nodes(node("n1", cpu=4))
    world.submit(made)
    assert world.gang("light").workers == 2
    assert refusal(world, "light-worker-0") is None


def test_a_pod_that_has_another_number_is_told_so_though_nothing_else_is_to_be_done() -> None:
    made = job("light", kind="Deployment", one_by_one=False).workers(1, 2, asked=2)
    world = World().nodes("n1").start(made)
    assert world.snapshot.index.unsettled == ()
    moved = replace(world.pod("light-worker-1"), numbered=w(2))
    world.see(moved)
    assert [(o.name, o.value) for o in desired(world.snapshot, 500).renumber] == [("light-worker-1", "worker-1")]
    world.see(replace(moved, terminating=True))
    assert desired(world.snapshot, 500).renumber == ()


def bounds_ordered(stated: dict[str, bool]) -> list[tuple[str, int | None, int | None]]:
    """Return what the controller is told to write for a shrunk job with bounds 1 to 4: (name, minimum,
    maximum) each.
    """
    world = World().nodes("n1").start(job("light", **stated).ps().workers(1, 4, asked=4))
    world.submit(job("heavy").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    return [(o.name, o.min_workers, o.max_workers) for o in desired(world.snapshot, 500).replicas]


BOUNDS: dict[str, tuple[dict[str, bool], tuple[int | None, int | None]]] = {
    "both stated": ({}, (None, None)),
    "the maximum follows from the replicas": ({"max_stated": False}, (None, 4)),
    "the minimum follows from the replicas": ({"min_stated": False}, (1, None)),
}


@pytest.mark.parametrize(("stated", "want"), BOUNDS.values(), ids=BOUNDS.keys())
def test_a_resize_writes_down_the_bound_that_it_would_have_the_job_forget(
    stated: dict[str, bool], want: tuple[int | None, int | None]
) -> None:
    assert bounds_ordered(stated) == [("light", *want)]


def test_a_waiting_job_that_asks_for_fewer_workers_than_its_minimum_is_given_them() -> None:
    world = World().nodes("n1")
    world.submit(job("few").ps().workers(3, 4, asked=2))
    assert world.reason("few") == "WaitingForPods"
    assert [(o.name, o.replicas, o.workers) for o in desired(world.snapshot, 500).replicas] == [("few", 2, 3)]
    few = JobBuilder(world.snapshot.jobs["job-few"])
    for kept in (few.with_(suspended=True), few.ps(1, unsupported=("hostNetwork",))):
        world.see(kept)
        assert desired(world.snapshot, 500).replicas == ()
    world.see(few.replicas(3), *members(few.replicas(3).done()))
    assert world.state("few") is State.PLANNED


def test_nominations_are_made_above_the_node_count_and_cleared_on_release() -> None:
    world = planned()
    assert desired(world.snapshot, 2).nominate == ()
    assert {(o.name, o.value) for o in desired(world.snapshot, 1).nominate} == {
        ("a-ps-0", "n1"), ("a-worker-0", "n1"), ("a-worker-1", "n1"),
    }  # fmt: skip
    world.see(replace(world.pod("a-ps-0"), nominated="n1"))
    world.do(PodGone("uid-a-worker-1"))
    assert world.state("a") is State.WAITING
    assert [(o.name, o.value) for o in desired(world.snapshot, 1).nominate] == [("a-ps-0", "")]


# -- The tests below are about explanations of jobs. ---------------------------------------------------


def code(found: Explanation) -> str | None:
    return found.waits.reason if found.waits is not None else None


def test_explain_names_needs_nodes_and_what_mends() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", unschedulable=True), node("n3", cpu=1.5))
    world.start(job("runs").workers(1, cpu=3)).submit(job("b").ps().workers(2, cpu=1).arrived(5))
    found = explain(world.snapshot, "job-b", Kod2(), world.now + 20)
    assert found is not None
    assert found.waits is not None
    assert (found.waits.reason, found.waits.text) == (Reason.NO_ROOM.value, Reason.NO_ROOM.text)
    assert found.mend.startswith("wait for a job to end")
    assert [(need.role, need.members) for need in found.needs] == [("ps", 1), ("worker", 2)]
    assert [(room.node, room.missing.get("cpu"), room.refused) for room in found.nodes] == [
        ("n3", Quantity("1500m", 1500), ""), ("n1", Quantity("2", 2000), ""), ("n2", None, "cordoned"),
    ]  # fmt: skip
    assert explain(world.snapshot, "job-nobody", Kod2(), 0) is None


def test_explain_tells_for_whom_a_job_was_shrunk_and_what_is_being_freed() -> None:
    world = World().nodes("n1").start(job("light").ps().workers(1, 4, asked=4))
    world.submit(job("heavy").workers(1, cpu=4).with_(utility=9.0).arrived(1))
    light, heavy = (explain(world.snapshot, f"job-{n}", Kod2(), world.now) for n in ("light", "heavy"))
    assert light is not None
    assert heavy is not None
    assert (light.shrunk_for, light.waits) == ("team/heavy", None)
    assert (code(heavy), heavy.waits_for) == (
        Reason.ROOM_BEING_FREED.value, ("team/light-worker-2", "team/light-worker-3"),
    )  # fmt: skip
    assert heavy.plan == {"worker-0": "n1"}


def test_explain_shows_the_room_that_finished_jobs_hold() -> None:
    world = World().nodes("n1").start(job("keeper", keeps_pods=True).ps(cpu=4).workers(1, cpu=2))
    world.see(JobBuilder(world.snapshot.jobs["job-keeper"]).with_(finished=True))
    world.submit(job("head").workers(1, cpu=7).arrived(1))
    found = explain(world.snapshot, "job-head", Kod2(), world.now)
    assert found is not None
    assert code(found) == Reason.ROOM_HELD.value
    assert {(held.job, held.node) for held in found.held} == {("team/keeper", "n1")}
    assert "cleanPodPolicy" in found.mend


def test_a_finished_job_says_which_room_it_holds_itself_and_what_mends_it() -> None:
    world = World().nodes("n1", "n2").start(*(job(n, keeps_pods=True).ps().workers(1) for n in ("a", "b")))
    for name in ("a", "b"):
        gone = replace(world.pod(f"{name}-worker-0"), phase=Phase.SUCCEEDED)
        world.see(gone, JobBuilder(world.snapshot.jobs[f"job-{name}"]).with_(finished=True))
    found = explain(world.snapshot, "job-a", Kod2(), world.now)
    assert found is not None
    assert code(found) == Reason.FINISHED.value
    assert [(held.pod, held.requests) for held in found.held] == [("a-ps-0", amounts(res(1, 2, pods=1)))]
    assert "cleanPodPolicy: Running" in found.mend
    assert [held.pod for held in held_room(world.snapshot)] == ["a-ps-0", "b-ps-0"]


def test_a_finished_job_that_holds_nothing_needs_no_mending() -> None:
    world = World().nodes("n1").start(GANG)
    world.end(GANG)
    found = explain(world.snapshot, "job-a", Kod2(), world.now)
    assert found is not None
    assert (found.mend, found.held) == ("", ())


@pytest.mark.parametrize(("workers", "detail"), [(1, "1 pod must go first"), (2, "2 pods must go first")])
def test_pods_that_are_to_go_are_counted_in_words(workers: int, detail: str) -> None:
    world = World().nodes("n1").start(job("light").workers(1, 5, cpu=2))
    world.submit(job("heavy", utility=9).workers(workers, cpu=2).arrived(1))
    found = explain(world.snapshot, "job-heavy", Kod2(), world.now)
    assert found is not None
    assert found.waits is not None
    assert (found.waits.reason, found.waits.detail) == (Reason.ROOM_BEING_FREED.value, detail)


def test_of_a_completed_job_nothing_is_missing_and_nothing_needed() -> None:
    world = World().nodes("n1").start(GANG)
    world.end(GANG)
    world.do(*(PodGone(pod.uid) for pod in list(world.snapshot.every_pod_of("job-a"))))
    found = explain(world.snapshot, "job-a", Kod2(), world.now)
    assert found is not None
    assert (found.missing_pods, found.needs) == ("", ())


def test_the_queue_is_in_the_policys_own_order() -> None:
    world = World(Kod2(starve_limit=100)).nodes("n1").start(job("runs").workers(1, cpu=10, memory=2))
    world.submit(job("light").workers(1, cpu=4).arrived(-200), job("heavy").workers(2, cpu=2).arrived(1))
    found = places(world.snapshot, world.policy, world.now)
    assert [(place.position, place.job.key, place.starving) for place in found] == [
        (1, "team/light", True),
        (2, "team/heavy", False),
    ]


def ahead_of(name: str, *jobs: JobBuilder, starve: float = 100) -> tuple[Ahead, ...]:
    """Return which jobs come before the named one in the queue while another job fills the only node."""
    world = World(Kod2(starve_limit=starve)).nodes("n1").start(job("runs").workers(1, cpu=10, memory=2))
    world.submit(*jobs)
    found = explain(world.snapshot, f"job-{name}", world.policy, world.now)
    assert found is not None
    return found.ahead


AHEAD = {
    "a starving one": ([job("x").workers(1, cpu=4).arrived(-200), job("me").workers(2)], "has waited for longer than"),
    "a starving one of two": (
        [job("x").workers(1).arrived(-300), job("me").workers(1).arrived(-200)], "has waited for longer",
    ),
    "a heavier one": ([job("x").workers(2).arrived(1), job("me").workers(1)], "has more weight (0."),
    "one that is heavier by less than is shown": (
        [job("x").workers(1, cpu=4).with_(utility=1.00001), job("me").workers(1, cpu=4)],
        "has more weight, by less than 0.0001",
    ),
    "an equal one": ([job("x").workers(1), job("me").workers(1).arrived(1)], "arrived be"),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "why"), AHEAD.values(), ids=AHEAD.keys())
def test_explain_says_who_is_ahead_and_why(jobs: list[JobBuilder], why: str) -> None:
    (first,) = ahead_of("me", *jobs)
    assert (first.job, first.why[: len(why)]) == ("team/x", why)


@pytest.mark.parametrize("reason", [Reason.INVALID, Reason.UNSUPPORTED])
def test_of_a_job_that_is_wrong_itself_neither_room_nor_others_are_told(reason: Reason) -> None:
    wrong = {Reason.INVALID: job("me").with_(invalid="a field"), Reason.UNSUPPORTED: job("me").ps(unsupported=("a",))}
    world = World().nodes("n1")
    world.submit(job("x").workers(1, cpu=20), wrong[reason].workers(2).arrived(1))
    found = explain(world.snapshot, "job-me", Kod2(), world.now)
    assert found is not None
    assert (code(found), found.nodes, found.ahead, found.arithmetic) == (reason.value, (), (), "")


def test_explain_names_a_running_job_that_the_gate_lets_go_first() -> None:
    world = World(Kod2(gate=Gate.STRICT)).nodes("n1").start(job("runs").workers(1).with_(utility=9.0))
    world.submit(job("me").workers(1).arrived(1))
    found = explain(world.snapshot, "job-me", world.policy, world.now)
    assert found is not None
    assert found.ahead == (Ahead("team/runs", "team/runs is running and has more weight"),)


class Nodes(UserDict[str, Node]):
    """A mapping of nodes that counts in ``looks`` how often all nodes are iterated over."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()


def test_all_jobs_are_weighed_with_one_look_at_the_nodes_at_most() -> None:
    world = World().nodes("n1").start(job("runs").workers(1, cpu=10, memory=2))
    world.submit(*(job(f"j{n}").workers(1).arrived(n) for n in range(5)))
    nodes = Nodes(world.snapshot.nodes)
    snapshot = replace(world.snapshot, nodes=nodes)
    for ask in (
        lambda: places(snapshot, world.policy, world.now),
        lambda: list(map(weights(snapshot, world.policy), snapshot.jobs.values())),
    ):
        nodes.looks = 0
        assert len(ask()) >= 5
        assert nodes.looks <= 1


def test_a_pod_without_a_slot_is_no_member() -> None:
    world = planned()
    world.see(pod("odd", job_uid="job-a", opted_in=True))
    assert refusal(world, "odd") is Reason.NOT_A_MEMBER
    assert w(0) in world.gang("a").nodes
