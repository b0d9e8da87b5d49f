"""Translates values that earlier versions wrote into today's classes and fields, so that their journals can still be
replayed.

A class that is moved or whose fields change gets an entry here, for every form that it has had since commit 5595fa4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from policy.cluster.gang import Deadline, HeldBinds, Scaling, Tries
from policy.cluster.lifecycle import Awaits, State

Parts = dict[str, Any]

# (earlier module, today's module) -> the classes that were moved
CLASSES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("cluster.gang", "cluster.lifecycle"): ("State",),
    ("cluster.model", "cluster.constraints"): ("Taint", "Toleration", "Requirement", "Term", "Constraints"),
    ("cluster.model", "cluster.node"): ("Node",),
    ("cluster.model", "cluster.job"): ("Slot", "Role", "Job"),
    ("cluster.model", "cluster.pod"): ("Phase", "Pod"),
    ("systems.dragon", "systems.dragonchoices"): ("Victims", "Urgent", "Sizes", "Idle"),
    ("systems.specon", "systems.speconchoices"): ("Gate", "FirstNode"),
}
MOVED: Final[Mapping[str, str]] = {
    f"policy.{before}:{name}": f"policy.{now}:{name}" for (before, now), names in CLASSES.items() for name in names
}
TRIES: Final = ("attempts", "misses", "not_before", "retried")
SCALING: Final = ("scaled_at", "grew", "on_behalf_of", "turns", "kept_at", "before", "targets")
BARRIER: Final = ("held", "window_ends", "hold_ends")


_NAME: Final = re.compile(rb'"is":"([^"]*)"')


def name_now(kind: str) -> str:
    """Return today's name of a class, as ``module:Class``."""
    return MOVED.get(kind, kind)


def names_now(written: bytes) -> bytes:
    """Return the JSON with today's names of all classes, so that it can be compared with what is written today."""
    return _NAME.sub(lambda found: b'"is":"%s"' % name_now(found[1].decode()).encode(), written)


def parts_now(kind: str, parts: Parts) -> Parts:
    """Translate the fields of an object, as an earlier version wrote them (``parts``), into the fields of today's class
    ``kind``.
    """
    translate = CHANGED.get(kind)
    return translate(parts) if translate is not None else parts


def _gang(parts: Parts) -> Parts:
    """Return today's fields of a gang from those of earlier versions, in which a gang had one flat list of fields.

    A deadline was only a time then; what the gang awaits until that time is derived from its state.
    """
    if "tries" in parts:
        return parts
    now = {name: part for name, part in parts.items() if name not in (*TRIES, *SCALING, *BARRIER, "saving")}
    now["tries"] = Tries(**_of(parts, TRIES))
    now["scaling"] = Scaling(**_of(parts, SCALING))
    if parts["held"]:
        now["barrier"] = HeldBinds(parts["held"], parts["window_ends"], parts["hold_ends"])
    if parts["deadline"] is not None:
        now["deadline"] = Deadline(_awaited(parts), parts["deadline"])
    return now


def _of(parts: Parts, names: tuple[str, ...]) -> Parts:
    return {name: parts[name] for name in names if name in parts}


def _awaited(parts: Parts) -> Awaits:
    match parts["state"]:
        case State.PLANNED:
            return Awaits.ROOM if parts["waits_for"] else Awaits.MEMBERS
        case State.BINDING:
            return Awaits.BINDINGS
        case State.RUNNING:
            return Awaits.GROWTH if parts["awaited"] else Awaits.OUTCOMES
        case State.MIGRATING:
            return Awaits.CHECKPOINT if parts["saving"] else Awaits.MIGRATION
        case State.REPAIRING:
            return Awaits.REPAIR
        case State.RELEASING:
            return Awaits.RELEASE
        case _:
            return Awaits.OUTCOMES


CHANGED: Final[Mapping[str, Callable[[Parts], Parts]]] = {"policy.cluster.gang:Gang": _gang}
