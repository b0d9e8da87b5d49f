"""The training of a job in the world of the Pollux artifact, on numbers that are computed by hand."""

from __future__ import annotations

import pytest

from lab.sim.pollux.profiles import first_rotation
from lab.sim.pollux.training import (
    Split,
    TrainingJob,
    gain,
    iteration_seconds,
    packed,
    placement_of,
    split,
)
from lab.sim.pollux.workload import most_gpus, seconds_alone
from tests.unit.sim.polluxtoy import toy

TOY = toy()
SPLITS = {
    "one GPU takes the initial batch in one pass": (20, 1, False, Split(20, 0, 20)),
    "an oracle counts two passes on one GPU": (20, 1, True, Split(10, 1, 20)),
    "one GPU takes a larger batch in two passes": (40, 1, False, Split(20, 1, 40)),
    "two GPUs take half of it each": (40, 2, False, Split(20, 0, 40)),
    "the batch never passes the largest one": (40, 3, False, Split(13, 0, 39)),
    "it is rounded up where it may": (20, 3, False, Split(7, 0, 21)),
}


@pytest.mark.parametrize(("batch", "gpus", "accumulates", "want"), SPLITS.values(), ids=SPLITS.keys())
def test_how_a_batch_is_divided_among_gpus(batch: int, gpus: int, accumulates: bool, want: Split) -> None:
    assert split(TOY, batch, gpus, accumulates=accumulates) == want


TIMES = {
    "one pass on one node": ((2,), Split(20, 0, 40), 2.0),
    "one pass on two nodes": ((1, 1), Split(20, 0, 40), 2.5),
    "between two measured batches": ((2, 1), Split(15, 0, 45), 2.0),
    "a second pass without exchange": ((2, 1), Split(15, 1, 90), 3.5),
    "another order around the ring is slower": ((3, 2, 1), Split(10, 0, 60), 3.0),
    "and the other order is not": ((3, 1, 2), Split(10, 0, 60), 2.0),
    "five nodes are looked up by their number": ((2, 2, 2, 1, 1), Split(10, 0, 80), 7.0),
}


@pytest.mark.parametrize(("placement", "parts", "want"), TIMES.values(), ids=TIMES.keys())
def test_the_time_of_an_iteration(placement: tuple[int, ...], parts: Split, want: float) -> None:
    assert iteration_seconds(TOY, placement, parts) == pytest.approx(want)


@pytest.mark.parametrize(("placement", "local"), [((2,), 9), ((2,), 21), ((1, 1, 1, 1, 1), 10)])
def test_what_was_not_measured_is_an_error(placement: tuple[int, ...], local: int) -> None:
    with pytest.raises(ValueError, match="no step time"):
        TOY.step_time(placement, local)


def test_a_placement_is_read_around_the_ring() -> None:
    assert first_rotation((4, 2)) == (2, 4)
    assert first_rotation((3, 1, 2)) == (1, 2, 3)
    assert first_rotation((3, 2, 1)) == (1, 3, 2)
    assert packed(10) == (4, 4, 2)
    assert placement_of(["b", "b", "a", "b"]) == (3, 1)


def test_the_gain_of_a_batch_follows_from_the_gradient_of_the_epoch() -> None:
    assert gain(TOY, 20, 0) == 1.0
    assert gain(TOY, 40, 0) == pytest.approx(2 / 1.5)
    assert gain(TOY, 40, 1) == pytest.approx(4 / 2.5)
    assert gain(TOY, 30, 0) == pytest.approx(2 / (1 / 1.5 + 1))


def test_an_epoch_ends_at_the_least_progress_of_all_batch_sizes() -> None:
    assert TOY.targets == (100.0, 199.0)
    assert most_gpus(TOY, 40) == 4
    assert seconds_alone(TOY, 40, 2) == pytest.approx(150 + 123.75)


def test_a_job_restarts_and_trains_and_its_epochs_end_at_whole_seconds() -> None:
    job = TrainingJob(TOY, 40)
    assert job.advance(60) == 60  # It has no GPUs.
    job.start(("a", "a"), 60.0, 30.0)
    assert job.advance(200) == 200
    assert (job.epoch, job.metric) == (1, 0.4)
    assert job.progress == pytest.approx(116.0)
    assert job.advance(200) == 104  # 83 of progress at 0.8 a second take 103.75 s.
    assert job.complete
    assert (job.began, job.delayed, job.trained, job.gpu_trained) == (90.0, 30, 274, 548)


def test_a_start_on_other_gpus_costs_a_restart_that_is_set_and_not_added() -> None:
    job = TrainingJob(TOY, 40)
    job.start(("a", "a"), 0.0, 30.0)
    job.advance(20)
    job.start(("a", "b"), 20.0, 30.0)
    assert (job.delay, job.starts) == (30.0, 2)
    job.advance(60)
    assert job.progress == pytest.approx(30 * (2 / 1.5) / 2.5)
    job.start((), 80.0, 30.0)
    assert (job.delay, job.starts, job.advance(60)) == (0, 2, 60)


def test_interference_slows_a_job_down() -> None:
    job = TrainingJob(TOY, 40)
    job.start(("a", "a"), 0.0, 0.0)
    job.advance(60, 0.5)
    assert job.progress == pytest.approx(20.0)
