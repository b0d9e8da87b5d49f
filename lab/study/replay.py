"""Replay a journal by the policy that recorded it, or ask another policy at each recorded step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from extender.state.record import Beginning, RecordError, Step, effects_of, named, read
from lab.study.studyerrors import StudyError
from policy.answers.otherwise import Beside, Told
from policy.step import step as step_on
from policy.systems.base import Policy

WHICH: Final = "name a journal (setting journal.folder, or simulate --journal)"


@dataclass(frozen=True, slots=True)
class Departure:
    """A step whose replayed decisions differ from the recorded ones.

    ``line`` is the line in the journal, ``at`` the step's time. ``recorded`` has the recorded decisions as JSON;
    ``now`` has the replayed ones as JSON, or the text of an error.
    """

    line: int
    at: float
    recorded: str
    now: str

    @classmethod
    def of(cls, recorded: Step, now: str) -> Departure:
        """Return the departure at that step. If the step was recorded with an error, ``recorded`` is that error."""
        was = json.dumps({"error": recorded.error}) if recorded.error else recorded.effects.decode()
        return cls(recorded.line, recorded.at, was, now)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a replay.

    ``departures`` is empty if every decision is the recorded one, byte by byte. ``stopped`` is the error with which
    both the recorded process and the replay have ended, if any.
    """

    steps: int
    decisions: int
    departures: tuple[Departure, ...] = ()
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class DecisionDifference:
    """A step at which the other policy would have decided differently, with the decisions of both as lines of text."""

    line: int
    at: float
    recorded: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """The outcome of asking another policy at each recorded step.

    ``decided`` is the number of steps at which the policies were asked to decide. ``differences`` has the steps at
    which they differ, and ``counts`` how often each policy takes each action. ``departures`` is the number of steps at
    which the recording policy itself now decides differently from the record. ``stopped`` is the error with which the
    recorded process ended, if any.
    """

    decided: int
    differences: tuple[DecisionDifference, ...]
    counts: dict[str, Counter[str]]
    departures: int = 0
    stopped: str = ""


def replay_journal(path: Path) -> Replayed:
    """Run each recorded step again with the policy that recorded it, and compare the decisions. Raises StudyError."""
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


def ask_other_policy(path: Path, other: Policy) -> PolicyComparison:
    """Ask the other policy at each recorded step what it would do in the recorded state.

    Its answers change nothing: the state follows the recording policy. Raises StudyError, also if the other policy
    fails.
    """
    beginning, steps = _open(path)
    asked, snapshot, found, stopped = (
        Beside(beginning.policy, other),
        beginning.snapshot,
        list[DecisionDifference](),
        "",
    )
    departures = 0
    for recorded in _read(steps):
        try:
            snapshot, effects = step_on(snapshot, recorded.events, asked, recorded.at)
        except Exception as error:
            stopped = named(error)
            if stopped != recorded.error:
                died = f"{path}: line {recorded.line}: the policy {other.name} failed: {stopped}"
                raise StudyError(f"{died}; choose another policy, and report this one") from error
            break
        departures += effects_of(beginning.known(effects)) != recorded.effects
        found += [
            DecisionDifference(recorded.line, recorded.at, _words(differs.mine), _words(differs.other))
            for differs in asked.taken()
        ]
    return PolicyComparison(asked.asked, tuple(found), asked.counts, departures, stopped)


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


def as_json(value: Replayed | DecisionDifference | Departure) -> Any:
    """Return the value as JSON data, in which recorded effects are objects and not texts of JSON."""
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
