"""Writes and reads the journal on disk: every step's events and decisions, so that ``kohort replay`` can repeat them.

A file has JSON lines. The first has the policy and the state before the first step; each other line is a step. Each
file can be replayed by itself, because it begins with the state at that time. A thread of its own writes the steps from
a bounded queue: when the queue is full, steps are left out, and a new file begins after the gap. If the disk fails, the
journal ends, never the service.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, get_args

import msgspec

from extender.state.codec import CodecError, plain, value_of
from extender.state.earlier import names_now
from policy.cluster.actions import Effect
from policy.cluster.events import Event
from policy.cluster.job import Job
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

FORMAT: Final = 1
BEHIND: Final = 4096  # BEHIND is the largest number of steps that wait to be written to the disk.
CLOSE_SECONDS: Final = 3.0  # At its end the process waits for the disk for at most CLOSE_SECONDS.
NAME: Final = "journal-{:06d}.jsonl"
_NAMED: Final = re.compile(r"journal-(\d{6,})\.jsonl")
_EVENTS: Final = {kind.__name__: kind for kind in get_args(Event)}
EFFECTS: Final = frozenset(kind.__name__ for kind in get_args(Effect))
# Journals of older versions do not name the kinds of effects that their version had. Each of these versions had at
# least the following kinds.
FIRST_EFFECTS: Final = frozenset(
    {
        "Admit", "Resize", "Migrate", "Reject", "Remember", "Bind", "RefuseBind", "Edited", "Released", "Stalled",
        "ShrinkStalled",
    }
)  # fmt: skip
# Maps a part of a state to kinds of effects. A journal that does not name its kinds of effects also has these kinds if
# its state has that part.
CAME_WITH: Final = {
    "preemptions": {"Preempted"},
    "refused_writes": {"Shown", "WriteRefused"},
    "failures": {"NodeFailed", "NodeForgiven"},
}
# The largest maps of a state. msgspec can write and read their values by itself, without `codec`.
FACTS: Final[dict[str, Any]] = {
    "nodes": list[tuple[str, Node]],
    "jobs": list[tuple[str, Job]],
    "pods": list[tuple[str, Pod]],
}
# The constant REST has the names of all parts of a snapshot that are not in FACTS. The index is not among them, because
# it is computed from the other parts and not written.
REST: Final = tuple(f.name for f in fields(Snapshot) if f.name not in {*FACTS, "index"})
_encoder: Final = msgspec.json.Encoder()
_log = logging.getLogger(__name__)


class RecordError(ValueError):
    """A file is not a journal, or is damaged; the message names the line and the cause."""


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step.

    line: the number of its line in the file. at: seconds since the epoch. effects: as JSON, as `effects_of` returns.
    error: the error that made the step fail and stopped the ledger, empty for a step that succeeded.
    """

    line: int
    at: float
    events: tuple[Event, ...]
    effects: bytes
    error: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The policy and the state with which a file begins.

    kinds: the class names of all effects that the version that wrote the file had.
    """

    policy: Policy
    snapshot: Snapshot
    kinds: frozenset[str] = EFFECTS

    def known(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return only those effects whose kinds existed in the version of Kohort that wrote the file.

        Effects of newer kinds cannot be compared with the recorded ones.
        """
        return [effect for effect in effects if type(effect).__name__ in self.kinds]


def named(error: Exception) -> str:
    """Return the error as ``class: message``, which a journal writes into the line of the step that failed with it."""
    return f"{type(error).__name__}: {error}"


def head(policy: Policy, snapshot: Snapshot) -> bytes:
    """Return the first line of a file.

    Raises CodecError where the policy or its memory has values of classes that are not in ``policy``.
    """
    facts = {name: list(getattr(snapshot, name).items()) for name in FACTS}
    rest = {name: plain(getattr(snapshot, name)) for name in REST}
    entry = {"kohort": FORMAT, "kinds": sorted(EFFECTS), "policy": plain(policy), "facts": facts, "rest": rest}
    return _encoder.encode(entry) + b"\n"


def line_of(at: float, events: Sequence[Event], effects: Sequence[Effect], error: str = "") -> bytes:
    """Return the line of a step. at: its time in seconds since the epoch. error: as in `Step`."""
    entry: dict[str, Any] = {
        "at": at,
        "events": [[type(event).__name__, event] for event in events],
        "effects": msgspec.Raw(effects_of(effects)),
    }
    return _encoder.encode(entry | ({"error": error} if error else {})) + b"\n"


def effects_of(effects: Iterable[Effect]) -> bytes:
    """Return effects as JSON, the form in which a replay compares them with the recorded ones."""
    return _encoder.encode([plain(effect) for effect in effects])


def journals(folder: Path) -> list[Path]:
    """Return the files of a journal, oldest first. Raises OSError."""
    return sorted(path for path in folder.iterdir() if _NAMED.fullmatch(path.name))


def read(path: Path) -> tuple[Beginning, Iterator[Step]]:
    """Return the file's beginning, and its steps, which are read one by one. Raises RecordError, OSError."""
    file = path.open("rb")
    try:
        return _beginning(path, file.readline()), _steps(path, file)
    except BaseException:
        file.close()
        raise


def beginning(path: Path) -> Beginning:
    """Return the policy and the state with which the file begins. Raises RecordError, OSError."""
    with path.open("rb") as file:
        return _beginning(path, file.readline())


def _beginning(path: Path, line: bytes) -> Beginning:
    try:
        entry = msgspec.json.decode(line)
        if entry["kohort"] != FORMAT:
            raise RecordError(f"{path}, line 1: kohort: {entry['kohort']!r} is not allowed; allowed: {FORMAT}")
        # Parts of a snapshot that the version that wrote the journal did not have yet are empty, as after a restart.
        parts: dict[str, Any] = {name: value_of(entry["rest"][name]) for name in REST if name in entry["rest"]}
        parts |= {name: dict(msgspec.convert(entry["facts"][name], type=kind)) for name, kind in FACTS.items()}
        return Beginning(value_of(entry["policy"]), Snapshot(**parts), _kinds(entry))
    except (msgspec.MsgspecError, CodecError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(
            f"{path}, line 1: this line does not begin a journal: {error}; name a journal of this version or an "
            "earlier one"
        ) from None


def _kinds(entry: dict[str, Any]) -> frozenset[str]:
    if "kinds" in entry:
        return frozenset(entry["kinds"])
    return FIRST_EFFECTS.union(*(kinds for part, kinds in CAME_WITH.items() if part in entry["rest"]))


def _steps(path: Path, file: IO[bytes]) -> Iterator[Step]:
    with file:
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                return  # the line is incomplete, because the process ended while writing it
            try:
                entry = msgspec.json.decode(line, type=_Entry)
                yield Step(
                    number, entry.at, tuple(map(_event, entry.events)), names_now(bytes(entry.effects)), entry.error
                )
            except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
                raise RecordError(
                    f"{path}, line {number}: this line is not a step of a journal: {error}; the file is damaged or "
                    "of another version"
                ) from None


class _Entry(msgspec.Struct):
    at: float
    events: list[tuple[str, Any]]
    effects: msgspec.Raw
    error: str = ""


def _event(written: tuple[str, Any]) -> Event:
    name, value = written
    if name not in _EVENTS:
        raise ValueError(f"event: {name!r} is not allowed; allowed: {', '.join(_EVENTS)}")
    found: Event = msgspec.convert(value, type=_EVENTS[name])
    return found


class _Handed(NamedTuple):
    """A step that `Recorder` hands to its writing thread.

    before: the beginning of a new file, which this step starts; None for a step that goes into the current file.
    """

    before: Beginning | None
    at: float
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]
    error: str


class Recorder:
    """Writes a journal into a folder that keeps ``files`` files; the oldest is deleted first.

    file_bytes: about how many bytes of steps a file gets, besides the state with which it begins.
    """

    def __init__(self, folder: Path, policy: Policy, snapshot: Snapshot, file_bytes: int, files: int) -> None:
        """Create the folder and start the writing thread. Raises OSError.

        ``policy``, ``snapshot``: the policy that decides and the state before the first step.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._policy, self._before = folder, policy, snapshot
        self._file_bytes, self._files = file_bytes, files
        self._queue: queue.Queue[_Handed | None] = queue.Queue(BEHIND)
        # _new_file tells whether the next step begins a new file, because steps were left out or another policy
        # decides.
        self._new_file = False
        # Three counts of files: those that `write` has asked for, those begun on the disk, and the number begun when
        # the last file became full. Each count is written by one thread only, so that no change is lost. Steps that are
        # already queued when a file becomes full still go into that file, so that not each of them asks for a new file.
        self._handed = self._begun = self._full = 0
        self._file: IO[bytes] | None = None
        self._size = 0
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def write(
        self, at: float, events: Sequence[Event], effects: Sequence[Effect], after: Snapshot, error: str = ""
    ) -> None:
        """Queue a step for the writing thread; leave it out if the queue is full because the disk is too slow."""
        new_file = self._new_file or self._full == self._handed
        handed = _Handed(
            Beginning(self._policy, self._before) if new_file else None, at, tuple(events), tuple(effects), error
        )
        self._before = after
        try:
            self._queue.put_nowait(handed)
        except queue.Full:
            self._new_file = True  # steps were left out, so the next one begins a new file
        else:
            self._new_file = False
            self._handed += new_file

    def obey(self, policy: Policy) -> None:
        """Begin a new file with the next step, because ``policy`` decides from then on."""
        self._policy, self._new_file = policy, True

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what is queued and end the thread; if the disk hangs, this takes at most twice ``seconds``."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
            self._thread.join(seconds)
        if self._thread.is_alive():
            _log.error(
                "the journal on disk lacks its last steps, because the disk did not take them within %g s; check the "
                "disk",
                seconds,
            )

    def _write_all(self) -> None:
        try:
            while (step := self._queue.get()) is not None:
                self._write(step)
        except Exception as error:  # after any error the service goes on without a journal on disk
            _log.error(
                "the journal on disk has ended, and the service goes on without it until its next start: %s",
                error,
                exc_info=not isinstance(error, OSError),
            )
            while self._queue.get() is not None:
                pass  # the queue is still emptied, so that it never fills up
        finally:
            if self._file is not None:
                self._file.close()

    def _write(self, step: _Handed) -> None:
        if step.before is not None:
            self._begin(step.before)
        self._append(line_of(step.at, step.events, step.effects, step.error))
        if self._size >= self._file_bytes:
            self._full = self._begun

    def _begin(self, before: Beginning) -> None:
        if self._file is not None:
            self._file.close()
        there = journals(self._folder)
        for old in there[: max(0, len(there) - self._files + 1)]:
            old.unlink(missing_ok=True)
        number = int(there[-1].stem.removeprefix("journal-")) + 1 if there else 1
        self._file = (self._folder / NAME.format(number)).open("xb", buffering=0)
        self._append(head(before.policy, before.snapshot))
        self._begun += 1
        self._size = 0  # only the bytes of steps count, so that a large beginning does not fill a file by itself

    def _append(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            self._size += len(line)
