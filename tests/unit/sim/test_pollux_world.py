"""The world of the Pollux artifact: rounds, restarts, the rivals in it, and every policy of Kohort."""

from __future__ import annotations

import pytest

from lab.sim.engine import START
from lab.sim.fluid.check import Checker
from lab.sim.objects import JobObject, job_fact
from lab.sim.pollux.oracle import PolluxOracle
from lab.sim.pollux.polluxrun import PolluxSettings, interfered, simulate_pollux
from lab.sim.pollux.workload import workload
from lab.sim.report import JobOutcome, RunResult
from lab.sim.rivals.emptiest import PlacementRule, emptiest_first, fullest_first
from lab.sim.rivals.optimus import Optimus
from lab.sim.rivals.tiresias import Tiresias
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces.reading import TraceError, numbered
from policy.cluster.snapshot import Snapshot
from policy.placement.room import Room
from policy.systems import SYSTEMS, make_policy
from tests.unit.sim.polluxtoy import toy, toys


def outcomes(found: RunResult) -> dict[str, JobOutcome]:
    return {job.name: job for job in found.jobs}


def test_a_job_waits_for_the_round_starts_and_ends_between_rounds() -> None:
    found = simulate_pollux(toys((70, 2, 40)), Tiresias())
    (job,) = found.jobs
    assert job.jct_seconds == 50 + 30 + 150 + 124
    assert (job.started, job.resizes, job.scaling_seconds, job.running_seconds) == (150, 0, 30, 274)
    assert found.makespan_seconds == 70 + 354
    assert found.held == pytest.approx(2 * 304 / (64 * 424))


def test_rounds_and_restarts_are_parameters_of_the_world() -> None:
    found = simulate_pollux(toys((70, 2, 40)), Tiresias(), PolluxSettings(round_seconds=100, restart_seconds=0))
    assert found.jobs[0].jct_seconds == 30 + 150 + 124


@pytest.mark.parametrize(
    "wrong", [{"round_seconds": 0}, {"restart_seconds": -1}, {"interference": 1.0}, {"horizon": 30.0}], ids=str
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        PolluxSettings(**wrong)  # type: ignore[arg-type]


def test_under_tiresias_a_job_with_enough_service_sinks_and_a_new_one_takes_its_gpus() -> None:
    jobs = toys(*[(0, 4, 40)] * 17)
    found = outcomes(simulate_pollux(jobs, Tiresias(threshold_hours=0.125)))
    assert [found[f"toy-{at}"].started for at in (0, 15, 16)] == [90, 90, 210]
    assert [name for name, job in found.items() if job.resizes] == ["toy-15"]


def test_under_tiresias_smaller_jobs_pass_one_that_does_not_fit_unless_that_is_switched_off() -> None:
    jobs = toys(*[(0, 4, 40)] * 15, (0, 3, 40), (0, 2, 40), (0, 1, 40))
    passing, strict = (outcomes(simulate_pollux(jobs, Tiresias(backfill=given))) for given in (True, False))
    assert passing["toy-17"].started == 90
    assert strict["toy-17"].started is not None
    assert strict["toy-17"].started > 90
    assert passing["toy-16"].started == strict["toy-16"].started


def test_optimus_gives_a_job_workers_as_long_as_they_shorten_it() -> None:
    steps: list[SimulatedStep] = []
    jobs = toys((0, 1, 40), (0, 1, 20))
    simulate_pollux(jobs, Optimus(PolluxOracle(jobs)), PolluxSettings(horizon=60), on_step=steps.append)
    workers = {job.name: steps[-1].snapshot.gang(uid).workers for uid, job in steps[-1].snapshot.jobs.items()}
    assert workers == {"toy-0": 4, "toy-1": 2}


def test_optimus_gives_older_jobs_their_first_worker_first() -> None:
    jobs = toys(*[(0, 1, 40)] * 65)
    steps: list[SimulatedStep] = []
    simulate_pollux(jobs, Optimus(PolluxOracle(jobs)), PolluxSettings(horizon=60), on_step=steps.append)
    assert [job.name for job in steps[-1].snapshot.waiting()] == ["toy-64"]


def test_optimus_places_a_job_anew_when_its_number_changes() -> None:
    jobs = toys(*[(0, 1, 40)] * 16, (61, 1, 40))
    found = outcomes(simulate_pollux(jobs, Optimus(PolluxOracle(jobs))))
    assert found["toy-16"].started == 150
    assert sum(job.resizes for job in found.values()) > 0


def test_the_oracle_leaves_out_the_epoch_under_way() -> None:
    jobs = toys((0, 1, 40))
    oracle, job = PolluxOracle(jobs), job_fact(JobObject("job", jobs.trace.jobs[0], created=0.0))
    assert [oracle.left(job, done) for done in (0.0, 99 / 199, 100 / 199, 1.0)] == [50, 50, 1, 1]
    assert [oracle.seconds(job, workers) for workers in (1, 2, 3, 4)] == pytest.approx([4.0, 2.0, 1.3, 1.0])


def test_the_rules_of_placement() -> None:
    jobs = toys((0, 4, 40))
    steps: list[SimulatedStep] = []
    simulate_pollux(jobs, Tiresias(), PolluxSettings(horizon=60), on_step=steps.append)
    snapshot: Snapshot = steps[-1].snapshot
    job = job_fact(JobObject("job", jobs.trace.jobs[0], created=0.0))

    def nodes(workers: int, rule: PlacementRule) -> list[str]:
        room = Room.of(snapshot)
        room.take("node-01", job.requests(2))
        return list((rule(room, job, workers) or {}).values())

    assert nodes(6, emptiest_first) == [*["node-02"] * 4, *["node-03"] * 2]
    assert nodes(2, fullest_first) == ["node-01"] * 2
    assert nodes(6, fullest_first) == [*["node-02"] * 4, *["node-01"] * 2]
    assert nodes(59, emptiest_first) == []


def test_jobs_on_several_nodes_disturb_one_another_on_a_node_that_they_share() -> None:
    assert interfered({"a": ("1", "2"), "b": ("2", "3"), "c": ("2", "2"), "d": ("4", "5")}) == {"a", "b"}


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_policy_finishes_every_job_and_breaks_no_invariant(name: str) -> None:
    jobs = toys(*[(2.0 * at, 1 + at % 2, 20 + 20 * (at // 2 % 2)) for at in range(48)])
    policy = make_policy(name)
    checker = Checker(policy)
    found = simulate_pollux(jobs, policy, PolluxSettings(horizon=60_000), on_step=checker)
    assert checker.broken == []
    assert found.finished == 48


def test_what_the_policies_see_of_a_job() -> None:
    steps: list[SimulatedStep] = []
    jobs = toys((70, 2, 40))
    simulate_pollux(jobs, Tiresias(), PolluxSettings(horizon=300), on_step=steps.append)
    (job,) = steps[-1].snapshot.jobs.values()
    assert (job.arrival, job.min_workers, job.max_workers) == (START + 70, 1, 4)
    assert job.training is not None
    assert job.training.worker_seconds == pytest.approx(2 * (150 + 123.75))
    (report, *_) = reversed(steps[-1].snapshot.reports[job.uid])
    assert report.done == pytest.approx(100 / 199)


def test_rigid_jobs_have_only_the_gpus_that_they_ask_for() -> None:
    assert [(job.min_workers, job.max_workers) for job in toys((0, 3, 40), elastic=False).trace.jobs] == [(3, 3)]


def test_a_batch_without_measurements_is_refused_with_its_row() -> None:
    row = {"name": "a", "time": 0, "application": "toy", "num_replicas": 1, "batch_size": 30}
    with pytest.raises(TraceError, match="row 1: batch_size: '30' is not allowed; allowed: 20 or 40"):
        workload(numbered([row]), {"toy": toy()})
