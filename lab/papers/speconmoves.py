"""The cost of a move (SpeCon, Figures 2 and 3), and this project's variant ``guests``, whose moves harm no job."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.papers.experiment import Bar, Experiment, Mutant, OverAllSeeds, Row, best, mean
from lab.papers.published import at_most
from lab.papers.speconfigures import draw_costs, draw_guests
from lab.papers.speconworld import (
    AS_RUN,
    BI_RNN,
    FIXED,
    GRU,
    MIXED,
    SETTINGS,
    VAE,
    Setup,
    compare,
    named,
    run,
    trace_of,
)
from lab.sim.fluid.fluidrun import simulate
from policy.cluster.actions import Action, Decision, Migrate, Remember
from policy.cluster.gang import State
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy
from policy.systems.baselines import RoundRobin
from policy.systems.guests import KEY, Guests

MODELS = {"VAE": VAE, "GRU": GRU, "Bi-RNN": BI_RNN}
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SETUPS = {"fixed": FIXED, **{f"{jobs} mixed": setup for jobs, setup in MIXED.items()}}


@dataclass(frozen=True, slots=True)
class MoveAt(Policy):
    """A policy that moves every job once to the other node, when it reports that ``share`` of its work is done."""

    share: float

    @property
    def name(self) -> str:
        """Return ``move-at``."""
        return "move-at"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Place the jobs evenly, and move each job once to the other node."""
        decided = RoundRobin().decide(snapshot, now)
        moves: list[Action] = []
        for job in snapshot.running():
            gang, reports = snapshot.gang(job.uid), snapshot.reports.get(job.uid, ())
            done = reports[-1].done if reports else None
            if (
                gang.state is State.RUNNING
                and done is not None
                and done >= self.share
                and job.uid not in snapshot.memory
            ):
                other = next(name for name in sorted(snapshot.nodes) if name not in gang.nodes.values())
                moves += [Migrate(job.uid, dict.fromkeys(gang.nodes, other)), Remember(job.uid, True)]
        return replace(decided, actions=(*decided.actions, *moves))


def costs(seed: int, seconds: float = SETTINGS.migrate_seconds, more: float = 0.0) -> Row:
    """Return by how many seconds a lone job ends later if it is moved, for each model and share of its work.

    ``seconds`` is how long a move takes, and ``more`` how much longer it takes at the end of the work.
    """
    row: dict[str, float] = {}
    for model, decay in MODELS.items():
        trace = trace_of(Setup(1, 2, gap=0.0, decays=(decay,)), seed)
        for share in SHARES:
            result = simulate(trace, MoveAt(share), replace(SETTINGS, migrate_seconds=seconds + more * share))
            lost = result.jobs[0].jct_seconds - trace.jobs[0].work_seconds
            row[f"{model}/{share:g}"] = lost
    return {**row, "most": max(row.values()), "least": min(row.values())}


def slow_checkpoints(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): saving and resuming a job take half a minute."""
    return costs(seed, 30.0)


def growing_checkpoints(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): saving a job takes longer, the longer the job has
    trained.
    """
    return costs(seed, more=4.0)


LOST, UNEVEN_COST = "most progress lost by a move", "difference by how far the job is"
HARMLESS = "the bar forbids harm in the mean, and the mutants harm single jobs but gain in the mean"
COST = Experiment(
    name="specon-save-resume",
    system="specon",
    title="A job alone, moved at 10 to 90 % of its work",
    source="SpeCon, section III, Figures 2 and 3",
    measure=costs,
    bars=(
        Bar(LOST, best("most"), at_most=5.0, unit="s", paper="below 5 s, deviation 1.43 s", published=at_most(5.0)),
        Bar(UNEVEN_COST, OverAllSeeds(lambda rows: max(row["most"] - row["least"] for row in rows)), unit="s",
            at_most=0.5, paper="none", published=at_most(0.5)),
    ),
    seeds=30,
    mutants=(
        Mutant("checkpoints of 30 s", slow_checkpoints, (LOST,)),
        Mutant("checkpoints that grow", growing_checkpoints, (LOST, UNEVEN_COST)),
    ),
    figure=draw_costs,
    assumed=("saving and resuming take 4 s in the simulator; the bar is that a move costs no more",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GuestsThatStay(Policy):
    """The policy ``Guests``, except that a job moved to an empty node (a guest) is not moved again."""

    guests: Guests

    @property
    def name(self) -> str:
        """Return ``squatters``."""
        return "squatters"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """Return the decision of ``guests`` without any move of a job that is a guest already."""
        decided = self.guests.decide(snapshot, now)
        return replace(decided, actions=tuple(action for action in decided.actions if not _guest(snapshot, action)))


def _guest(snapshot: Snapshot, action: Action) -> bool:
    match action:
        case Migrate(job_uid=uid):
            return KEY + uid in snapshot.memory
        case Remember(key=key):
            return key in snapshot.memory and key.removeprefix(KEY) in snapshot.jobs
        case _:
            return False


def guests(seed: int) -> Row:
    """Run this project's policy ``guests`` on all four schedules."""
    return _everywhere(Guests(), seed)


def squatters(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): ``guests``, but a job that was moved to an empty
    node is not moved away again.
    """
    return _everywhere(GuestsThatStay(Guests()), seed)


def specon(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): SpeCon runs in place of ``guests``."""
    return _everywhere(AS_RUN, seed)


def nobody(seed: int) -> Row:
    """Return the measures of a deliberately changed run (a mutant): no job is moved to another node."""
    return _everywhere(RoundRobin(), seed)


def _everywhere(policy: Policy, seed: int) -> Row:
    row: dict[str, float] = {}
    for name, setup in SETUPS.items():
        row |= named(name, compare(run(setup, policy, seed), run(setup, RoundRobin(), seed)))
    return {**row, "worst": max(row[f"{name}/worst"] for name in SETUPS)}


WORST = "worst job of all seeds and schedules"


def _guest_bars() -> tuple[Bar, ...]:
    bars = [Bar(WORST, best("worst"), at_most=25.0, unit="%")]
    for name in SETUPS:
        bars += [
            Bar(
                f"{name}: average completion time",
                mean(f"{name}/average"),
                at_most=0.0,
                unit="%",
                untested="" if name == "fixed" else HARMLESS,
            ),
            Bar(f"{name}: makespan", mean(f"{name}/makespan"), at_most=0.0, unit="%", untested=HARMLESS),
            Bar(f"{name}: jobs better", mean(f"{name}/better"), unit="%"),
            Bar(f"{name}: best job", mean(f"{name}/best"), unit="%"),
            Bar(f"{name}: worst job", mean(f"{name}/worst"), unit="%"),
            Bar(f"{name}: moves", mean(f"{name}/moves")),
        ]
    return (*bars, Bar("50 mixed: at least SpeCon's bar", mean("50 mixed/average"), at_most=-7.2, unit="%"))


GUESTS = Experiment(
    name="specon-guests",
    system="guests",
    title="Moves that harm nobody, on all four schedules",
    source="this project's own, docs/policies/specon.md",
    measure=guests,
    bars=_guest_bars(),
    mutants=(
        Mutant("guests do not give way", squatters, (WORST,)),
        Mutant("SpeCon's moves instead", specon, (WORST, "fixed: average completion time")),
        Mutant("nobody is invited", nobody, ("50 mixed: at least SpeCon's bar",)),
    ),
    figure=draw_guests,
    assumed=("the simulated cluster and jobs are those of SpeCon's experiments",),
)

EXPERIMENTS = (COST, GUESTS)
