"""Choose one length of the time slot for all runs on a trace, because utility curves and some policies count slots."""

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
    """Tell whether the policy's system has that parameter; of a name such as ``kod2+specon``, the first part counts."""
    system = SYSTEMS.get(policy.name.partition("+")[0])
    return system is not None and any(field.name == parameter for field in fields(system))


# The result is cached, because a comparison calls this once for each run, and reading a trace may take long.
@lru_cache(maxsize=64)
def slot_on(
    trace: NamedSpec, seed: int, simulator: tuple[tuple[str, Value], ...], policies: tuple[NamedSpec, ...]
) -> float | None:
    """Return the length of the time slot in seconds; None lets each policy use its own.

    The length is the one that the trace or ``sim.slot_seconds`` states. If neither does and jobs have utility curves,
    it is the parameter of a policy, or 600 s; without utility curves it is None. Raises StudyError for a policy whose
    parameter states another length, because the policy would misread the curves.
    """
    at = scene(trace, seed, simulator)
    given = [(policy, dict(policy.parameters)[SLOT]) for policy in policies if SLOT in dict(policy.parameters)]
    slot, whose = at.settings.slot_seconds, f"the time slot that {trace.label} states"
    if slot is None:
        if not any(job.training is not None and job.training.utility is not None for job in at.trace.jobs):
            return None
        slot, whose = (
            _first(given),
            f"because all policies on {trace.label} need the same time slot (its jobs have utility curves)",
        )
    for policy, value in given:
        if value != slot:
            raise refuse(f"--policy {policy.text or policy.name}: {SLOT}", value, f"{slot:g}, {whose}")
    return slot


def _first(given: Sequence[tuple[NamedSpec, Value]]) -> float:
    return next((float(value) for _, value in given if isinstance(value, int | float)), SLOT_SECONDS)
