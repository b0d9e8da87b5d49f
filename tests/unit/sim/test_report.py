"""The simulator's metrics are those computed by hand."""

import pytest

from lab.sim.objects import WorldChange
from lab.sim.pods.podmeter import PodMeter
from lab.sim.pods.world import SimulatedWorld
from lab.sim.report import JobOutcome, RunResult, reduction
from tests.unit.sim.worlds import bind_all, job, spec, submitted, world

OUTCOMES = (
    JobOutcome("done", 0.0, 10.0, 100.0, finished=True, resizes=2, pairs=4, cross_pairs=1),
    JobOutcome("killed", 50.0, None, 150.0, finished=False, terminated=True, pairs=1),
    JobOutcome("open", 100.0, 200.0, 1000.0, finished=False, pairs=2, cross_pairs=2),
)
RESULT = RunResult("kod2", OUTCOMES, 1000.0, 0.5, 0.75, horizon_seconds=1000.0)


def test_sums_and_means() -> None:
    assert (RESULT.finished, RESULT.never_finished) == (1, ("killed", "open"))
    assert RESULT.mean_jct_seconds == pytest.approx((100 + 100 + 900) / 3)
    assert RESULT.charged_jct_seconds == pytest.approx((100 + 950 + 900) / 3)
    assert RESULT.mean_waiting_seconds == pytest.approx((10 + 100 + 100) / 3)
    assert (RESULT.resizes, RESULT.pairs, RESULT.cross_pairs) == (2, 7, 3)


def test_lateness_is_that_of_the_jobs_with_a_target() -> None:
    late = (JobOutcome("a", 0.0, 1.0, 9.0, finished=True, lateness=x) for x in (3.0, -1.0))
    assert RunResult("oasis", (*OUTCOMES, *late), 1.0, 0.5, 0.5, 1000.0).mean_lateness_slots == pytest.approx(1.0)
    assert RESULT.mean_lateness_slots is None


def test_the_row_of_a_comparison() -> None:
    assert RESULT.to_dict() == {
        "name": "kod2",
        "jobs": 3,
        "finished": 1,
        "mean_jct_seconds": 366.667,
        "makespan_seconds": 1000.0,
        "utilisation": 0.5,
    }


def test_a_run_without_jobs_has_no_means() -> None:
    nothing = RunResult("kod2", (), 0.0, 0.0, 0.0, 100.0)
    assert (nothing.mean_jct_seconds, nothing.charged_jct_seconds, nothing.finished) == (0.0, 0.0, 0)


def test_reduction_is_the_share_that_is_saved() -> None:
    slow = RunResult("fifo-pod", (JobOutcome("a", 0.0, 1.0, 200.0, finished=True),), 1.0, 0.5, 0.5, 1000.0)
    fast = RunResult("kod2", (JobOutcome("a", 0.0, 1.0, 50.0, finished=True),), 1.0, 0.5, 0.5, 1000.0)
    assert reduction(fast, slow) == pytest.approx(0.75)


class Watched:
    """A world that the meter reads at each instant, as in a run."""

    def __init__(self, made: SimulatedWorld) -> None:
        self.world, self.meter, self.seen = made, PodMeter(made), 0
        self.look()

    def look(self) -> None:
        changes: list[WorldChange] = self.world.changes(self.seen) or []
        self.seen = self.world.revision
        self.meter.look(changes)

    def advance(self, until: float) -> None:
        while (at := self.world.next_time()) is not None and at <= until:
            self.meter.run_to(at)
            self.world.advance(at)
            self.look()
        self.meter.run_to(until)
        self.world.advance(until)


def test_utilisation_counts_what_computes_held_counts_what_is_bound() -> None:
    watched = Watched(submitted(spec(workers=1, work=99.0), nodes=1))
    bind_all(watched.world)
    watched.look()
    watched.advance(1000.0)
    result = watched.meter.result("x", 1000.0)
    # Two pods of one core each are bound at 0 on ten cores and compute from 1 to 100 s; the ps goes a second later.
    assert result.makespan_seconds == 100.0
    assert result.utilisation == pytest.approx(2 * 99 / (10 * 100))
    assert result.held == pytest.approx((2 * 100 + 1) / (10 * 100))
    assert result.jobs[0].started == 1.0


def test_pairs_count_each_worker_with_each_ps_when_it_is_bound() -> None:
    watched = Watched(submitted(spec(ps=2, workers=2)))
    for name, where in [("a-ps-0", "n1"), ("a-ps-1", "n2"), ("a-worker-0", "n1"), ("a-worker-1", "n3")]:
        watched.world.bind("default", name, where)
        watched.look()
    result = watched.meter.result("x", 100.0)
    assert (result.pairs, result.cross_pairs) == (4, 3)


def test_only_changes_after_the_start_are_resizes() -> None:
    watched = Watched(submitted(spec(workers=4)))
    watched.world.patch_workers("default", "a", 2)
    watched.look()
    watched.advance(1.0)
    bind_all(watched.world)
    watched.look()
    watched.advance(5.0)
    for workers in (3, 1):
        watched.world.patch_workers("default", "a", workers)
        watched.look()
    assert watched.meter.result("x", 100.0).resizes == 2


def test_a_job_is_stalled_while_it_holds_pods_and_does_not_compute() -> None:
    watched = Watched(submitted(spec(workers=2, least=2)))
    uid = job(watched.world).uid
    assert watched.meter.stalled_since(uid) is None
    watched.advance(10.0)
    watched.world.bind("default", "a-ps-0", "n1")
    watched.look()
    assert watched.meter.stalled_since(uid) == 10.0
    watched.advance(20.0)
    assert watched.meter.stalled_since(uid) == 10.0
    bind_all(watched.world)
    watched.look()
    watched.advance(30.0)
    assert watched.meter.stalled_since(uid) is None


def test_nothing_is_measured_in_an_empty_world() -> None:
    assert Watched(world()).meter.result("x", 10.0).jobs == ()
