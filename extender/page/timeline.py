"""The decisions as lines for people. Bindings of one gang share a line; a line keeps the name of a deleted job."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from extender.present.decisionviews import decision_view
from extender.state.journal import Entry, Journal
from policy.cluster.actions import Remember

KEPT: Final = 2_000  # KEPT is the largest number of lines that are kept; the oldest are dropped.
# MOST_INPUTS is the largest number of figures that a line shows; the job's page shows all figures.
MOST_INPUTS: Final = 3
TOGETHER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of the timeline.

    sequence: the sequence number of the journal's entry. at: seconds since the epoch. kind: the action, in lower case.
    uid: the job's UID in the ledger. cause: the events of the step. members: the number of bindings that the line
    counts.
    """

    sequence: int
    at: float
    kind: str
    uid: str
    namespace: str
    name: str
    text: str
    cause: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...] = ()
    members: int = 1


class Timeline:
    """The newest decisions, read from the journal. Only one thread may use it at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen = 0
        self._lines: deque[TimelineEntry] = deque(maxlen=KEPT)

    def lines(self, uid: str = "") -> Iterator[TimelineEntry]:
        """Iterate over the lines of the job with that UID (empty: all jobs), newest first."""
        return (line for line in reversed(self._lines) if not uid or line.uid == uid)

    def read_on(self) -> None:
        """Add a line for each entry that the journal has got since the last call."""
        fresh = tuple(self._journal.since(self._seen))
        for entry in fresh:
            self._take(entry)
            self._seen = entry.sequence

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.effect, Remember):
            # Effects with which a policy only stores something for itself are not shown, because they are no decisions
            # about a job.
            return
        view, named = decision_view(entry), entry.subject.job
        uid, job = named.uid if named is not None else "", view.job
        kind = f"{view.action.lower()}{entry.way}"
        line = TimelineEntry(
            entry.sequence, entry.at, kind, uid, job.namespace if job else "", job.name if job else view.pod,
            view.text, entry.cause, tuple(entry.inputs.items())[:MOST_INPUTS],
        )  # fmt: skip
        self._add(line)

    def _add(self, line: TimelineEntry) -> None:
        """Append the line; a binding or refused binding is added to the gang's recent line of the same kind, if any."""
        for at in range(len(self._lines) - 1, max(-1, len(self._lines) - 6), -1):
            old = self._lines[at]
            if (old.uid, old.kind) == (line.uid, line.kind) and line.kind in ("bind", "refusebind") and line.uid:
                if line.at - old.at > TOGETHER_SECONDS:
                    break
                members = old.members + 1
                text = f"{members} bindings sent" if line.kind == "bind" else f"{members} × {line.text}"
                self._lines[at] = replace(old, sequence=line.sequence, text=text, members=members)
                return
        self._lines.append(line)
