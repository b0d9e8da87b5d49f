"""The papers' traces by name, each with the simulator settings that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps

from lab.papers import dragonworld, drs, newcomers, oasis_jobs, speconworld
from lab.sim.fluid.faults import Fault
from lab.sim.fluid.fluidsettings import FluidSettings
from lab.sim.fluid.speedmodels import Linear
from lab.sim.traces import Trace, kod2
from lab.study.specs import NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse
from lab.study.traceparameters import check

DEADLOCK_GPUS = 8  # The cluster of the trace dragon-deadlock has this many GPUs.


@dataclass(frozen=True, slots=True)
class StudyScene:
    """A trace, the simulator settings for it, and faults as (seconds after the start, fault)."""

    trace: Trace
    settings: FluidSettings
    faults: tuple[tuple[float, Fault], ...] = ()


@wraps(kod2)  # The wrapper has the signature of the trace's maker, against which the parameters are checked.
def _kod2(seed: int, **parameters: Value) -> StudyScene:
    return StudyScene(kod2(seed, **parameters), FluidSettings(patience=1800.0))  # type: ignore[arg-type]


def _dragon_table_1(seed: int, traffic: float = 1.0) -> StudyScene:
    del seed  # The seed is unused, because this trace is not random.
    return StudyScene(dragonworld.table_1(), dragonworld.settings(volume=traffic))


def _dragon_hundred(seed: int, gap_seconds: float = 125.0) -> StudyScene:
    if not gap_seconds > 0:
        raise refuse("gap_seconds", gap_seconds, "a number above 0")
    return StudyScene(dragonworld.hundred_jobs(seed, gap_seconds), dragonworld.SETTINGS)


def _dragon_deadlock(seed: int, jobs: int = 2, workers: int = 5) -> StudyScene:
    del seed
    if workers > DEADLOCK_GPUS:
        raise refuse("workers", workers, f"a gang that fits on the {DEADLOCK_GPUS} GPUs")
    return StudyScene(dragonworld.rigid_jobs(jobs, workers), dragonworld.SETTINGS)


def _gpus(maker: Callable[[int], Trace], seed: int) -> StudyScene:
    return StudyScene(maker(seed), dragonworld.SETTINGS)


def _specon_mixed(seed: int, jobs: int = 20) -> StudyScene:
    if jobs not in speconworld.MIXED:
        raise refuse("jobs", jobs, " or ".join(map(str, speconworld.MIXED)))
    return _specon(speconworld.MIXED[jobs], seed)


def _specon(setup: speconworld.Setup, seed: int) -> StudyScene:
    return StudyScene(speconworld.trace_of(setup, seed), speconworld.SETTINGS)


def _oasis(seed: int, jobs: int = 50, servers: int = 50, slots: int = 100) -> StudyScene:
    draw = oasis_jobs.Draw(jobs, servers, slots, min(slots, oasis_jobs.Draw(jobs).arrivals))
    return _in_slots(oasis_jobs.trace(draw, seed), slots)


def _oasis_testbed(seed: int) -> StudyScene:
    return _in_slots(oasis_jobs.testbed(seed), oasis_jobs.TESTBED_SLOTS)


def _oasis_small(seed: int, jobs: int = 10, servers: int = 3, slots: int = 10) -> StudyScene:
    return _in_slots(oasis_jobs.trace(oasis_jobs.tiny(jobs, servers, slots), seed), slots)


def _in_slots(trace: Trace, slots: int) -> StudyScene:
    """Return a scene of ``slots`` time slots as in the OASiS paper, where only training takes time.

    Jobs start without delay, because a delay would make a job end one time slot later than in the paper. Jobs report
    their progress once per time slot; without reports RRH would ignore the work that a paused job has done. OASiS
    decides the same with and without reports.
    """
    slot = oasis_jobs.SLOT_SECONDS
    settings = FluidSettings(
        speeds=Linear(), start_seconds=0.0, tick_seconds=slot / 10, report_seconds=slot, horizon=2 * slots * slot
    )
    return StudyScene(trace, settings)


NAMED: Mapping[str, Callable[..., StudyScene]] = {
    "kod2": _kod2,
    "dragon-table-1": _dragon_table_1,
    "dragon-hundred": _dragon_hundred,
    "dragon-deadlock": _dragon_deadlock,
    "drs-drawn": partial(_gpus, drs.drawn_utilities),
    "drs-late": partial(_gpus, drs.late_large_job),
    "drs-loaded": partial(_gpus, drs.loaded),
    "newcomers": partial(_gpus, newcomers.newcomers),
    "specon-mixed": _specon_mixed,
    "specon-fixed": partial(_specon, speconworld.FIXED),
    "specon-uneven": partial(_specon, speconworld.UNEVEN),
    "specon-single": partial(_specon, speconworld.SINGLE),
    "oasis": _oasis,
    "oasis-testbed": _oasis_testbed,
    "oasis-small": _oasis_small,
}
ONE = frozenset({"dragon-table-1", "dragon-deadlock"})  # These traces are the same for every seed.


def named(spec: NamedSpec, seed: int) -> StudyScene:
    """Return the scene of the papers' trace that ``spec`` names. Raises StudyError for a wrong parameter."""
    check(NAMED[spec.name], spec, spec.given())
    try:
        return NAMED[spec.name](seed, **spec.given())
    except StudyError as error:
        # The message is made to begin with this trace as the user gave it, because one command line may have several
        # --trace options.
        error.args = (f"--trace {spec.text or spec.name}: {error}",)
        raise
    except (TypeError, ValueError) as error:
        raise StudyError(f"--trace {spec.text or spec.name}: {error}; see docs/simulator.md") from None
