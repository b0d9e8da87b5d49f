"""The speed models give the speeds that are computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.sim.fluid.link import DRAGON, GIGABIT_ETHERNET, SharedLinks
from lab.sim.fluid.speedmodels import Linear, RunningGang, Saturating, SharedCpu, Speeds
from tests.unit.sim.worlds import spec


def gang(workers: Sequence[str], servers: Sequence[str] = ("n1",), model: str = "AlexNet") -> RunningGang:
    return RunningGang(spec(model=model), tuple(workers), tuple(servers))


def rate(speeds: Speeds, *gangs: RunningGang) -> list[float]:
    found = speeds.rates({f"j{index}": made for index, made in enumerate(gangs)}, {})
    return [found[f"j{index}"] for index in range(len(gangs))]


@pytest.mark.parametrize("model", DRAGON)
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_workers_beside_their_ps_are_as_fast_as_measured(model: str, workers: int) -> None:
    images = DRAGON[model].images
    assert rate(SharedLinks(), gang(["n1"] * workers, model=model)) == [pytest.approx(images[workers - 1] / images[0])]


def test_beyond_the_table_the_saturating_curve_goes_on_from_its_end() -> None:
    four, eight = (rate(SharedLinks(), gang(["n1"] * n))[0] for n in (4, 8))
    assert eight / four == pytest.approx((8 / (1 + 0.205 * 7)) / (4 / (1 + 0.205 * 3)))


def test_a_remote_worker_waits_for_its_parameters_and_for_its_gradients() -> None:
    """The figures are the study's: a step of AlexNet at batch 64 takes 1.68 s and, with a remote ps, 4.2 s more."""
    step = 64 / 38.09
    traffic = 2 * 244e6 / GIGABIT_ETHERNET
    assert traffic == pytest.approx(4.17, abs=0.01)
    assert rate(SharedLinks(), gang(["n2"])) == [pytest.approx(step / (step + traffic))]
    assert rate(SharedLinks(volume=0.5), gang(["n2"])) == [pytest.approx(step / (step + traffic / 2))]


def test_two_ps_on_two_nodes_halve_what_is_remote() -> None:
    step = 64 / 38.09
    assert rate(SharedLinks(), gang(["n1"], ["n1", "n2"])) == [pytest.approx(step / (step + 244e6 / GIGABIT_ETHERNET))]


def test_transfers_that_fit_into_a_link_do_not_slow_one_another() -> None:
    """Both one-worker jobs have their ps on n1, and each transfers for less than half of its step in
    either direction.
    """
    alone, pair = rate(SharedLinks(), gang(["n2"])), rate(SharedLinks(), gang(["n2"]), gang(["n3"]))
    assert pair == [pytest.approx(alone[0])] * 2


def test_a_link_that_is_asked_for_more_than_it_has_is_shared() -> None:
    many = [gang([f"n{index + 2}"]) for index in range(6)]
    speeds = SharedLinks()
    shared = rate(speeds, *many)
    assert max(shared) == pytest.approx(min(shared))
    assert shared[0] < rate(speeds, many[0])[0]
    # The speeds settle where the ps's link is nearly full: each of six workers fetches 244 MB in a step.
    step = 64 / 38.09 / shared[0]
    assert 0.8 * GIGABIT_ETHERNET < 6 * 244e6 / step <= GIGABIT_ETHERNET * (1 + 1e-6)


def test_jobs_on_other_links_are_not_touched() -> None:
    busy = [gang([f"n{index + 2}"]) for index in range(6)]
    elsewhere = gang(["n9"], ["n8"])
    assert rate(SharedLinks(), *busy, elsewhere)[-1] == pytest.approx(rate(SharedLinks(), elsewhere)[0])


def test_a_model_that_was_not_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="model is 'GPT', must be one of AlexNet, InceptionV3, ResNet-50"):
        rate(SharedLinks(), gang(["n1"], model="GPT"))


def test_work_in_seconds_follows_from_the_steps() -> None:
    assert SharedLinks().work_seconds("ResNet-50", 2800) == pytest.approx(2800 * 64 / 115.06)


def test_a_node_is_shared_by_the_workers_on_it() -> None:
    crowd = [gang(["n1"], ()), gang(["n1"], ()), gang(["n2", "n1"], ())]
    assert rate(SharedCpu(), *crowd) == [pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(4 / 3)]
    assert rate(SharedCpu(gamma=0.1), *crowd[:2]) == [pytest.approx(0.5 / 1.1)] * 2


def test_linear_and_saturating_look_at_one_gang() -> None:
    two = gang(["n1", "n1"])
    assert rate(Linear(), two, two) == [2.0, 2.0]
    assert rate(Saturating(), two) == [pytest.approx(2 / 1.1)]
