"""Build scenes, on which policies are run: a trace by its name or from a file, with settings and faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.sim.fluid.fluidsettings import NEVER, FluidSettings
from lab.sim.traces import Trace
from lab.study.donerows import hash_of
from lab.study.faultfiles import FAULTS, read_faults
from lab.study.named import NAMED, ONE, StudyScene, named
from lab.study.specs import NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse
from lab.study.tracefiles import files_of, read_trace, seeded
from lab.study.tracespeeds import SPEEDS, STEP_TIMES, models_of, speeds_of

SIM = "sim."
MIGRATABLE = "migratable"
ANY = frozenset({FAULTS, MIGRATABLE, SPEEDS, STEP_TIMES})  # Every trace has these parameters, besides ``sim.NAME``.


@lru_cache(maxsize=4)
def scene(spec: NamedSpec, seed: int, simulator: tuple[tuple[str, Value], ...] = ()) -> StudyScene:
    """Return the scene of the trace or trace file that ``spec`` names, for that seed. Raises StudyError.

    ``simulator`` has numeric settings of the job-level simulator (see FluidSettings), which win over the trace's
    parameters ``sim.NAME``. Of the trace's other parameters, ``speeds`` names a speed model, ``step_times`` a folder of
    measured step times, and ``faults`` a file of faults; ``migratable`` tells whether jobs may be moved, and wins over
    what the trace says.
    """
    mine = {name.removeprefix(SIM): value for name, value in spec.parameters if name.startswith(SIM)}
    given = {name: value for name, value in spec.parameters if name in ANY}
    other = tuple(one for one in spec.parameters if not one[0].startswith(SIM) and one[0] not in ANY)
    rest = replace(spec, parameters=other)
    models = models_of(spec)
    found = named(rest, seed) if rest.name in NAMED else StudyScene(_from_file(rest, seed, models), FluidSettings())
    if (speeds := speeds_of(spec, found.trace)) is not None:
        found = replace(found, settings=replace(found.settings, speeds=speeds))
    if MIGRATABLE in given:
        found = replace(found, trace=_moved(found.trace, given[MIGRATABLE], spec.text or spec.name))
    if FAULTS in given:
        found = replace(found, faults=read_faults(str(given[FAULTS]), found.trace))
    settings = _changed(found.settings, mine, f"--trace {spec.text or spec.name}:")
    settings = _changed(settings, dict(simulator), "--set")
    if settings.slot_seconds is None:
        settings = replace(settings, slot_seconds=found.trace.slot_seconds)
    _check_horizon(settings.horizon, found.trace, spec)
    return replace(found, settings=settings)


def _check_horizon(horizon: float, trace: Trace, spec: NamedSpec) -> None:
    """Raise StudyError if jobs would arrive after the horizon, because the result would leave them out."""
    last = max((job.arrival for job in trace.jobs), default=0.0)
    if horizon < last:
        late = sum(1 for job in trace.jobs if job.arrival > horizon)
        more = f"{last:g} or more, for {late} of {len(trace.jobs)} jobs come later; or a trace without them"
        raise refuse(f"--trace {spec.text or spec.name}: sim.horizon", horizon, more)


def stamped(spec: NamedSpec) -> NamedSpec:
    """Return the spec with a hash of all files that its scene reads. Raises StudyError."""
    try:
        files = files_of(spec)
        return replace(spec, contents=hash_of((path.name, path) for path in files) if files else "")
    except OSError as error:
        raise StudyError(f"{error.filename or spec.name}: {error.strerror}; give a file that can be read") from None


def _moved(trace: Trace, may: Value, what: str) -> Trace:
    if not isinstance(may, bool):
        raise refuse(f"--trace {what}: {MIGRATABLE}", may, "true or false")
    return replace(trace, jobs=tuple(replace(job, migratable=may) for job in trace.jobs))


def varies(spec: NamedSpec) -> bool:
    """Tell whether the trace depends on the seed."""
    return spec.name in NAMED.keys() - ONE or seeded(spec)


def _from_file(spec: NamedSpec, seed: int, models: Collection[str] | None) -> Trace:
    if not Path(spec.name).exists():
        raise refuse("--trace", spec.name, f"{', '.join(NAMED)}, or a file")
    return read_trace(spec, seed, models)


def _changed(settings: FluidSettings, changes: Mapping[str, Value], where: str) -> FluidSettings:
    known = {field.name for field in fields(settings)} - {"rules", "speeds"}
    numbers: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise refuse(where.removesuffix(":"), f"sim.{name}", ", ".join(f"sim.{each}" for each in sorted(known)))
        if isinstance(value, bool | str) or (value is None and name not in NEVER):
            raise refuse(f"{where} sim.{name}", value, f"a number{', or none' if name in NEVER else ''}")
        numbers[name] = None if value is None else float(value)
    try:
        return replace(settings, **numbers)
    except (TypeError, ValueError) as error:
        raise StudyError(f"{where} sim: {error}; see docs/simulator.md") from None
