"""The API server's refusals of a write."""

from __future__ import annotations

from lab.sim.objects import JobObject, PodObject, WorldRefusal


def precondition(found: JobObject | PodObject, kind: str, name: str, uid: str, version: int) -> WorldRefusal | None:
    """Return a refusal if UID or version differ, else None; an empty UID or version 0 is not compared."""
    if uid and uid != found.uid:
        return conflict(kind, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found.uid}")
    if version and version != found.version:
        return conflict(kind, name, "the object has been modified; please apply your changes to the latest version")
    return None


def not_found(kind: str, name: str) -> WorldRefusal:
    """Return the refusal for an object that does not exist."""
    return WorldRefusal(404, "NotFound", f'{kind} "{name}" not found')


def conflict(kind: str, name: str, why: str) -> WorldRefusal:
    """Return the refusal for a conflict with the object's state."""
    return WorldRefusal(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {why}')
