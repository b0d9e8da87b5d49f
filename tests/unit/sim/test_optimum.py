"""The offline optimum of instances that can be solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.papers.oasis_jobs import job
from lab.sim.objects import JobSpec
from lab.sim.optimum import MOST_VARIABLES, TooLargeError, optimum
from lab.sim.traces import Trace, node, pod_requests
from policy.cluster.job import PS, WORKER
from policy.cluster.training import Training, Utility
from policy.systems.oasis.workload import POOL

SLOT = 100.0
# Each worker and each ps takes a core: two workers fit on the workers' server of two cores.
SERVERS = (replace(node("w", 2, 64), labels={POOL: WORKER}), replace(node("p", 2, 64), labels={POOL: PS}))


def one(name: str, worth: float, slots: int, slot: int = 0, most: int = 2, steep: float = 1.0) -> JobSpec:
    """Return a job of ``slots`` worker-slots of work.

    Its utility is half of ``worth`` in the slot of its arrival, and falls from then on.
    """
    training = Training(
        epochs=-(-slots // most), chunks=most, seconds=SLOT, worker_bandwidth=1.0, ps_bandwidth=10.0,
        utility=Utility(worth, steep, 0.0),
    )  # fmt: skip
    return job(name, slot, training, pod_requests(1, 1), pod_requests(1, 1), 1, SLOT)


def best(*jobs: JobSpec, slots: int = 4) -> tuple[float, dict[str, int]]:
    found = optimum(Trace(SERVERS, jobs), SLOT, slots)
    assert found.proved
    assert found.bound == pytest.approx(found.utility, rel=1e-2)
    return found.utility, found.completions


def test_a_job_alone_is_done_as_soon_as_can_be() -> None:
    utility, done = best(one("a", 10.0, 4))
    assert done == {"a": 1}
    assert utility == pytest.approx(Utility(10.0, 1.0, 0.0).at(1))


def test_the_one_that_loses_more_by_waiting_goes_first() -> None:
    _, done = best(one("a", 10.0, 4), one("b", 100.0, 4))
    assert done == {"a": 3, "b": 1}


def test_a_job_waits_for_one_that_comes_later_and_is_worth_more() -> None:
    _, done = best(one("a", 10.0, 2, steep=0.01), one("b", 100.0, 4, slot=1), slots=3)
    assert done == {"a": 0, "b": 2}


def test_what_does_not_fit_into_the_timespan_is_left_out() -> None:
    assert best(one("a", 10.0, 10), slots=4) == (0.0, {})


def test_ps_bandwidth_and_the_number_of_ps_are_constraints() -> None:
    slow = one("a", 10.0, 4)
    assert slow.training is not None
    # one worker would need two ps, but a job may not have more ps than workers
    few = replace(slow, training=replace(slow.training, ps_bandwidth=0.5))
    assert best(few) == (0.0, {})


def test_an_instance_that_nobody_would_wait_for_is_refused() -> None:
    with pytest.raises(TooLargeError, match=f"more than {MOST_VARIABLES} variables"):
        optimum(Trace(SERVERS, (one("a", 10.0, 4, steep=0.0),)), SLOT, MOST_VARIABLES)
