"""ResourceQuotas: growth leaves their room to jobs that wait for pods, and jobs that have grown give it back."""

from dataclasses import replace

import pytest

from policy.answers.explain import verdict_of
from policy.answers.inputs import SHORT, inputs_of
from policy.answers.standing import held_back
from policy.cluster.actions import Effect, Resize
from policy.cluster.constraints import Requirement
from policy.cluster.events import PodGone, PodSeen, QuotaGone, QuotaSeen
from policy.cluster.job import WORKER, Slot
from policy.cluster.pod import Pod
from policy.cluster.quota import Quota
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import NOTHING, Resources
from policy.systems import make_policy
from policy.systems.quotas import GRACE_SECONDS, late_moments
from tests.builders import JobBuilder, JobSeen, State, World, job, members, node, res

GROWING = {"kod2": {}, "drs": {}, "dragon": {"urgent_threshold": 1.0}, "kod2+specon": {}, "drs+specon": {}}
LATE = 100.0  # the waiting job arrives so long after the start


def grown(policy: str = "kod2", most: int = 6) -> World:
    """Return a world in which job ``big`` of one to ``most`` workers has grown to its maximum, and its builder."""
    world = World(make_policy(policy, **GROWING[policy])).nodes(node("n1", cpu=20, memory=100))
    big = job("big").ps().workers(1, most, asked=1, cpu=1)
    world.start(big)
    for _ in range(4):
        world.pass_time(100.0)
        world.operate(big)
    assert world.gang("big").workers == most
    world.effects.clear()
    return world


def late(workers: int = 2) -> JobBuilder:
    return job("late").workers(workers, cpu=1).arrived(LATE)


def arrive(world: World, one: JobBuilder, pods: int = 0) -> tuple[Effect, ...]:
    """Let the job appear, with its first pods only."""
    return world.do(JobSeen(one.done()), *(PodSeen(made) for made in members(one.done())[:pods]))


def shrinks(world: World) -> dict[str, int]:
    resized = [one for one in world.effects if isinstance(one, Resize) and one.on_behalf_of]
    return {one.job_uid.removeprefix("job-"): one.workers for one in resized}


# -- The tests below are about reasons and events that name a quota. ---------------------------


def test_a_quota_that_is_smaller_than_the_job_is_told() -> None:
    world = World().nodes(node("n1", cpu=20, memory=100))
    arrive(world, late(3), pods=1)
    world.limit(pods=1)
    told = "worker 1 of 3; ResourceQuota team/few has 0 of 1 pods left"
    assert verdict_of(world.snapshot, world.snapshot.jobs["job-late"]) == Verdict(Reason.WAITING_FOR_PODS, told)


def test_growth_that_a_quota_eats_is_told_at_once_with_the_quota() -> None:
    world = World().nodes(node("n1", cpu=20, memory=100)).start(job("big").workers(1, 4, asked=1, cpu=1))
    there = [replace(one) for one in world.snapshot.pods_of("job-big")]
    world.do(*(PodGone(one.uid) for one in there if one.slot is not None and one.slot.index >= 2))
    seen = world.snapshot.jobs["job-big"]
    assert verdict_of(world.snapshot, seen) is None, "pods that are on their way are no reason"
    world.limit(pods=2)
    assert verdict_of(world.snapshot, seen) == Verdict(
        Reason.WAITING_FOR_PODS,
        "the job was given 4 workers, and 2 of them have no pod; ResourceQuota team/few has 0 of 2 pods left",
    )
    world.limit(pods=4)
    assert verdict_of(world.snapshot, seen) is None


# -- In the tests below, jobs that have grown give workers back to free a quota. -----------------


@pytest.mark.parametrize("policy", GROWING)
def test_a_grown_job_gives_as_many_workers_as_the_waiting_job_lacks_pods(policy: str) -> None:
    world = grown(policy)
    world.limit(pods=7)
    arrive(world, late())
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 4}
    (given,) = (one for one in world.effects if isinstance(one, Resize))
    assert given.on_behalf_of == "job-late"
    big = job("big").ps().workers(1, 6, asked=1, cpu=1)
    world.operate(big)
    world.limit(pods=7)
    world.do(*(PodSeen(made) for made in members(late().done())))
    world.limit(pods=7)
    world.bind(late())
    assert (world.state("late"), world.gang("late").workers, world.gang("big").workers) == (State.RUNNING, 2, 4)


def test_not_before_it_has_been_short_for_the_grace_and_the_service_knows_when_that_is() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, late())
    began = world.now
    assert world.snapshot.short == {"job-late": began}
    assert list(late_moments(world.snapshot)) == [began + GRACE_SECONDS]
    world.pass_time(GRACE_SECONDS - 0.1)
    assert shrinks(world) == {}
    world.pass_time(0.1)
    assert shrinks(world) == {"big": 4}


def test_a_pod_that_comes_meanwhile_ends_the_wait_for_it() -> None:
    """A quota may show a new pod before the pod itself is shown."""
    world = grown()
    one = late(1)
    arrive(world, one)
    world.limit(pods=8, used=Resources({"pods": 8}))
    assert list(world.snapshot.short) == ["job-late"]
    world.do(*(PodSeen(made) for made in members(one.done())))
    assert world.snapshot.short == {}
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {}


def test_it_is_shrunk_once_however_long_its_pods_take_to_go() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, late())
    for _ in range(4):
        world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 4}
    assert [one.workers for one in world.effects if isinstance(one, Resize)] == [4]


def test_never_below_the_minimum_and_not_at_all_where_that_does_not_suffice() -> None:
    world = grown(most=3)
    world.limit(pods=4)
    arrive(world, late(3))
    world.pass_time(60.0)
    assert shrinks(world) == {}
    arrive(world, job("small").workers(2, cpu=1).arrived(LATE + 1))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 1}


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "cpu", "memory"])
def test_every_resource_of_a_quota_counts(resource: str) -> None:
    asks = {"nvidia.com/gpu": {"nvidia.com/gpu": 1}, "cpu": {}, "memory": {}}[resource]
    amount = {"nvidia.com/gpu": 1, "cpu": 1000, "memory": 4 * 1024**3}[resource]
    world = World().nodes(node("n1", cpu=20, allocatable=res(20, 64, pods=110, **{"nvidia.com/gpu": 8})))
    big = job("big").workers(1, 4, asked=4, cpu=1, **asks)
    world.start(big)
    world.pass_time(100.0)
    world.operate(big)
    assert world.gang("big").workers == 4
    used = Resources({resource: 4 * amount})
    world.do(QuotaSeen(Quota("team", "few", used, used)))
    arrive(world, job("late").workers(1, cpu=1, **asks).arrived(LATE))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 3}


def test_limits_count_as_the_pods_have_them_which_a_limit_range_may_have_added() -> None:
    world = grown()
    limited = Resources({"cpu": 2000})
    for made in world.snapshot.pods_of("job-big"):
        world.see(replace(made, limits=limited))
    arrive(world, late(), pods=1)
    world.see(replace(world.pod("late-worker-0"), limits=limited))
    most = Resources({"limits.cpu": 16000})
    world.do(QuotaSeen(Quota("team", "few", most, most)))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 5}
    assert world.snapshot.verdicts["job-late"].detail.endswith("ResourceQuota team/few has 0 of 16 limits.cpu left")


def test_quotas_of_another_namespace_or_scope_do_not_matter() -> None:
    world = grown()
    full = Resources({"pods": 7})
    arrive(world, late())
    world.do(QuotaSeen(Quota("others", "few", full, full)))
    world.do(QuotaSeen(Quota("team", "ending", full, full, (Requirement("Terminating", "Exists", ()),))))
    world.pass_time(60.0)
    assert (shrinks(world), world.snapshot.short) == ({}, {})


def test_only_jobs_whose_pods_the_quota_counts_are_shrunk() -> None:
    """The lightest job, which would give first, has another PriorityClass."""
    world = World().nodes(node("n1", cpu=20, memory=100))
    for name, utility, kind in (("light", 1.0, "low"), ("heavy", 9.0, "high")):
        one = job(name, utility=utility).workers(1, 3, asked=3, cpu=1)
        one = one.with_(roles=tuple(replace(role, priority_class=kind) for role in one.made.roles))
        world.start(one)
        world.pass_time(100.0)
        world.operate(one)
    assert (world.gang("light").workers, world.gang("heavy").workers) == (3, 3)
    full, high = Resources({"pods": 3}), Requirement("PriorityClass", "In", ("high",))
    world.do(QuotaSeen(Quota("team", "few", full, full, (high,))))
    waits = late(1)
    arrive(world, waits.with_(roles=tuple(replace(role, priority_class="high") for role in waits.made.roles)))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"heavy": 2}


def test_the_lightest_gives_first_and_of_equal_ones_the_latest() -> None:
    world = World().nodes(node("n1", cpu=20, memory=100))
    for name, utility, at in (("heavy", 9.0, 0.0), ("older", 1.0, 1.0), ("newer", 1.0, 2.0)):
        one = job(name, utility=utility).workers(1, 2, asked=2, cpu=1).arrived(at)
        world.start(one)
        world.pass_time(100.0)
        world.operate(one)
    world.limit(pods=6)
    arrive(world, late(1))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"newer": 1}
    arrive(world, job("third").workers(1, cpu=1).arrived(LATE + 1))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"newer": 1, "older": 1}


def test_the_limit_of_resizes_holds() -> None:
    world = World().nodes(node("n1", cpu=20, memory=100))
    for name in ("a", "b"):
        one = job(name).workers(1, 2, asked=2, cpu=1)
        world.start(one)
        world.pass_time(100.0)
        world.operate(one)
    world.rules(resizes_per_minute=1)
    world.limit(pods=4)
    arrive(world, late(2))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {}
    world.rules(resizes_per_minute=2)
    world.pass_time(1.0)
    assert shrinks(world) == {"a": 1, "b": 1}


def test_a_job_that_could_not_start_with_its_pods_takes_none_from_others() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, job("late").workers(2, cpu=50).arrived(LATE))
    world.pass_time(60.0)
    assert shrinks(world) == {}


def test_lost_members_whose_successors_the_quota_refuses_get_room_too() -> None:
    world = grown()
    steady = job("steady").workers(2, cpu=1).arrived(LATE)
    world.start(steady)
    world.do(PodGone("uid-steady-worker-1"))
    assert world.state("steady") is State.REPAIRING
    world.limit(pods=8)
    assert list(world.snapshot.short) == ["job-steady"]
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 5}


def test_workers_that_never_came_are_taken_too_or_they_would_take_the_room() -> None:
    world = grown()
    for index in (4, 5):
        there = world.snapshot.member("job-big", Slot(WORKER, index))
        assert there is not None
        world.do(PodGone(there.uid))
    assert world.gang("big").workers == 6
    world.limit(pods=5)
    arrive(world, late(1))
    world.pass_time(GRACE_SECONDS)
    assert shrinks(world) == {"big": 3}


def test_policies_that_keep_to_their_numbers_shrink_nobody() -> None:
    world = World(make_policy("fifo")).nodes(node("n1", cpu=20, memory=100))
    world.start(job("big").workers(1, 6, asked=6, cpu=1))
    world.limit(pods=6)
    arrive(world, late())
    world.pass_time(60.0)
    assert shrinks(world) == {}


# -- In the tests below, growth leaves the quota's room to waiting jobs. -------------------------


def small(world: World) -> World:
    world.start(job("big").workers(1, 8, asked=1, cpu=1))
    return world


@pytest.mark.parametrize("policy", GROWING)
def test_growth_leaves_room_for_the_pods_that_a_job_waits_for(policy: str) -> None:
    world = World(make_policy(policy, **GROWING[policy])).nodes(node("n1", cpu=1))
    small(world)
    world.limit(pods=6)
    arrive(world, late())
    world.see(node("n1", cpu=20, memory=100))
    for _ in range(4):
        world.pass_time(100.0)
        world.operate(job("big"))
        world.limit(pods=6)
    assert world.gang("big").workers == 4  # two of the quota's six pods are left to the waiting job


def test_workers_of_earlier_growth_count_before_they_are_created() -> None:
    world = World().nodes(node("n1", cpu=3))
    small(world)
    world.limit(pods=6)
    arrive(world, late())
    world.pass_time(100.0)
    assert world.gang("big").workers == 3
    world.see(node("n1", cpu=20, memory=100))
    world.pass_time(1.0)
    assert world.gang("big").workers == 4


def test_without_a_waiting_job_growth_is_as_it_was() -> None:
    world = World().nodes(node("n1", cpu=20, memory=100))
    small(world)
    world.limit(pods=2)
    world.pass_time(100.0)
    assert world.gang("big").workers == 8


def test_a_job_that_needs_more_than_the_whole_quota_keeps_nobody_from_growing() -> None:
    world = World().nodes(node("n1", cpu=1))
    small(world)
    world.limit(pods=6)
    arrive(world, late(7))
    world.see(node("n1", cpu=20, memory=100))
    world.pass_time(100.0)
    assert world.gang("big").workers == 8


def test_a_shrunk_job_does_not_grow_back_into_the_room_of_the_one_it_was_shrunk_for() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, late())
    world.pass_time(GRACE_SECONDS)
    world.operate(job("big").ps().workers(1, 6, asked=1, cpu=1))
    world.limit(pods=7)
    world.pass_time(400.0)
    assert world.gang("big").workers == 4


# -- In the tests below, a quota is named in an explanation. -------------------------------------


def test_the_cause_is_told_with_the_shrink() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, late())
    before, world.now = world.snapshot, world.now + GRACE_SECONDS
    effects = world.do()
    told = inputs_of(before, world.snapshot, effects, world.policy, world.now)
    (found,) = (one for one in told.values() if "for" in one)
    assert (found["for"], found[SHORT]) == ("team/late", "ResourceQuota team/few has 0 of 7 pods left")


def test_what_keeps_a_job_from_growing_is_the_quota() -> None:
    world = World().nodes(node("n1", cpu=1))
    small(world)
    world.limit(pods=3)
    arrive(world, late())
    world.see(node("n1", cpu=20, memory=100))
    world.pass_time(100.0)
    assert world.gang("big").workers == 1
    held = held_back(world.snapshot, world.snapshot.jobs["job-big"], world.policy, world.now)
    assert held.startswith("a ResourceQuota of its namespace: what is left is kept for pods that team/late waits for")


# -- The tests below are about quotas as facts of the snapshot. ----------------------------------


def test_an_older_version_of_a_quota_does_not_replace_a_newer_one_and_a_deleted_one_is_gone() -> None:
    world = World()
    new = Quota("team", "few", res(pods=4), NOTHING, uid="one", version=7)
    world.do(QuotaSeen(new))
    world.do(QuotaSeen(replace(new, hard=res(pods=9), version=6)))
    assert world.snapshot.quotas == {"team/few": new}
    other = replace(new, uid="two", version=1)
    world.do(QuotaSeen(other))
    assert world.snapshot.quotas == {"team/few": other}
    world.do(QuotaGone("team/few"))
    assert world.snapshot.quotas == {}


def test_who_is_short_is_told_with_the_quota_and_what_it_has_left() -> None:
    world = grown()
    world.limit(pods=7)
    arrive(world, late())
    verdict = world.snapshot.verdicts["job-late"]
    assert verdict.reason.value == "WaitingForPods"
    assert verdict.detail == "worker 0 of 2; ResourceQuota team/few has 0 of 7 pods left"


@pytest.mark.parametrize(
    ("scope", "met"),
    [
        (Requirement("Terminating", "Exists", ()), True), (Requirement("NotTerminating", "Exists", ()), False),
        (Requirement("BestEffort", "Exists", ()), False), (Requirement("NotBestEffort", "Exists", ()), True),
        (Requirement("PriorityClass", "Exists", ()), True), (Requirement("PriorityClass", "DoesNotExist", ()), False),
        (Requirement("PriorityClass", "In", ("high",)), True), (Requirement("PriorityClass", "In", ("low",)), False),
        (Requirement("PriorityClass", "NotIn", ("high",)), False),
        (Requirement("CrossNamespacePodAffinity", "Exists", ()), False),
    ],
)  # fmt: skip
def test_which_pods_a_scope_counts(scope: Requirement, met: bool) -> None:
    role = replace(job("a").workers(1).done().roles[0], ends=True, priority_class="high")
    assert Quota("team", "few", NOTHING, NOTHING, (scope,)).counts(role) is met


def test_a_pod_has_no_limits_unless_they_are_read() -> None:
    assert Pod("uid", "team", "name").limits == NOTHING
