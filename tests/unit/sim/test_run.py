"""Kohort in virtual time: the code that runs live, in front of a world, with the real rules of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

import pytest

from extender.config.settings import Settings
from lab.sim.engine import START
from lab.sim.invariants import violations
from lab.sim.objects import KOHORT, CleanPods, JobSpec, PodObject
from lab.sim.pods.world import SimulatedWorld
from lab.sim.pods.worldcore import WorldSettings
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import Trace, kod2, node, pod_requests, rigid
from lab.virtual.podrun import Fault, pod_by_pod, settings_for, simulate
from policy.cluster.actions import Bind, RefuseBind
from policy.cluster.events import BindHeld
from policy.cluster.snapshot import Rules
from policy.systems.baselines import FifoPod, Retry
from policy.systems.kod2 import Kod2
from tests.hashseeds import printed
from tests.unit.sim.worlds import spec

AT_THE_BARRIER = settings_for(barrier={"commit": "all"})


class Observer:
    """Collects each step, and checks the world's own objects after it."""

    def __init__(self) -> None:
        self.steps: list[SimulatedStep] = []
        self.faults: list[str] = []
        self._partly: dict[str, float] = {}
        self.longest_partly = 0.0

    def __call__(self, step: SimulatedStep, world: SimulatedWorld) -> None:
        self.steps.append(step)
        self.faults += [f"{step.at}: {what}" for what in (*violations(step.snapshot), *world.overcommitted())]
        for uid, job in world.store.jobs.items():
            bound = [pod for pod in world.store.pods_of(uid) if pod.node and not pod.deleted]
            rigid_members = {slot for slot in job.spec.slots if slot.role != "worker"}
            slots = {pod.slot for pod in bound}
            workers = len(slots - rigid_members)
            whole = rigid_members <= slots and workers >= job.spec.min_workers
            if bound and not whole and not job.phase.ended:
                since = self._partly.setdefault(uid, step.at)
                self.longest_partly = max(self.longest_partly, step.at - since)
            else:
                self._partly.pop(uid, None)

    def count(self, kind: type) -> int:
        return sum(isinstance(found, kind) for step in self.steps for found in (*step.events, *step.effects))


def observed(
    trace: Trace,
    settings: Settings | None = None,
    world: WorldSettings | None = None,
    horizon: float = 7200.0,
    faults: Iterable[Fault] = (),
) -> tuple[RunResult, Observer]:
    observer = Observer()
    result = simulate(trace, Kod2(), settings, world=world, horizon=horizon, faults=faults, on_step=observer)
    assert observer.faults == []
    return result, observer


def cluster(*jobs: JobSpec, nodes: int = 2, cores: int = 10) -> Trace:
    return Trace(tuple(node(f"n{index + 1}", cores, 32) for index in range(nodes)), jobs)


def test_one_job_is_admitted_bound_as_a_whole_and_grows_to_what_fits() -> None:
    result, observer = observed(cluster(spec(workers=4, work=600.0), nodes=1), AT_THE_BARRIER)
    assert (result.finished, result.jobs[0].cross_pairs) == (1, 0)
    # 4 workers beside their ps: 600 / (4 / 1.3), and a few seconds until they run.
    assert result.jobs[0].jct_seconds == pytest.approx(600 / (4 / 1.3), abs=3.0)
    assert observer.count(BindHeld) == 5


def test_the_barrier_holds_until_the_minimum_is_there_and_then_binds_all_at_once() -> None:
    _, observer = observed(cluster(spec(workers=4, work=60.0)), AT_THE_BARRIER)
    first = next(step for step in observer.steps if any(isinstance(effect, Bind) for effect in step.effects))
    before = [event for step in observer.steps if step.at <= first.at for event in step.events]
    held = {event.uid for event in before if isinstance(event, BindHeld)}
    assert len(held) >= 2
    assert {effect.uid for effect in first.effects if isinstance(effect, Bind)} == held


def test_by_default_the_first_bind_call_binds_the_whole_gang() -> None:
    _, observer = observed(cluster(spec(workers=4, work=60.0)))
    first = next(step for step in observer.steps if any(isinstance(effect, Bind) for effect in step.effects))
    held = [event for step in observer.steps if step.at <= first.at for event in step.events]
    assert sum(isinstance(event, BindHeld) for event in held) == 1
    assert sum(isinstance(effect, Bind) for effect in first.effects) == 5


@pytest.mark.parametrize("gate", ["when-queued", "always", "never"])
def test_every_gating_mode_runs_the_ten_jobs_to_their_end(gate: str) -> None:
    result, observer = observed(kod2(1), settings_for(gate=gate))
    assert result.finished == 10
    assert observer.longest_partly <= Rules().window_seconds


def test_no_gang_is_partly_bound_for_longer_than_its_bindings_take() -> None:
    """The window would allow 8 s; without faults a gang is bound within one second."""
    _, observer = observed(kod2(2))
    assert observer.longest_partly < 1.0


def test_a_gang_whose_pods_are_created_slower_than_the_window_is_bound_whole() -> None:
    slow = WorldSettings(operator_rate=1.0, operator_burst=2.0)
    job = replace(spec(workers=4, work=60.0), min_workers=4)
    result, observer = observed(cluster(job), settings_for(barrier={"window_seconds": 4.0}), slow)
    assert (result.finished, observer.count(RefuseBind)) == (1, 0)
    assert result.jobs[0].waiting_seconds > 8.0


def test_a_heavier_job_gets_room_from_a_lighter_one_which_grows_back() -> None:
    """Under KOD2 the weight of a job rises with its minimum of workers."""
    light = spec("light", workers=8, work=3000.0, ps=1)
    light = replace(light, max_workers=8)
    heavy = replace(spec("heavy", workers=4, work=200.0, arrival=100.0), min_workers=4)
    result, _ = observed(cluster(light, heavy, nodes=1, cores=10))
    by_name = {job.name: job for job in result.jobs}
    assert result.finished == 2
    assert by_name["heavy"].waiting_seconds < 15.0
    assert by_name["light"].resizes >= 2


def test_two_gangs_that_would_share_the_room_half_and_half_run_one_after_the_other() -> None:
    """By the study's fixed case two jobs of five workers on eight places, with pods created in turn,
    deadlock at 4 + 4.
    """
    both = [replace(spec(name, ps=0, workers=5, work=100.0), min_workers=5, max_workers=5) for name in ("a", "b")]
    trace = cluster(*both, nodes=2, cores=4)
    by_turns = SimulatedWorld(WorldSettings(operator_rate=0.0))
    for found in trace.nodes:
        by_turns.add_node(found)
    for job in trace.jobs:
        by_turns.submit(job)
    by_turns.advance(1.0)
    for index, where in enumerate(["n1", "n1", "n2", "n2"]):
        for job in trace.jobs:
            assert by_turns.bind("default", f"{job.name}-worker-{index}", where) is None
    by_turns.advance(1e9)
    assert by_turns.overcommitted() == []
    assert not any(job.phase.ended for job in by_turns.store.jobs.values())
    assert observed(trace)[0].finished == 2


def test_a_lost_node_sends_its_gang_back_and_it_finishes_elsewhere() -> None:
    trace = cluster(spec(workers=4, work=600.0), nodes=2)
    undisturbed, observer = observed(trace)
    bound = [effect.node for step in observer.steps for effect in step.effects if isinstance(effect, Bind)]
    result, _ = observed(trace, faults=[(100.0, lambda world: world.remove_node(bound[0]))])
    lost = result.jobs[0].jct_seconds - undisturbed.jobs[0].jct_seconds
    collected = WorldSettings().collect_seconds
    assert result.finished == 1
    # The pods of a deleted node are collected after 20 s; then new ones are bound as a whole.
    assert collected < lost < collected + 10.0


def test_an_evicted_member_is_replaced_in_the_same_plan() -> None:
    def evict(world: SimulatedWorld) -> None:
        assert world.delete_pod("default", "a-ps-0") is None

    result, _ = observed(cluster(spec(workers=4, work=600.0), nodes=1), faults=[(100.0, evict)])
    undisturbed, _ = observed(cluster(spec(workers=4, work=600.0), nodes=1))
    lost = result.jobs[0].jct_seconds - undisturbed.jobs[0].jct_seconds
    assert 0.0 < lost < 10.0


@pytest.mark.parametrize("after", [0.05, 0.09, 0.5])
def test_a_foreign_pod_that_takes_the_room_delays_but_does_not_break_the_gang(after: float) -> None:
    def steal(world: SimulatedWorld) -> None:
        thief = PodObject("", "default", "thief", pod_requests(9, 2), scheduler="default-scheduler")
        world.create_pod(thief)
        world.bind("default", "thief", "n1")

    job = replace(spec(workers=4, work=60.0, arrival=10.0), min_workers=4)
    # Bound members leave no room for the thief, which no scheduler placed, so its node is overcommitted.
    result = simulate(cluster(job, nodes=2), Kod2(), horizon=900.0, faults=[(10.0 + after, steal)])
    assert result.finished == 1


def test_a_gang_that_fits_no_cluster_waits_and_hurts_nobody() -> None:
    large = replace(spec("large", workers=40, work=60.0), min_workers=40, max_workers=40)
    small = spec("small", workers=2, work=60.0, arrival=5.0)
    result, observer = observed(cluster(large, small), horizon=600.0)
    assert result.never_finished == ("large",)
    verdicts = observer.steps[-1].snapshot.verdicts.values()
    assert [verdict.reason.value for verdict in verdicts] == ["GangExceedsCluster"]


def test_ps_that_stay_after_success_hold_their_room() -> None:
    """CleanPodPolicy None, TFJob's default: with one place less for each finished job the last one never fits."""
    jobs = [spec(f"j{i}", workers=1, work=30.0, clean_pods=CleanPods.NONE, arrival=60.0 * i) for i in range(3)]
    rigid_jobs = tuple(replace(job, max_workers=1) for job in jobs)
    kept, _ = observed(cluster(*rigid_jobs, nodes=1, cores=3), horizon=900.0)
    cleaned = tuple(replace(job, clean_pods=CleanPods.RUNNING) for job in rigid_jobs)
    assert kept.never_finished == ("j2",)
    assert observed(cluster(*cleaned, nodes=1, cores=3))[0].finished == 3


def test_the_same_run_twice_is_the_same_to_the_last_digit() -> None:
    def story() -> tuple[RunResult, list[str]]:
        result, observer = observed(kod2(4))
        return result, [f"{step.at} {step.effects}" for step in observer.steps]

    assert story() == story()


TELL = """
from lab.virtual.podrun import pod_by_pod, simulate
from lab.sim.traces import kod2
from policy.systems.kod2 import Kod2
steps = []
result = simulate(kod2(5), Kod2(), on_step=lambda step, world: steps.append((step.at, step.effects, world.revision)))
print(result, pod_by_pod(kod2(5), 5, patience=1800.0), steps)
"""


@pytest.mark.full
def test_the_order_of_hashes_plays_no_part() -> None:
    stories = [printed(seed, "-c", TELL) for seed in ("0", "1")]
    assert stories[0] == stories[1]
    assert "finished=True" in stories[0]


def test_the_start_of_time_plays_no_part_in_what_is_reported() -> None:
    result, _ = observed(cluster(spec(work=60.0)))
    assert result.jobs[0].arrival == 0.0
    assert result.makespan_seconds < START


def test_pod_by_pod_ends_jobs_that_are_stuck_for_longer_than_the_patience() -> None:
    """With seed 2 jobs deadlock and are ended after the patience of 600 s."""
    results = [pod_by_pod(kod2(seed), seed, patience=600.0) for seed in range(5)]
    for result in results:
        assert all(job.finished or job.terminated for job in result.jobs)
        assert all(job.jct_seconds >= 600.0 for job in result.jobs if job.terminated)
    assert any(job.terminated for job in results[2].jobs)


@pytest.mark.full
def test_the_baseline_policy_does_what_the_plain_scheduler_does() -> None:
    """Two ways to the same baseline: ``fifo-pod`` through the ledger, and a scheduler that knows nothing of it."""
    seeds = range(5)
    policy = [simulate(rigid(kod2(s), KOHORT), FifoPod(Retry.FIFO, s), patience=1800.0) for s in seeds]
    plain = [pod_by_pod(kod2(s), s, patience=1800.0) for s in seeds]
    assert sum(r.finished for r in policy) == pytest.approx(sum(r.finished for r in plain), abs=2)
    means = [fmean(r.mean_jct_seconds for r in results) for results in (policy, plain)]
    assert means[0] == pytest.approx(means[1], rel=0.15)
