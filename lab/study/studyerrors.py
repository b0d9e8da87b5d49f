"""The error that a study reports as a message instead of a traceback."""

from __future__ import annotations

from lab.sim.traces.reading import shortened


class StudyError(Exception):
    """The study cannot be run as asked; the message names the option, its value and what is allowed.

    ``code`` is the exit status.
    """

    code = 2


def refuse(name: str, value: object, allowed: str) -> StudyError:
    """Return the error for a value that is not allowed, worded like the errors of Kohort's settings."""
    return StudyError(f"{name}: {shortened(value)} is not allowed; allowed: {allowed}")
