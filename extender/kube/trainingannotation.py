"""Reads the annotation ``kohort.dev/training``: one YAML mapping that describes a job's training to OASiS and
SpeCon.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from extender.config.plainyaml import YamlError, parse_yaml
from extender.kube.fields import Json, ObjectError, boolean, mapping, whole_number
from extender.kube.jobkinds import TRAINING
from policy.cluster.training import Goal, Training, Utility

LONGEST: Final = 4096  # an annotation with more characters is refused
MOST: Final = 10**9

Read = Callable[[object, str], Any]


@lru_cache(maxsize=1024)
def read_training(text: str) -> Training:
    """Return the training that the annotation's YAML text describes.

    Raises ObjectError with the field, its value and what is allowed.
    """
    if len(text) > LONGEST:
        raise ObjectError(TRAINING, f"{len(text)} characters", f"at most {LONGEST}")
    try:
        found = parse_yaml(text)
    except YamlError as error:
        raise ObjectError(TRAINING, text, f"YAML; {error}") from None
    return Training(**_fields(found, TRAINING, FIELDS))


def _fields(found: Json, field: str, known: dict[str, tuple[str, Read]]) -> dict[str, Any]:
    for key in found:
        if key not in known:
            raise ObjectError(f"{field}: {key}", found[key], f"one of the fields {', '.join(known)}")
    return {name: read(found[key], f"{field}: {key}") for key, (name, read) in known.items() if key in found}


def _count(value: object, field: str) -> int:
    number = whole_number(value, field, MOST)
    if number < 1:
        raise ObjectError(field, value, "1 or more")
    return number


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:  # NaN is refused too
        raise ObjectError(field, value, f"a number from 0 to {MOST}")
    return float(value)


def _above_zero(value: object, field: str) -> float:
    number = _number(value, field)
    if not number:
        raise ObjectError(field, value, f"a number above 0 and at most {MOST}")
    return number


def _goal(value: object, field: str) -> Goal:
    try:
        return Goal(value)
    except ValueError:
        raise ObjectError(field, value, " or ".join(goal.value for goal in Goal)) from None


def _utility(value: object, field: str) -> Utility:
    fields = _fields(mapping(value, field), field, UTILITY_FIELDS)
    for key in UTILITY_FIELDS:
        if UTILITY_FIELDS[key][0] not in fields:
            raise ObjectError(f"{field}: {key}", None, "a number; the curve has all of " + ", ".join(UTILITY_FIELDS))
    return Utility(**fields)


UTILITY_FIELDS: Final[dict[str, tuple[str, Read]]] = {
    "value": ("value", _above_zero),
    "steepness": ("steepness", _number),
    "target": ("target", _number),
}
FIELDS: Final[dict[str, tuple[str, Read]]] = {
    "epochs": ("epochs", _count),
    "chunks": ("chunks", _count),
    "batches": ("batches", _count),
    "secondsPerBatch": ("seconds", _above_zero),
    "gradientMegabytes": ("gradient", _number),
    "workerGigabits": ("worker_bandwidth", _number),
    "psGigabits": ("ps_bandwidth", _number),
    "utility": ("utility", _utility),
    "allReduce": ("all_reduce", boolean),
    "goal": ("goal", _goal),
    "alpha": ("alpha", _above_zero),
}
