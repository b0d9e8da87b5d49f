"""``kohort replay``: a journal runs again, by the policy that made it, or with another one asked beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from extender.state.record import Beginning, RecordError, Step, effects_of, named, read
from lab.study.errors import StudyError
from policy.answers.otherwise import Beside, Told
from policy.step import step as step_on
from policy.systems.base import Policy

WHICH: Final = "name a journal (setting journal.folder, or simulate --journal)"


@dataclass(frozen=True, slots=True)
class Departure:
    """A step whose decisions are not those that were recorded. recorded: JSON; now: JSON, or an error in words."""

    line: int
    at: float
    recorded: str
    now: str

    @classmethod
    def of(cls, recorded: Step, now: str) -> Departure:
        """From that step; one that ended with an error is told with it."""
        was = json.dumps({"error": recorded.error}) if recorded.error else recorded.effects.decode()
        return cls(recorded.line, recorded.at, was, now)


@dataclass(frozen=True, slots=True)
class Replayed:
    """departures: empty where every byte is the same. stopped: the error with which both ended, the record and this."""

    steps: int
    decisions: int
    departures: tuple[Departure, ...] = ()
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What the other policy would have done at one step, and the recorded one did."""

    line: int
    at: float
    recorded: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """decided: steps at which a decision was asked for. differences: those at which the other policy departs.

    counts: how often each does what. departures: steps at which the recording policy decides otherwise than recorded.
    stopped: the error with which the recorded process ended.
    """

    decided: int
    differences: tuple[Otherwise, ...]
    counts: dict[str, Counter[str]]
    departures: int = 0
    stopped: str = ""


def again(path: Path) -> Replayed:
    """Run the journal by the policy that made it. Raises StudyError."""
    beginning, steps = _open(path)
    snapshot, count, decisions, departures, stopped = beginning.snapshot, 0, 0, list[Departure](), ""
    for recorded in _read(steps):
        count += 1
        try:
            snapshot, effects = step_on(snapshot, recorded.events, beginning.policy, recorded.at)
        except Exception as error:
            if named(error) == recorded.error:
                stopped = recorded.error
            else:
                departures.append(Departure.of(recorded, named(error)))
            break
        known = beginning.known(effects)
        decisions += len(known)
        made = effects_of(known)
        if made != recorded.effects or recorded.error:
            departures.append(Departure.of(recorded, made.decode()))
    return Replayed(count, decisions, tuple(departures), stopped)


def beside(path: Path, other: Policy) -> Compared:
    """Ask the other policy at every step: given this very cluster, what would it do now? The state follows the record.

    Raises StudyError, also where the other policy fails.
    """
    beginning, steps = _open(path)
    asked, snapshot, found, stopped = Beside(beginning.policy, other), beginning.snapshot, list[Otherwise](), ""
    departures = 0
    for recorded in _read(steps):
        try:
            snapshot, effects = step_on(snapshot, recorded.events, asked, recorded.at)
        except Exception as error:
            stopped = named(error)
            if stopped != recorded.error:
                died = f"{path}: line {recorded.line}: {other.name} cannot go on: {stopped}"
                raise StudyError(f"{died}; choose another policy, and report this one") from error
            break
        departures += effects_of(beginning.known(effects)) != recorded.effects
        found += [
            Otherwise(recorded.line, recorded.at, _words(differs.mine), _words(differs.other))
            for differs in asked.taken()
        ]
    return Compared(asked.asked, tuple(found), asked.counts, departures, stopped)


def _words(actions: Iterable[Told]) -> tuple[str, ...]:
    return tuple(action.text for action in actions)


def _open(path: Path) -> tuple[Beginning, Iterator[Step]]:
    try:
        return read(path)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; {WHICH}") from None
    except RecordError as error:
        raise StudyError(f"{error}; {WHICH}") from None


def _read(steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except RecordError as error:
        raise StudyError(f"{error}; {WHICH}") from None


def as_json(value: Replayed | Otherwise | Departure) -> Any:
    """For a file: effects as they are, not as text in text."""
    if isinstance(value, Replayed):
        return {
            "steps": value.steps,
            "decisions": value.decisions,
            "same": not value.departures,
            "stopped": value.stopped,
            "departures": [as_json(departure) for departure in value.departures],
        }
    if isinstance(value, Departure):
        return {"line": value.line, "at": value.at, "recorded": json.loads(value.recorded), "now": value.now}
    return {"line": value.line, "at": value.at, "recorded": list(value.recorded), "other": list(value.other)}
