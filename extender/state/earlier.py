"""Values as earlier versions wrote them, in today's classes and parts, so that their journals are still replayed.

A class that moves or changes its parts gets an entry here, for every form that it has had since commit 5595fa4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from policy.cluster.gang import Deadline
from policy.cluster.lifecycle import Awaits, State

Parts = dict[str, Any]

MOVED: Final[Mapping[str, str]] = {"policy.cluster.gang:State": "policy.cluster.lifecycle:State"}


def name_now(kind: str) -> str:
    """Return today's name of a class, as ``module:Class``."""
    return MOVED.get(kind, kind)


def parts_now(kind: str, parts: Parts) -> Parts:
    """Return the parts of which today's class of that name is made."""
    translate = CHANGED.get(kind)
    return translate(parts) if translate is not None else parts


def _gang(parts: Parts) -> Parts:
    """Translate a gang whose deadline was a bare time, which meant what its state waits for."""
    if "saving" not in parts:
        return parts
    now = {name: part for name, part in parts.items() if name != "saving"}
    if parts["deadline"] is not None:
        now["deadline"] = Deadline(_awaited(parts), parts["deadline"])
    return now


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
