"""What a study tells people instead of a traceback."""

from __future__ import annotations


class StudyError(Exception):
    """The study cannot be done as asked: which word, which value, what is allowed. ``code``: the exit status."""

    code = 2


def refuse(name: str, value: object, allowed: str) -> StudyError:
    """The error in the form that all of Kohort's settings have."""
    return StudyError(f"{name}: {value!r} is not allowed; allowed: {allowed}")
