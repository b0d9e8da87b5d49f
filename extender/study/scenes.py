"""What a policy is run on: a trace by its name or file, with the settings of the simulator that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from extender.study.errors import StudyError, refuse
from extender.study.parameters import check
from extender.study.rows import hash_of
from extender.study.specs import Spec, Value
from extender.study.tracefiles import files_of, measured_models, read_step_times, read_trace, seeded
from policy.sim.fluid.settings import NEVER, FluidSettings
from policy.sim.fluid.speeds import Linear
from policy.sim.papers import dragonworld, oasis_jobs, speconworld
from policy.sim.traces import Trace, kod2

SIM = "sim."
STEP_TIMES = "step_times"
MIGRATABLE = "migratable"


@dataclass(frozen=True, slots=True)
class Scene:
    """A trace and how it is run."""

    trace: Trace
    settings: FluidSettings


@wraps(kod2)  # its parameters are the trace's
def _kod2(seed: int, **parameters: Value) -> Scene:
    return Scene(kod2(seed, **parameters), FluidSettings(patience=1800.0))  # type: ignore[arg-type]


def _dragon_table_1(seed: int, traffic: float = 1.0) -> Scene:
    del seed  # there is no chance in it
    return Scene(dragonworld.table_1(), dragonworld.settings(volume=traffic))


def _oasis(seed: int, jobs: int = 50, servers: int = 50, slots: int = 100) -> Scene:
    draw = oasis_jobs.Draw(jobs, servers, slots, min(slots, oasis_jobs.Draw(jobs).arrivals))
    slot = oasis_jobs.SLOT_SECONDS
    settings = FluidSettings(speeds=Linear(), slot_seconds=slot, tick_seconds=slot / 10, horizon=2 * slots * slot)
    return Scene(oasis_jobs.trace(draw, seed), settings)


def _specon(seed: int, jobs: int = 20) -> Scene:
    if jobs not in speconworld.MIXED:
        raise refuse("jobs", jobs, " or ".join(map(str, speconworld.MIXED)))
    return Scene(speconworld.trace_of(speconworld.MIXED[jobs], seed), speconworld.SETTINGS)


NAMED: Mapping[str, Callable[..., Scene]] = {
    "kod2": _kod2,
    "dragon-table-1": _dragon_table_1,
    "specon-mixed": _specon,
    "oasis": _oasis,
}
ONE = frozenset({"dragon-table-1"})  # named, and without chance


@lru_cache(maxsize=4)
def scene(spec: Spec, seed: int, simulator: tuple[tuple[str, Value], ...] = ()) -> Scene:
    """The trace of that name or in that file, for that seed. Raises StudyError.

    simulator: settings of the job-level simulator (policy/sim/fluid/settings.py) that are plain numbers; they win over
    the trace's own, its parameters ``sim.NAME``. A parameter ``step_times`` is a folder of measured step times;
    ``migratable``: whether its jobs may be moved, whatever the trace itself says.
    """
    mine = {name.removeprefix(SIM): value for name, value in spec.parameters if name.startswith(SIM)}
    other = tuple(
        one for one in spec.parameters if not one[0].startswith(SIM) and one[0] not in (STEP_TIMES, MIGRATABLE)
    )
    rest = replace(spec, parameters=other)
    folder = dict(spec.parameters).get(STEP_TIMES)
    models = None if folder is None else measured_models(str(folder), spec)
    found = _named(rest, seed) if rest.name in NAMED else Scene(_from_file(rest, seed, models), FluidSettings())
    if folder is not None:
        speeds = read_step_times(str(folder), (job.model for job in found.trace.jobs), spec.text or spec.name)
        found = replace(found, settings=replace(found.settings, speeds=speeds))
    if (may := dict(spec.parameters).get(MIGRATABLE)) is not None:
        found = replace(found, trace=_moved(found.trace, may, spec.text or spec.name))
    return replace(found, settings=_changed(found.settings, mine | dict(simulator)))


def stamped(spec: Spec) -> Spec:
    """With the hash of the files that the scene reads. Raises StudyError."""
    try:
        files = files_of(spec)
        return replace(spec, contents=hash_of((path.name, path) for path in files) if files else "")
    except OSError as error:
        raise StudyError(f"{error.filename}: {error.strerror}; give a file that can be read") from None


def _moved(trace: Trace, may: Value, what: str) -> Trace:
    if not isinstance(may, bool):
        raise refuse(f"--trace {what}: {MIGRATABLE}", may, "true or false")
    return replace(trace, jobs=tuple(replace(job, migratable=may) for job in trace.jobs))


def varies(spec: Spec) -> bool:
    """Whether another seed is another trace."""
    return spec.name in NAMED.keys() - ONE or seeded(spec)


def _named(spec: Spec, seed: int) -> Scene:
    check(NAMED[spec.name], spec, spec.given())
    try:
        return NAMED[spec.name](seed, **spec.given())
    except (TypeError, ValueError) as error:
        raise StudyError(f"--trace {spec.text or spec.name}: {error}; see docs/simulator.md") from None


def _from_file(spec: Spec, seed: int, models: Collection[str] | None) -> Trace:
    if not Path(spec.name).exists():
        raise refuse("--trace", spec.name, f"{', '.join(NAMED)}, or a file")
    return read_trace(spec, seed, models)


def _changed(settings: FluidSettings, changes: Mapping[str, Value]) -> FluidSettings:
    known = {field.name for field in fields(settings)} - {"rules", "speeds"}
    numbers: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise refuse("--set", f"sim.{name}", ", ".join(f"sim.{each}" for each in sorted(known)))
        if isinstance(value, bool | str) or (value is None and name not in NEVER):
            raise refuse(f"--set sim.{name}", value, f"a number{', or none' if name in NEVER else ''}")
        numbers[name] = None if value is None else float(value)
    try:
        return replace(settings, **numbers)
    except (TypeError, ValueError) as error:
        raise StudyError(f"--set sim: {error}; see docs/simulator.md") from None
