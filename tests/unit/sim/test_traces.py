"""KOD2's experiment as a seeded value, and traces as rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from policy.cluster.model import PS, WORKER
from policy.sim.objects import JobSpec
from policy.sim.traces import DEFAULT_SCHEDULER, TraceError, jobs_of, kod2, rigid, rows

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
    assert jobs_of(json.loads(COMMITTED.read_text())) == kod2(1).jobs


def test_rows_and_jobs_are_the_same_thing() -> None:
    jobs = rigid(kod2(3), "kohort").jobs
    assert jobs_of(json.loads(json.dumps(rows(jobs)))) == jobs


def test_plain_kubernetes_runs_all_replicas_or_nothing() -> None:
    jobs = rigid(kod2(1)).jobs
    assert {(job.min_workers == job.max_workers == job.workers, job.scheduler) for job in jobs} == {
        (True, DEFAULT_SCHEDULER)
    }


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "fewer than the minimum": ({"workers": 1, "min_workers": 2}, "row 2: workers: 1 <= 2 (min) <= 1"),
    "no minimum": ({"min_workers": 0}, "row 2: workers: 1 <= 0 (min)"),
    "no work": ({"work_seconds": 0}, "row 2: work_seconds: 0.0 is not above 0"),
    "endless work": ({"work_seconds": "inf"}, "row 2: work_seconds: inf"),
    "a word for a number": ({"ps": "one"}, "row 2: invalid literal"),
    "a negative request": ({"ps_millicores": -1}, "row 2: ps_millicores: -1 is below 0"),
    "no such clean-up": ({"clean_pods": "Some"}, "row 2: 'Some' is not a valid CleanPods"),
    "a column is missing": ({"name": None}, "row 2: 'name' is missing"),
}


@pytest.mark.parametrize(("changes", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_row_is_named_with_what_is_wrong(changes: dict[str, Any], said: str) -> None:
    good = rows(kod2(1).jobs)[0]
    bad = {key: value for key, value in {**good, **changes}.items() if value is not None}
    with pytest.raises(TraceError) as error:
        jobs_of([good, bad])
    assert str(error.value).startswith(said)
