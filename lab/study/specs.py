"""``NAME,PARAMETER=VALUE,...``: how a policy or a trace is named on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.study.errors import refuse

LABEL = "label"
SEED = "seed"  # where it is given, it counts instead of the study's
Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Spec:
    """A name and its parameters, in the order given. ``text``: as it was written.

    ``contents``: the hash of the files that it names, so that a changed file is another trace.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()
    text: str = ""
    contents: str = ""

    @property
    def label(self) -> str:
        """For tables: what the parameter ``label`` says, else as it was written, a file without its folders."""
        given = dict(self.parameters)
        if LABEL in given:
            return str(given[LABEL])
        folder, slash, rest = self.text.partition(",")[0].rpartition("/")
        return self.text[len(folder) + len(slash) :] if rest else self.text

    def given(self, **more: Value) -> dict[str, Value]:
        """All parameters but the label; those given win."""
        return {**more, **{name: value for name, value in self.parameters if name != LABEL}}


def spec(text: str, option: str) -> Spec:
    """Read it. Raises StudyError."""
    name, *rest = text.split(",")
    if not name:
        raise refuse(option, text, "NAME or NAME,PARAMETER=VALUE,...")
    return Spec(name, tuple(settings(rest, option).items()), text)


def settings(texts: Iterable[str], option: str) -> dict[str, Value]:
    """``name=value`` each; the last one of a name counts. Raises StudyError."""
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
