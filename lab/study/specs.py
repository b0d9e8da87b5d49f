"""Parse ``NAME,PARAMETER=VALUE,...``, the form in which the command line names a policy or a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.study.studyerrors import refuse

LABEL = "label"
# The values of these parameters are text, even if they look like numbers.
TEXTS = frozenset({LABEL, "faults", "step_times"})
SEED = "seed"  # This parameter replaces the study's seed for one trace or policy.
Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class NamedSpec:
    """The name of a policy or trace with its parameters, in the order of the command line.

    ``text`` is the text from the command line. ``contents`` is a hash of the files that the spec names, so that a
    changed file counts as another trace.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()
    text: str = ""
    contents: str = ""

    @property
    def label(self) -> str:
        """Return the name to show in tables: the parameter ``label``, or else the text without a file's folders."""
        given = dict(self.parameters)
        if LABEL in given:
            return str(given[LABEL])
        folder, slash, rest = self.text.partition(",")[0].rpartition("/")
        return self.text[len(folder) + len(slash) :] if rest else self.text

    def given(self, **more: Value) -> dict[str, Value]:
        """Return all parameters except the label, and those of ``more`` that the spec does not state itself."""
        return {**more, **{name: value for name, value in self.parameters if name != LABEL}}


def spec(text: str, option: str) -> NamedSpec:
    """Parse ``NAME,PARAMETER=VALUE,...``. Raises StudyError, which names the ``option`` that has the text."""
    name, *rest = text.split(",")
    if not name:
        raise refuse(option, text, "NAME or NAME,PARAMETER=VALUE,...")
    return NamedSpec(name, tuple(settings(rest, option).items()), text)


def settings(texts: Iterable[str], option: str) -> dict[str, Value]:
    """Parse texts ``name=value`` into a dict; of a repeated name, the last value counts. Raises StudyError."""
    found: dict[str, Value] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise refuse(option, text, "PARAMETER=VALUE")
        found[name] = value if name in TEXTS else _value(value)
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
