"""KOD2's experiment as a seeded value, and traces as rows."""

import json
from pathlib import Path

import pytest

from lab.sim.objects import JobSpec
from lab.sim.traces import DEFAULT_SCHEDULER, kod2, rigid
from lab.sim.traces.kohortformat import jobs_of, rows
from lab.sim.traces.reading import numbered
from policy.cluster.job import PS, WORKER

COMMITTED = Path(__file__).parent / "kod2-seed-1.json"
GIB = 1 << 30


def test_kod2s_cluster_is_three_nodes_of_ten_cores_32_gib_and_one_gpu() -> None:
    nodes = kod2(1).nodes
    assert len(nodes) == 3
    assert {(n.allocatable["cpu"], n.allocatable["memory"], n.allocatable["nvidia.com/gpu"]) for n in nodes} == {
        (10_000, 32 * GIB, 1)
    }


def test_ten_jobs_come_every_thirty_seconds() -> None:
    assert [(job.name, job.arrival) for job in kod2(1).jobs] == [(f"job-{i}", 30.0 * i) for i in range(10)]


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_within_the_experiments_ranges(seed: int) -> None:
    assert all(within(job) for job in kod2(seed).jobs)


def within(job: JobSpec) -> bool:
    worker, server = job.role(WORKER), job.role(PS)
    assert worker is not None
    assert server is not None
    return (
        worker.requests["cpu"] in (1000, 2000, 3000)
        and worker.requests["memory"] in (2 * GIB, 4 * GIB, 6 * GIB)
        and (server.replicas, server.requests["cpu"], server.requests["memory"]) == (1, 1000, 2 * GIB)
        and job.min_workers in (1, 2)
        and job.max_workers in (4, 5, 6)
        and worker.replicas == job.max_workers
        and 300.0 <= job.work_seconds <= 1200.0
    )


def test_a_seed_is_a_trace_and_another_seed_another() -> None:
    assert kod2(7) == kod2(7)
    assert kod2(7) != kod2(8)


def test_the_committed_trace_is_still_what_the_generator_makes() -> None:
    assert jobs_of(numbered(json.loads(COMMITTED.read_text()))) == kod2(1).jobs


def test_rows_and_jobs_are_the_same_thing() -> None:
    jobs = rigid(kod2(3), "kohort").jobs
    assert jobs_of(numbered(json.loads(json.dumps(rows(jobs))))) == jobs


def test_plain_kubernetes_runs_all_replicas_or_nothing() -> None:
    jobs = rigid(kod2(1)).jobs
    assert {(job.min_workers == job.max_workers == job.workers, job.scheduler) for job in jobs} == {
        (True, DEFAULT_SCHEDULER)
    }
