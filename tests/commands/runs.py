"""The log of runs of `make test` and `make full`: commit, time, duration, busy loops, result, retries."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run; ``began`` is in seconds since the epoch, ``tree`` is the commit with a hash of uncommitted changes."""

    command: str
    tree: str
    began: float
    seconds: float
    busy: int
    code: int
    retries: int

    @property
    def row(self) -> str:
        """Return the row of a Markdown table."""
        when = datetime.fromtimestamp(self.began, UTC).strftime("%Y-%m-%d %H:%M")
        ended = "green" if self.code == 0 else f"red ({self.code})"
        return f"| {when} | {self.tree} | {self.busy} | {self.seconds / 60:.1f} | {ended} | {self.retries} |"


def note(run: LoggedRun, file: Path) -> None:
    """Add a run to the log."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        log.write(json.dumps(asdict(run)) + "\n")


def noted(file: Path) -> list[LoggedRun]:
    """Return the runs of the log, oldest first."""
    return [LoggedRun(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def table(runs: list[LoggedRun]) -> str:
    """Return the runs as a Markdown table, with a summary."""
    lines = ["| began (UTC) | tree | busy loops | minutes | ended | retries |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [run.row for run in runs]
    for busy in sorted({run.busy for run in runs}):
        minutes = [run.seconds / 60 for run in runs if run.busy == busy]
        middle, most = statistics.median(minutes), max(minutes)
        lines.append(f"\n{len(minutes)} runs beside {busy} busy loops: median {middle:.1f} minutes, most {most:.1f}")
    lines.append(f"\n{sum(run.code == 0 for run in runs)} of {len(runs)} green, {sum(r.retries for r in runs)} retries")
    return "\n".join(lines)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep ``count`` processes computing while the context lasts; they also end if this process is killed."""
    watch = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    loops = [subprocess.Popen([sys.executable, "-c", watch]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
