"""Check a trace's parameters against the signature of the function that makes or reads it, before it is called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from lab.sim.traces.reading import TraceRow
from lab.study.specs import SEED, NamedSpec, Value
from lab.study.studyerrors import StudyError, refuse

OURS = frozenset({"models"})  # The study passes these arguments itself, so the command line may not give them.
LEAST = {SEED: 0}  # Parameters that are whole numbers may not be below this value; for those not named here, it is 1.
MOST = 100_000  # No whole number except a seed may be above this value; a trace of that size takes hours to replay.
# Parameters that are numbers have these bounds; those not named here must be at least 0.
NUMBERS: Mapping[str, Mapping[str, float]] = {
    "load": {"above": 0.0},
    "traffic": {"above": 0.0},
    "contention": {"most": 1.0},
    "slot_seconds": {"above": 0.0},
}


def check(maker: Callable[..., Any], spec: NamedSpec, given: Mapping[str, Value]) -> None:
    """Raise StudyError for an unknown parameter, or for a value that is out of bounds.

    maker: the function that makes the trace, whose signature has the parameters. given: the parameters of the spec.
    """
    where = f"--trace {spec.text or spec.name}"
    known = {name: one for name, one in inspect.signature(maker).parameters.items() if _free(one)}
    line = TraceRow(where, given)
    for name in given:
        if name not in known:
            raise refuse(f"{where}: parameter", name, ", ".join(sorted(known)) or "none")
        try:
            _check(line, name, str(known[name].annotation))
        except ValueError as error:
            raise StudyError(f"{error}; see docs/simulator.md") from None


def _free(one: inspect.Parameter) -> bool:
    """Tell whether the command line may give this parameter: it has a default and is not set by the study."""
    return one.default is not one.empty and one.name not in OURS


def _check(line: TraceRow, name: str, annotation: str) -> None:
    kind, _, optional = annotation.partition(" | ")
    if optional == "None" and line.values[name] is None:
        return
    if kind == "int":
        line.count(name, least=LEAST.get(name, 1), most=MOST if name != SEED else math.inf)
    elif kind == "float":
        line.number(name, **NUMBERS.get(name, {}))
