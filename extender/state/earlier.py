"""Values as earlier versions wrote them, in today's classes and parts, so that their journals are still replayed.

A class that moves or changes its parts gets an entry here, for every form that it has had since commit 5595fa4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from policy.cluster.gang import Deadline, HeldBinds, Scaling, Tries
from policy.cluster.lifecycle import Awaits, State

Parts = dict[str, Any]

MOVED: Final[Mapping[str, str]] = {"policy.cluster.gang:State": "policy.cluster.lifecycle:State"}
TRIES: Final = ("attempts", "misses", "not_before", "retried")
SCALING: Final = ("scaled_at", "grew", "on_behalf_of", "turns", "kept_at", "before", "targets")
BARRIER: Final = ("held", "window_ends", "hold_ends")


def name_now(kind: str) -> str:
    """Return today's name of a class, as ``module:Class``."""
    return MOVED.get(kind, kind)


def parts_now(kind: str, parts: Parts) -> Parts:
    """Return the parts of which today's class of that name is made."""
    translate = CHANGED.get(kind)
    return translate(parts) if translate is not None else parts


def _gang(parts: Parts) -> Parts:
    """Translate a gang that had one flat list of parts, and whose deadline was a bare time.

    That time meant what the gang's state waits for.
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
