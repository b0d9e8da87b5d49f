"""Crash the extender and the controller at each of their writes in sixteen scenarios, in three ways.

A reference run counts the writes. Then there is one run for each write and way, in which the process that makes the
write is killed before it, after its answer, or after it without the answer. The process restarts, and all invariants
must hold in the end. OASiS's decisions and prices must be exactly those of the reference run in the same time slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from extender.kube.api import Json
from extender.kube.jobkinds import MEMORY, TRAINING
from extender.leading.lease import EVERYBODY
from lab.embedded.apirules import StatusError
from lab.sim.objects import JobSpec, WorkloadKind
from lab.sim.pods.world import SimulatedWorld
from lab.sim.traces import Trace, node, pod_requests
from lab.virtual.clocks import loop_time
from policy.cluster.job import PS, WORKER, Role
from tests.simulation.memory import SLOT_SECONDS
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import PARAMETERS, Scenario, scheduler_of, settings_of, worth

WAYS: Final = ("kill-before-write", "kill-after-write", "kill-unanswered")
CRASHING: Final = ("extender", "controller")
# These times, in seconds from the start of a run, are one second before the end of each time slot.
SLOT_ENDS: Final = tuple(4.0 + SLOT_SECONDS * slot for slot in range(20))
Act = Callable[[SimulatedWorld], object]


@dataclass(frozen=True, slots=True)
class Plot:
    """A small scenario without random faults; ``acts`` has the actions of users and machines, as (seconds, function of
    the world).

    ``refused`` are pods whose bindings the API server refuses for the first ``refusing`` seconds. With ``early``, a
    gang is bound at the first bind call of a member.
    """

    jobs: tuple[JobSpec, ...]
    nodes: int = 2
    acts: tuple[tuple[float, Act], ...] = ()
    refused: frozenset[str] = frozenset()
    refusing: float = 0.0
    nominates: bool = False
    policy: str = "kod2"
    early: bool = False


def _job(name: str, workers: int, *, least: int = 0, most: int = 0, at: float = 0.0, utility: float = 1.0,
         cores: int = 2, work: float = 40.0, value: float = 0.0) -> JobSpec:  # fmt: skip
    roles = (Role(PS, 1, pod_requests(1, 2)), Role(WORKER, workers, pod_requests(cores, 2)))
    return JobSpec(
        name, roles, least or workers, most or workers, work, arrival=at, utility=utility,
        annotations={TRAINING: worth(work, value, 1.0, 8.0)} if value else {},
    )  # fmt: skip


def _own(kind: WorkloadKind, job: JobSpec) -> JobSpec:
    """Return a job of that kind with the same workers and without other roles."""
    return replace(job, kind=kind, roles=tuple(role for role in job.roles if role.name == WORKER))


def _shrink(kind: WorkloadKind) -> Plot:
    return Plot((_own(kind, _job("a", 4, least=1, most=4, work=120.0)), _job("b", 2, at=8.0, utility=50.0)), nodes=1)


def _grow(kind: WorkloadKind) -> Plot:
    return Plot((_own(kind, _job("a", 1, least=1, most=5, cores=1)), _job("b", 2, work=5.0)), nodes=1)


PLOTS: Final[dict[str, Plot]] = {
    "admission": Plot((_job("a", 2), _job("b", 2), _job("c", 3, at=1.0)), nominates=True),
    "commit": Plot((_job("a", 4, cores=1), _job("b", 3, cores=2, at=0.5))),
    # All five members are bound, and then one is deleted.
    "repair": Plot((_job("a", 4),), acts=((0.6, lambda w: w.delete_pod("default", "a-worker-1")),)),
    # The binding of one of three members is refused for longer than a repair may take. The other two are released, and
    # all three start again.
    "k-of-n": Plot((_job("a", 2),), refused=frozenset({"a-worker-1"}), refusing=24.0),
    # The next two plots are "commit" and "k-of-n" with barrier.commit: first.
    "early": Plot((_job("a", 4, cores=1), _job("b", 3, cores=2, at=0.5)), early=True),
    "early-k-of-n": Plot((_job("a", 2),), refused=frozenset({"a-worker-1"}), refusing=24.0, early=True),
    # The gang loses one of its two nodes, and the other is too small for all members, so that the gang is released
    # whole.
    "release": Plot(
        (_job("a", 5, cores=3),),
        nodes=2,
        acts=((8.0, lambda w: w.remove_node("node-1")), (75.0, lambda w: w.add_node(node("node-1", 10, 32)))),
    ),
    # The heavier job fits once the other job has only two of its workers left.
    "shrink": Plot((_job("a", 4, least=1, most=4, work=120.0), _job("b", 2, at=8.0, utility=50.0)), nodes=1),
    "grow": Plot((_job("a", 1, least=1, most=5, cores=1), _job("b", 2, work=5.0)), nodes=1),
    "indexed-shrink": _shrink(WorkloadKind.INDEXED_JOB),
    "indexed-grow": _grow(WorkloadKind.INDEXED_JOB),
    "set-shrink": _shrink(WorkloadKind.STATEFULSET),
    "set-grow": _grow(WorkloadKind.STATEFULSET),
    "deployment-shrink": _shrink(WorkloadKind.DEPLOYMENT),
    "deployment-grow": _grow(WorkloadKind.DEPLOYMENT),
    # One job is admitted, one is planned for later, and one is rejected; the next leader has to know all three
    # decisions. The jobs arrive early in a time slot, so that a killed process is back within the same time slot.
    "memory": Plot(
        (_job("a", 4, at=6.0, value=100.0), _job("b", 3, at=8.0, value=90.0), _job("c", 4, at=9.0, value=0.001)),
        nodes=1,
        policy="oasis",
    ),
}


def scenario(plot: Plot) -> Scenario:
    """Return the plot as a scenario."""
    settings = settings_of(
        **({"barrier": {"commit": "first"}} if plot.early else {}),
        lease={"identity": EVERYBODY},
        nominate_above_nodes=0 if plot.nominates else 500,
        gate="always" if plot.nominates else "when-queued",
        kod2={"cooldown_seconds": 5.0},
        policy=plot.policy,
        parameters=PARAMETERS.get(plot.policy, {}),
    )
    nodes = tuple(node(f"node-{index}", 10, 32) for index in range(plot.nodes))
    storm = max([10.0, plot.refusing, *(at + 1.0 for at, _ in plot.acts)])
    return Scenario(0, Trace(nodes, plot.jobs), settings, scheduler_of(settings), storm, storm)


class CrashAtWrite:
    """Counts the writes of all processes, and kills the process that makes one given write."""

    def __init__(self, at: tuple[str, int] | None = None, way: str = "") -> None:
        self.seen: Counter[str] = Counter()
        self.struck = False
        self._at = at
        self._way = way

    def __call__(self, who: str, verb: str) -> str:
        if who not in CRASHING:
            return ""
        self.seen[who] += 1
        if self._at == (who, self.seen[who]) and not self.struck:
            self.struck = True
            return self._way
        return ""


@dataclass(slots=True)
class KeptByOasis:
    """What OASiS stores at the end of each time slot, until the first job ends; the times after that differ between
    runs.

    ``texts`` maps each time slot to the annotation of each job by name, and ``prices`` to the prices in the leader's
    ledger, if there is a leader.
    """

    texts: dict[int, dict[str, str]] = field(default_factory=dict)
    prices: dict[int, Mapping[str, float]] = field(default_factory=dict)

    def record(self, simulation: Simulation) -> None:
        """Record the annotations and prices of the present time slot."""
        jobs = simulation.world.store.jobs.values()
        if any(job.phase.ended for job in jobs):
            return
        slot = int(loop_time() // SLOT_SECONDS)
        self.texts[slot] = {job.spec.name: job.spec.annotations.get(MEMORY, "") for job in jobs}
        if simulation.extender.leads:
            ledger = simulation.extender.live.ledger
            self.prices[slot] = ledger.policy.base.prices(ledger.snapshot, loop_time())

    def departures(self, reference: KeptByOasis) -> Iterator[str]:
        """Yield a sentence for each time slot in which this run's annotations or prices differ from the reference
        run's.
        """
        for slot in sorted(self.texts.keys() & reference.texts.keys()):
            if self.texts[slot] != reference.texts[slot]:
                yield f"slot {slot}: the texts are {self.texts[slot]}, and were {reference.texts[slot]}"
        for slot in sorted(self.prices.keys() & reference.prices.keys()):
            if self.prices[slot] != reference.prices[slot]:
                yield f"slot {slot}: the prices are {self.prices[slot]}, and were {reference.prices[slot]}"


def play_plot(
    name: str, counting: CrashAtWrite, more: tuple[tuple[float, Act], ...] = ()
) -> tuple[SeedReport, KeptByOasis]:
    """Run the plot once, with the crash that ``counting`` makes; ``more`` are additional acts."""
    plot, kept = PLOTS[name], KeptByOasis()

    def make() -> Simulation:
        made = Simulation(replace(scenario(plot)), kinds=(), crash=counting)
        if plot.refused:
            _refuse(made, plot)
        looks = ((at, lambda _: kept.record(made)) for at in SLOT_ENDS) if plot.policy == "oasis" else ()
        made.acts = (*plot.acts, *looks, *more)
        return made

    return play(make), kept


def _refuse(simulation: Simulation, plot: Plot) -> None:
    """Let the API server refuse the bindings, as an admission policy does."""
    server = simulation.cluster.server
    bind = server.bind

    def refusing(namespace: str, name: str, binding: Json) -> Json:
        if name in plot.refused and loop_time() - began < plot.refusing:
            raise StatusError(403, "Forbidden", "refused by the plot")
        return bind(namespace, name, binding)

    began = loop_time()
    server.bind = refusing  # type: ignore[method-assign]


@cache
def reference(name: str) -> KeptByOasis:
    """Return what OASiS stores in a run of that plot without a crash."""
    return play_plot(name, CrashAtWrite())[1]


def points(name: str) -> Iterator[tuple[str, int]]:
    """Yield every write of the reference run as (process, number)."""
    counting = CrashAtWrite()
    report, _ = play_plot(name, counting)
    assert not report.violations, report.violations
    for who in CRASHING:
        yield from ((who, number) for number in range(1, counting.seen[who] + 1))


def crash(point: tuple[str, str, int, str]) -> tuple[str, list[str]]:
    """Run a plot with one crash, and return the crash's name and the violations.

    ``point`` is (plot, process, number of the process's write, way of the crash).
    """
    name, who, number, way = point
    counting = CrashAtWrite((who, number), way)
    report, kept = play_plot(name, counting)
    found = [*report.violations, *kept.departures(reference(name))]
    if not counting.struck:
        found.append("the write was never made")
    return f"{name}: {who} write {number} {way}", found
