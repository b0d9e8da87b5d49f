"""What ``up`` leaves running, written down so that ``down`` ends just that."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Running:
    """A process by its id and start time: together they name it for ever, an id alone may be another's one day."""

    name: str
    pid: int
    started: int

    @classmethod
    def of(cls, name: str, pid: int) -> Running:
        """Return the record of a process that runs now."""
        return cls(name, pid, start_time(pid) or 0)

    @property
    def alive(self) -> bool:
        """Tell whether this very process still runs."""
        return start_time(self.pid) == self.started

    def signal(self, sig: signal.Signals) -> None:
        """Send a signal, through a handle of the process: its id may change hands between a look and a kill."""
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
    """Return when a process started, in ticks since boot; None when it is gone or only waits to be collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, and may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def end(processes: Iterable[Running], grace: float = 3.0) -> None:
    """Ask all to end, wait up to ``grace`` seconds, and kill what still runs."""
    left = [process for process in processes if process.alive]
    for process in left:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # a paused one does not see SIGTERM
    deadline = time.monotonic() + grace
    while any(process.alive for process in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        process.signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class StateFile:
    """The list of running processes as a file."""

    path: Path

    def read(self) -> list[Running]:
        """Return the recorded processes, newest last; none when there is no file."""
        if not self.path.exists():
            return []
        return [Running(**record) for record in json.loads(self.path.read_text())]

    def add(self, process: Running) -> None:
        """Record one more process; at once, so that an ``up`` cut short can be cleaned too."""
        records = [asdict(known) for known in (*self.read(), process)]
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(json.dumps(records, indent=1))
        partial.rename(self.path)
