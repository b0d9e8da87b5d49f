"""Choose one slot length for all runs on a trace, for utility curves and for policies that plan in slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache

from lab.study.scenes import scene
from lab.study.specs import NamedSpec, Value
from lab.study.studyerrors import refuse
from policy.cluster.training import SLOT_SECONDS
from policy.systems import SYSTEMS

SLOT = "slot_seconds"


def has(policy: NamedSpec, parameter: str) -> bool:
    """Tell whether the system has that parameter; for a rebalanced system, the base system counts."""
    system = SYSTEMS.get(policy.name.partition("+")[0])
    return system is not None and any(field.name == parameter for field in fields(system))


@lru_cache(maxsize=64)  # a plan asks for it often, and the trace may be a large file
def slot_on(
    trace: NamedSpec, seed: int, simulator: tuple[tuple[str, Value], ...], policies: tuple[NamedSpec, ...]
) -> float | None:
    """Return the slot length in seconds, or None if nothing is measured in slots and each policy has its own.

    It is what the trace or ``sim.slot_seconds`` says; else, if jobs have utility curves, what a policy was given, or
    600 s. Raises StudyError for a policy that was given another length, because it would misread the curves.
    """
    at = scene(trace, seed, simulator)
    given = [(policy, dict(policy.parameters)[SLOT]) for policy in policies if SLOT in dict(policy.parameters)]
    slot, whose = at.settings.slot_seconds, f"the slot of {trace.label}"
    if slot is None:
        if not any(job.training is not None and job.training.utility is not None for job in at.trace.jobs):
            return None
        slot, whose = _first(given), f"one slot for all policies on {trace.label}, whose jobs have utility curves"
    for policy, value in given:
        if value != slot:
            raise refuse(f"--policy {policy.text or policy.name}: {SLOT}", value, f"{slot:g}, {whose}")
    return slot


def _first(given: Sequence[tuple[NamedSpec, Value]]) -> float:
    return next((float(value) for _, value in given if isinstance(value, int | float)), SLOT_SECONDS)
