"""A record of what ``up`` leaves running, so that ``down`` ends exactly that."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process identified by id and start time, because an id alone may be reused."""

    name: str
    pid: int
    started: int

    @classmethod
    def of(cls, name: str, pid: int) -> RunningProcess:
        """Return the record of a running process."""
        return cls(name, pid, start_time(pid) or 0)

    @property
    def alive(self) -> bool:
        """Tell whether this process still runs."""
        return start_time(self.pid) == self.started

    def signal(self, sig: signal.Signals) -> None:
        """Send a signal through a pidfd, because the id might be reused between a check and a kill."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(handle, sig)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, which may contain anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def end(processes: Iterable[RunningProcess], grace: float = 3.0) -> None:
    """Ask all processes to end, wait up to ``grace`` seconds, and kill those that still run."""
    left = [process for process in processes if process.alive]
    for process in left:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # A paused process does not handle SIGTERM, so it is resumed.
    deadline = time.monotonic() + grace
    while any(process.alive for process in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        process.signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class StateFile:
    """The list of running processes as a file."""

    path: Path

    def read(self) -> list[RunningProcess]:
        """Return the recorded processes, newest last; none if there is no file."""
        if not self.path.exists():
            return []
        return [RunningProcess(**record) for record in json.loads(self.path.read_text())]

    def add(self, process: RunningProcess) -> None:
        """Record one more process immediately, so that an interrupted ``up`` can be cleaned up."""
        records = [asdict(known) for known in (*self.read(), process)]
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(json.dumps(records, indent=1))
        partial.rename(self.path)
