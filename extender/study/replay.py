"""``kohort replay``: a journal runs again, by the policy that made it, or with another one asked beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extender.state.record import Beginning, RecordError, Step, effects_of, read
from extender.study.errors import StudyError
from policy.cluster.actions import Action, Admit, Decision, Migrate, Reject, Remember, Resize
from policy.cluster.snapshot import Snapshot
from policy.step import step as step_on
from policy.systems.base import Policy


@dataclass(slots=True)
class Asked:
    """The recorded policy decides; ``other`` is asked about the very same state, and remembers for itself."""

    policy: Policy
    other: Policy
    memory: dict[str, object] = field(default_factory=dict)
    answers: list[tuple[Snapshot, Decision, Decision]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The recorded policy's."""
        return self.policy.name

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """The recorded policy's decision."""
        decision = self.policy.decide(snapshot, now)
        answer = self.other.decide(replace(snapshot, memory=dict(self.memory)), now)
        self.memory |= {action.key: action.value for action in answer.actions if isinstance(action, Remember)}
        self.answers.append((snapshot, decision, answer))
        return decision


@dataclass(frozen=True, slots=True)
class Departure:
    """A step whose decisions are not those that were recorded."""

    line: int
    at: float
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """departures: empty where every byte is the same. stopped: the error with which the recorded process ended."""

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


def again(path: Path) -> Replayed:
    """Run the journal by the policy that made it. Raises StudyError."""
    beginning, steps = _open(path)
    snapshot, count, decisions, departures, stopped = beginning.snapshot, 0, 0, list[Departure](), ""
    for recorded in _read(steps):
        count += 1
        try:
            snapshot, effects = step_on(snapshot, recorded.events, beginning.policy, recorded.at)
        except Exception as error:
            stopped = f"{type(error).__name__}: {error}"
            if not recorded.error:
                departures.append(Departure(recorded.line, recorded.at, recorded.effects.decode(), stopped))
            break
        decisions += len(effects)
        made = effects_of(effects)
        if made != recorded.effects or recorded.error:
            departures.append(Departure(recorded.line, recorded.at, recorded.effects.decode(), made.decode()))
    return Replayed(count, decisions, tuple(departures), stopped)


def beside(path: Path, other: Policy) -> tuple[int, list[Otherwise], Counter[str]]:
    """Steps at which a decision was asked for, those at which the other one differs, and how often each does what.

    The state follows the record, so the question is: given this very cluster, what would the other policy do now?
    Raises StudyError.
    """
    beginning, steps = _open(path)
    asked = Asked(beginning.policy, other)
    snapshot, found, counts, decided = beginning.snapshot, list[Otherwise](), Counter[str](), 0
    for recorded in _read(steps):
        snapshot, _ = step_on(snapshot, recorded.events, asked, recorded.at)
        for seen, first, second in asked.answers:
            decided += 1
            mine, its = (_words(seen, decision) for decision in (first, second))
            counts.update(f"recorded: {text.split()[0]}" for text in mine)
            counts.update(f"other: {text.split()[0]}" for text in its)
            if mine != its:
                found.append(Otherwise(recorded.line, recorded.at, mine, its))
        asked.answers.clear()
    return decided, found, counts


def _open(path: Path) -> tuple[Beginning, Iterator[Step]]:
    try:
        return read(path)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from None
    except RecordError as error:
        raise StudyError(str(error)) from None


def _read(steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except RecordError as error:
        raise StudyError(str(error)) from None


def _words(snapshot: Snapshot, decision: Decision) -> tuple[str, ...]:
    """The decision's actions for people; what a policy remembers is its own affair."""
    return tuple(_action(snapshot, action) for action in decision.actions if not isinstance(action, Remember))


def _action(snapshot: Snapshot, action: Action) -> str:
    job = snapshot.jobs.get(action.job_uid) if not isinstance(action, Remember) else None
    name = job.key if job is not None else "?"
    match action:
        case Admit():
            return f"start {name} with {action.workers} on {_nodes(action.nodes)}"
        case Resize():
            had = snapshot.gang(action.job_uid).workers
            where = f" on {_nodes(action.nodes)}" if action.nodes else ""
            return f"resize {name} {had} -> {action.workers}{where}"
        case Migrate():
            return f"move {name} to {_nodes(action.nodes)}"
        case Reject():
            return f"reject {name}: {action.reason.value}"
        case Remember():
            return ""


def _nodes(nodes: Any) -> str:
    counts = Counter(nodes.values())
    return ", ".join(f"{node} ({count})" for node, count in sorted(counts.items()))


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
