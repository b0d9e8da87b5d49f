"""The error that a study reports as a message instead of a traceback."""

from __future__ import annotations


class StudyError(Exception):
    """The study cannot be run as asked; the message names the option, its value and what is allowed.

    ``code`` is the exit status.
    """

    code = 2


def refuse(name: str, value: object, allowed: str) -> StudyError:
    """Return an error in the same form as those of Kohort's settings: name, value, allowed values."""
    return StudyError(f"{name}: {value!r} is not allowed; allowed: {allowed}")
