"""What a policy is run on: a trace by its name or file, with the settings of the simulator that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from extender.study.errors import StudyError, refuse
from extender.study.specs import Spec, Value
from extender.study.tracefiles import read_trace, seeded
from policy.sim.fluid.settings import FluidSettings
from policy.sim.traces import Trace, kod2


@dataclass(frozen=True, slots=True)
class Scene:
    """A trace and how it is run."""

    trace: Trace
    settings: FluidSettings


def _kod2(seed: int, **parameters: Value) -> Scene:
    return Scene(kod2(seed, **parameters), FluidSettings(patience=1800.0))  # type: ignore[arg-type]


NAMED: Mapping[str, Callable[..., Scene]] = {"kod2": _kod2}


@lru_cache(maxsize=4)
def scene(spec: Spec, seed: int, simulator: tuple[tuple[str, Value], ...] = ()) -> Scene:
    """The trace of that name or in that file, for that seed. Raises StudyError.

    simulator: settings of the job-level simulator (policy/sim/fluid/settings.py) that are plain numbers.
    """
    found = _named(spec, seed) if spec.name in NAMED else Scene(_from_file(spec, seed), FluidSettings())
    return replace(found, settings=_changed(found.settings, dict(simulator)))


def varies(spec: Spec) -> bool:
    """Whether another seed is another trace."""
    return spec.name in NAMED or seeded(spec)


def _named(spec: Spec, seed: int) -> Scene:
    try:
        return NAMED[spec.name](seed, **spec.given())
    except (TypeError, ValueError) as error:
        raise StudyError(f"--trace {spec.text or spec.name}: {error}") from None


def _from_file(spec: Spec, seed: int) -> Trace:
    if not Path(spec.name).exists():
        raise refuse("--trace", spec.name, f"{', '.join(NAMED)}, or a file")
    return read_trace(spec, seed)


def _changed(settings: FluidSettings, changes: Mapping[str, Value]) -> FluidSettings:
    known = {field.name for field in fields(settings)} - {"rules", "speeds"}
    numbers: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise refuse("--set", f"sim.{name}", ", ".join(f"sim.{each}" for each in sorted(known)))
        if isinstance(value, bool | str):
            raise refuse(f"--set sim.{name}", value, "a number, or none")
        numbers[name] = None if value is None else float(value)
    try:
        return replace(settings, **numbers)
    except (TypeError, ValueError) as error:
        raise StudyError(f"--set sim: {error}") from None
