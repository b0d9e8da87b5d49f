"""Generated traces under every policy: the invariants hold after each step, and each job that could run does run."""

from __future__ import annotations

import pytest

from lab.sim.fluid.check import Checker
from lab.sim.fluid.fluidrun import simulate
from lab.sim.report import RunResult
from lab.sim.simulatedstep import SimulatedStep
from policy.cluster.actions import Migrate
from policy.placement.gang import ask_of
from policy.placement.room import Room
from policy.placement.spread import spread
from policy.systems import SYSTEMS, make_policy
from policy.systems.queue import asked_workers
from tests.unit.sim.generated import Made, made

GATE, TRACES, SOAK = 10, 100, 500  # number of generated traces in each share of the tests
SHARES = [
    pytest.param(range(GATE), id=f"first {GATE}"),
    pytest.param(range(GATE, TRACES), id="others", marks=pytest.mark.full),
]
PAIRS = ("kod2+guests", "oasis+guests", "oasis+specon", "kod2+specon", "drs+specon", "dragon+specon")
# fifo-pod is the baseline that shows deadlocks: half-placed jobs hold their room.
MAY_DEADLOCK = {"fifo-pod"}
# These policies spread all workers that a job asks for, so a job that fits only when packed waits for ever.
SPREADING = {"fifo", "fifo-backfill", "kubeflow-spread", "rrh"}


class Watching(Checker):
    """A checker that keeps the last step and counts the migrations."""

    last: SimulatedStep
    moves = 0

    def __call__(self, step: SimulatedStep) -> None:
        super().__call__(step)
        self.last = step
        self.moves += sum(isinstance(effect, Migrate) for effect in step.effects)

    @property
    def one_fits_nowhere(self) -> bool:
        """Return whether nothing runs at the end, and a waiting job, spread out, does not fit into the
        empty cluster.
        """
        snapshot = self.last.snapshot
        if any(pod.holds_room for pod in snapshot.pods.values()):
            return False
        asks = [ask_of(snapshot, job, asked_workers(job)) for job in snapshot.waiting()]
        return any(spread(Room.of(snapshot), ask) is None for ask in asks)


def checked(name: str, seed: int, *, disturbed: bool) -> tuple[Made, RunResult, Watching]:
    policy = make_policy(name)
    case, checker = made(seed, disturbed=disturbed), Watching(policy)
    result = simulate(case.trace, policy, case.settings, faults=case.faults, on_step=checker)
    assert checker.broken == [], f"seed {seed}"
    assert not name.startswith("oasis") or checker.markets > 0, f"seed {seed}"
    return case, result, checker


def disturbed(name: str, seeds: range) -> None:
    for seed in seeds:
        checked(name, seed, disturbed=True)


def undisturbed(name: str, seeds: range) -> None:
    for seed in seeds:
        case, result, end = checked(name, seed, disturbed=False)
        assert len(result.jobs) == len(case.trace.jobs)
        left = [job.name for job in result.jobs if not (job.finished or job.rejected)]
        waits = name in MAY_DEADLOCK or (name in SPREADING and end.one_fits_nowhere)
        assert not left or waits, f"seed {seed}"


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_the_invariants_hold_whatever_befalls(name: str, seeds: range) -> None:
    disturbed(name, seeds)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_job_that_fits_is_served(name: str, seeds: range) -> None:
    undisturbed(name, seeds)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("name", PAIRS)
def test_the_invariants_hold_where_jobs_are_moved_above(name: str, seeds: range) -> None:
    moves = sum(checked(name, seed, disturbed=seed % 2 == 0)[2].moves for seed in seeds)
    assert moves >= 1


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_the_invariants_hold_on_a_thousand_traces(name: str) -> None:
    disturbed(name, range(SOAK))
    undisturbed(name, range(SOAK))
