"""The journal on disk: every step's events and decisions, so that they can be run again (``kohort replay``).

A file has JSON lines. The first has the policy and the state before the first step; each other line is a step. A file
holds all that its replay needs: a new one begins with the state as it then is. Another thread writes, from a bounded
queue: steps beyond it are left out, and a new file begins after the gap. A disk that fails ends the record, never the
service.
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
from policy.cluster.actions import Effect
from policy.cluster.events import Event
from policy.cluster.model import Job, Node, Pod
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

FORMAT: Final = 1
BEHIND: Final = 4096  # steps that may wait to be written
CLOSE_SECONDS: Final = 3.0  # at the end of the process
NAME: Final = "journal-{:06d}.jsonl"
_NAMED: Final = re.compile(r"journal-(\d{6,})\.jsonl")
_EVENTS: Final = {kind.__name__: kind for kind in get_args(Event)}
EFFECTS: Final = frozenset(kind.__name__ for kind in get_args(Effect))
# A journal names the kinds of effects that its version had; where an older one does not, its state tells which:
FIRST_EFFECTS: Final = frozenset(
    {
        "Admit", "Resize", "Migrate", "Reject", "Remember", "Bind", "RefuseBind", "Edited", "Released", "Stalled",
        "ShrinkStalled",
    }
)  # fmt: skip
CAME_WITH: Final = {"preemptions": {"Preempted"}, "refused_writes": {"Shown", "WriteRefused"}}  # by the state's part
# The largest maps of a state; msgspec knows how to write what is in them.
FACTS: Final[dict[str, Any]] = {
    "nodes": list[tuple[str, Node]],
    "jobs": list[tuple[str, Job]],
    "pods": list[tuple[str, Pod]],
}
REST: Final = tuple(f.name for f in fields(Snapshot) if f.name not in {*FACTS, "index"})  # an index is made anew
_encoder: Final = msgspec.json.Encoder()
_log = logging.getLogger(__name__)


class RecordError(ValueError):
    """A file that is no journal, or is broken; the message names the line and the cause."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it was recorded. line: its number in the file. at: seconds since the epoch. effects: as JSON."""

    line: int
    at: float
    events: tuple[Event, ...]
    effects: bytes
    error: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a file begins with. kinds: class names of the effects that the version had which wrote it."""

    policy: Policy
    snapshot: Snapshot
    kinds: frozenset[str] = EFFECTS

    def known(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return those effects that this file's version had: only these can be as they were recorded."""
        return [effect for effect in effects if type(effect).__name__ in self.kinds]


def named(error: Exception) -> str:
    """Return the error that stopped the ledger, as a line has it."""
    return f"{type(error).__name__}: {error}"


def head(policy: Policy, snapshot: Snapshot) -> bytes:
    """Return the first line of a file. Raises CodecError for a policy or memory that is not of values of ``policy``."""
    facts = {name: list(getattr(snapshot, name).items()) for name in FACTS}
    rest = {name: plain(getattr(snapshot, name)) for name in REST}
    entry = {"kohort": FORMAT, "kinds": sorted(EFFECTS), "policy": plain(policy), "facts": facts, "rest": rest}
    return _encoder.encode(entry) + b"\n"


def line_of(at: float, events: Sequence[Event], effects: Sequence[Effect], error: str = "") -> bytes:
    """Return the line of a step."""
    entry: dict[str, Any] = {
        "at": at,
        "events": [[type(event).__name__, event] for event in events],
        "effects": msgspec.Raw(effects_of(effects)),
    }
    return _encoder.encode(entry | ({"error": error} if error else {})) + b"\n"


def effects_of(effects: Iterable[Effect]) -> bytes:
    """Return decisions as JSON, in which they are compared."""
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
    """Return what the file begins with. Raises RecordError, OSError."""
    with path.open("rb") as file:
        return _beginning(path, file.readline())


def _beginning(path: Path, line: bytes) -> Beginning:
    try:
        entry = msgspec.json.decode(line)
        if entry["kohort"] != FORMAT:
            raise RecordError(f"{path}, line 1: kohort: {entry['kohort']!r} is not allowed; allowed: {FORMAT}")
        # What snapshots did not have yet in the version that wrote the journal begins empty, as after a restart.
        parts: dict[str, Any] = {name: value_of(entry["rest"][name]) for name in REST if name in entry["rest"]}
        parts |= {name: dict(msgspec.convert(entry["facts"][name], type=kind)) for name, kind in FACTS.items()}
        return Beginning(value_of(entry["policy"]), Snapshot(**parts), _kinds(entry))
    except (msgspec.MsgspecError, CodecError, KeyError, TypeError) as error:
        raise RecordError(f"{path}, line 1: this is no beginning of a journal ({error})") from None


def _kinds(entry: dict[str, Any]) -> frozenset[str]:
    if "kinds" in entry:
        return frozenset(entry["kinds"])
    return FIRST_EFFECTS.union(*(kinds for part, kinds in CAME_WITH.items() if part in entry["rest"]))


def _steps(path: Path, file: IO[bytes]) -> Iterator[Step]:
    with file:
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                return  # the process ended while it wrote this line
            try:
                entry = msgspec.json.decode(line, type=_Entry)
                yield Step(number, entry.at, tuple(map(_event, entry.events)), bytes(entry.effects), entry.error)
            except (msgspec.MsgspecError, KeyError, ValueError) as error:
                raise RecordError(f"{path}, line {number}: this is no step of a journal ({error})") from None


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
    """A step on its way to the disk. before: what a new file begins with; None: the step goes into the last file."""

    before: Beginning | None
    at: float
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]
    error: str


class Recorder:
    """Writes a journal into a folder that keeps ``files`` files; the oldest is deleted first.

    file_bytes: about how many bytes of steps a file has, beside the state with which it begins.
    """

    def __init__(self, folder: Path, policy: Policy, snapshot: Snapshot, file_bytes: int, files: int) -> None:
        """Make the folder and start the thread. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._policy, self._before = folder, policy, snapshot
        self._file_bytes, self._files = file_bytes, files
        self._queue: queue.Queue[_Handed | None] = queue.Queue(BEHIND)
        self._new_file = False  # the next step begins a file: after a gap, or under another policy
        # Files that were asked for, files that were begun on the disk, and the number of the last full one. Only one
        # thread writes each number, so that no change is lost. Steps that are queued when a file becomes full still go
        # into it, so that not each of them asks for a new file.
        self._handed = self._begun = self._full = 0
        self._file: IO[bytes] | None = None
        self._size = 0
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def write(
        self, at: float, events: Sequence[Event], effects: Sequence[Effect], after: Snapshot, error: str = ""
    ) -> None:
        """Queue a step for writing; it is left out where the disk is too far behind."""
        new_file = self._new_file or self._full == self._handed
        handed = _Handed(
            Beginning(self._policy, self._before) if new_file else None, at, tuple(events), tuple(effects), error
        )
        self._before = after
        try:
            self._queue.put_nowait(handed)
        except queue.Full:
            self._new_file = True  # after the gap
        else:
            self._new_file = False
            self._handed += new_file

    def obey(self, policy: Policy) -> None:
        """Begin a new file with the next step, which another policy decides."""
        self._policy, self._new_file = policy, True

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what is queued and end; on a disk that hangs each of the two takes at most ``seconds``."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
            self._thread.join(seconds)
        if self._thread.is_alive():
            _log.error("the journal on disk lacks its last steps: the disk did not take them in %g s", seconds)

    def _write_all(self) -> None:
        try:
            while (step := self._queue.get()) is not None:
                self._write(step)
        except Exception as error:  # whatever it is, the service goes on without a record
            _log.error("the journal on disk has ended: %s", error, exc_info=not isinstance(error, OSError))
            while self._queue.get() is not None:
                pass  # so that the queue never fills
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
        self._size = 0  # only steps count, so that a large beginning does not fill a file by itself

    def _append(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            self._size += len(line)
