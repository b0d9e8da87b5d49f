"""Tests on 100 nodes: jobs arrive, and every part is killed at critical moments while the API server has faults."""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.faultproxy import Fault, FaultProxy
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import nodes_of
from tests.e2e.gangs import fresh_kohort, submit
from tests.e2e.inventory import told_of_waiting
from tests.e2e.observer import ClusterObserver
from tests.e2e.storm import (
    FAULTS,
    MIDDLES,
    PARTS,
    WORKER_CORES,
    Arrivals,
    Killer,
    Middles,
    by_end,
    differences,
    is_whole,
    knows,
    left_behind,
    overcommitted,
    view,
)
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import at_rest, never, until

pytestmark = pytest.mark.full

Json = dict[str, Any]
NODES, CORES = 100, 2
SEED = 7
MORE_SEEDS = (1007, 1008)
QUIET_LIMIT = 60.0  # All jobs must end within so many seconds after the last fault.
# A gang may be half bound for so many seconds: httpTimeout, a start of the extender, barrier.repair_seconds.
PARTIAL_LIMIT = 60.0
STALL_LIMIT = 75.0  # A job must start within so many seconds, because a silent watch is given up after 50 s.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    shape = NodeShape(count=NODES, cpu=str(CORES))
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("storm"), controller_manager=True) as started:
        yield started


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(plane.url, plane.layout.pki, SEED) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane, proxy: FaultProxy) -> Iterator[Kohort]:
    settings = {"kod2": {"cooldown_seconds": 1}, "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 5}}
    with fresh_kohort(plane, settings, "storm", api_url=proxy.url) as started:
        yield started


def storm(
    plane: ControlPlane, proxy: FaultProxy, kohort: Kohort, space: str, *, kills: int, rounds: int, unfinished: int,
    seed: int,
) -> tuple[int, Killer]:  # fmt: skip
    """Kill each process ``kills`` times while a gang is half bound and while a job is resized, in ``rounds`` rounds.

    Then wait until all jobs have ended, and check that no node was overcommitted, no gang stayed half bound, and no job
    failed. Return the number of API server faults and the killer. The time until the extender is ready is only printed,
    because it depends on the machine; `python -m benchmarks.rebuild --check` judges it.
    """
    chance, before = random.Random(seed), proxy.injected.total()
    standing = [
        submit(plane, TFJob(space, "standing", workers=5, worker_cpu=WORKER_CORES)),
        submit(plane, TFJob(space, "stretching", workers=4, least=2, most=9, worker_cpu=WORKER_CORES)),
        submit(plane, TFJob(space, "never", workers=2, worker_cpu=str(CORES + 1))),
    ]
    arrivals = Arrivals(plane, space, chance, unfinished)
    killer = Killer(plane, kohort, Middles(plane, space))
    with ClusterObserver(plane, space) as observer:
        proxy.inject(*FAULTS)
        arrivals.start()
        killer.rage(kills, rounds, chance)
        arrivals.stop()
        proxy.heal()
        jobs = [*standing, *arrivals.jobs]
        names = {job.name for job in standing}
        took = until(
            lambda: set(by_end(plane, space)[""]) == names, "every other job ended", QUIET_LIMIT,
            lambda: [job for job in kohort.get("/v1/jobs")["jobs"] if job["name"] in by_end(plane, space)[""]],
        )  # fmt: skip
        ends = by_end(plane, space)
        for name, end in arrivals.ends.items():
            ends[end].append(name)
        partial = max(observer.partial_seconds(job.name, job.ps + (job.least or job.workers)) for job in jobs)
        print(f"seed {seed}: {len(jobs)} jobs, {len(ends['Succeeded'])} succeeded, {len(ends['Failed'])} failed; "
              f"at rest {took:.1f} s after the last fault; longest partly bound {partial:.1f} s\n"
              f"kills: {dict(killer.kills)}; extender ready again after {median(killer.ready_seconds):.1f} s, "
              f"at most {max(killer.ready_seconds):.1f} s\n"
              f"{proxy.injected.total()} API faults of {proxy.served} requests: {dict(_by_kind(proxy))}")  # fmt: skip
        cores = {(job.name, role): int(cpu) for job in jobs for role, cpu in (("ps", "1"), ("worker", job.worker_cpu))}
        assert overcommitted(observer.sightings, cores, CORES) == []
        assert [job.name for job in standing if not is_whole(observer, job)] == []
        assert partial <= PARTIAL_LIMIT
        assert not observer.problem
    assert killer.ended_by_themselves() == []
    assert ends["Failed"] == []
    assert set(ends["Succeeded"]) == {job.name for job in arrivals.jobs}
    assert names <= knows(kohort, space)
    until(lambda: told_of_waiting(plane, space)["never"], "the one that waits all the while is told why", QUIET_LIMIT)
    assert len(told_of_waiting(plane, space)["never"]) < 10, "however often the controller was killed"
    until(lambda: not left_behind(plane, space), "the ended jobs' pods gone", QUIET_LIMIT)
    _assert_rebuilt_is_fresh(kohort, space)
    return proxy.injected.total() - before, killer


def _by_kind(proxy: FaultProxy) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for what, count in proxy.injected.items():
        kind = what.split(" ")[0]
        kinds[kind] = kinds.get(kind, 0) + count
    return kinds


def _assert_rebuilt_is_fresh(kohort: Kohort, space: str) -> None:
    """Restart the extender, and check that it rebuilds the same ledger from the API server."""
    settled = at_rest(lambda: view(kohort, space))
    kohort.extender.crash()
    kohort.extender.start()
    kohort.wait_ready()
    assert differences(settled, at_rest(lambda: view(kohort, space))) == []


def test_a_short_storm(plane: ControlPlane, proxy: FaultProxy, kohort: Kohort, space: str) -> None:
    faults, killer = storm(plane, proxy, kohort, space, kills=1, rounds=1, unfinished=12, seed=SEED)
    assert faults >= 20
    assert killer.kills.total() == len(PARTS) * len(MIDDLES)


@pytest.mark.soak
@pytest.mark.timeout(3600, func_only=True)
@pytest.mark.parametrize("seed", [SEED, *MORE_SEEDS])
def test_a_long_storm(plane: ControlPlane, proxy: FaultProxy, kohort: Kohort, space: str, seed: int) -> None:
    faults, killer = storm(plane, proxy, kohort, space, kills=20, rounds=60, unfinished=16, seed=seed)
    assert faults >= 400
    assert killer.lacking(20) == [], killer.kills


@pytest.mark.soak
def test_watches_that_go_silent_are_noticed(plane: ControlPlane, proxy: FaultProxy, kohort: Kohort, space: str) -> None:
    """Kohort opens new watches when the old ones deliver nothing, as behind a firewall that has dropped them."""
    proxy.inject(Fault("stall"))
    job = submit(plane, TFJob(space, "gang", workers=4))
    # The watches deliver neither the new job nor its pods.
    never(lambda: knows(kohort, space), "told of a job by a silent watch", 3)
    proxy.inject(Fault("delay", seconds=0.0))
    took = until(lambda: len(nodes_of(plane, space, job.name)) == 5, "bound", STALL_LIMIT)
    print(f"bound {took:.1f} s after the watches went silent")
    proxy.heal()
