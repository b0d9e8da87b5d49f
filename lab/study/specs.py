"""Parse ``NAME,PARAMETER=VALUE,...``, the form in which the command line names a policy or a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.study.studyerrors import refuse

LABEL = "label"
SEED = "seed"  # if given, it replaces the study's seed
Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class NamedSpec:
    """A name with its parameters in the order given; ``text`` is the original.

    ``contents`` is the hash of the files that it names, so that a changed file counts as another trace.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()
    text: str = ""
    contents: str = ""

    @property
    def label(self) -> str:
        """Return the name for tables: the parameter ``label``, or else the original text without a file's folders."""
        given = dict(self.parameters)
        if LABEL in given:
            return str(given[LABEL])
        folder, slash, rest = self.text.partition(",")[0].rpartition("/")
        return self.text[len(folder) + len(slash) :] if rest else self.text

    def given(self, **more: Value) -> dict[str, Value]:
        """Return all parameters except the label; those given win over ``more``."""
        return {**more, **{name: value for name, value in self.parameters if name != LABEL}}


def spec(text: str, option: str) -> NamedSpec:
    """Parse a spec. Raises StudyError."""
    name, *rest = text.split(",")
    if not name:
        raise refuse(option, text, "NAME or NAME,PARAMETER=VALUE,...")
    return NamedSpec(name, tuple(settings(rest, option).items()), text)


def settings(texts: Iterable[str], option: str) -> dict[str, Value]:
    """Parse ``name=value`` texts; the last value of a name counts. Raises StudyError."""
    found: dict[str, Value] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise refuse(option, text, "PARAMETER=VALUE")
        found[name] = _value(value)
    return found


def _value(text: str) -> Value:
    words: dict[str, Value] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
