"""What the API server answers where it does not do as it is asked."""

from __future__ import annotations

from lab.sim.objects import JobObject, PodObject, Refusal


def precondition(found: JobObject | PodObject, kind: str, name: str, uid: str, version: int) -> Refusal | None:
    """The object is another one, or has changed since; an empty uid or version asks for nothing."""
    if uid and uid != found.uid:
        return conflict(kind, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found.uid}")
    if version and version != found.version:
        return conflict(kind, name, "the object has been modified; please apply your changes to the latest version")
    return None


def not_found(kind: str, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, "NotFound", f'{kind} "{name}" not found')


def conflict(kind: str, name: str, why: str) -> Refusal:
    """The object stands against it."""
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{name}": {why}')
