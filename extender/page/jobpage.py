"""The lists of one job's page: its state and the reason for it, its members, what it needs, and its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from extender.access.redaction import Redaction
from extender.page.frames import Lists, let_loop_run
from extender.page.htmlrows import Rows
from extender.page.marks import Looks
from extender.page.timeline import Timeline, TimelineEntry
from extender.present.explainview import explain_view
from extender.present.names import job_named
from extender.state.ledger import Ledger
from policy.answers.explanation import Explanation
from policy.cluster.job import Job

MOST_LINES = 300
MOST_NODES = 40
MOST_MEMBERS = 1_000
MOST_AHEAD = 10
OLDER = " that are older"


@dataclass(slots=True)
class JobPage:
    """Makes the lists of the page of a job. Only one thread may use it at a time."""

    ledger: Ledger
    timeline: Timeline
    looks: Looks
    rows: Rows

    def make(self, namespace: str, name: str, redaction: Redaction, told: Explanation | None = None) -> Lists | None:
        """Return the lists, or None if no job of that name is known or was recorded.

        redaction: hides what the viewer may not read. told: the job's explanation, if it has been made already.
        """
        self.timeline.read_on()
        job = job_named(self.ledger.snapshot, namespace, name)
        if job is not None:
            return self._of(job, redaction, told)
        past = [line for line in self.timeline.lines() if (line.namespace, line.name) == (namespace, name)]
        lines = [replace(line, text=redaction.text(line.text)) for line in past]
        return self._gone(namespace, name, lines) if lines else None

    def _of(self, job: Job, redaction: Redaction, told: Explanation | None) -> Lists:
        snapshot, now = self.ledger.snapshot, self.ledger.now()
        entries = redaction.journal(self.ledger.journal.since())
        view = redaction.view(explain_view(snapshot, job, self.ledger.policy, now, entries, told))
        let_loop_run()
        waiting, row, wide = view.waited_seconds is not None, self.rows.html, "kohort explain -o wide"
        return {
            "head": [row("jobhead", job=view, look=self.looks.of(job.uid), now=now)],
            "why": [row("why", job=view, waiting=waiting)],
            "members": self._cut("member", view.members, MOST_MEMBERS, "rest_of_table", wide),
            "needs": [row("need", one=one) for one in view.needs],
            "ahead": self._cut("ahead", view.ahead, MOST_AHEAD, "rest_of_list", wide),
            "rooms": self._cut("room", view.nodes, MOST_NODES, "rest_of_table", wide),
            "history": self._cut("step", view.history[::-1], MOST_LINES, "rest_of_list", "kohort describe", OLDER),
        }

    def _gone(self, namespace: str, name: str, past: list[TimelineEntry]) -> Lists:
        head = self.rows.html("gonehead", namespace=namespace, name=name)
        empty: dict[str, list[str]] = {key: [] for key in ("why", "members", "needs", "ahead", "rooms")}
        history = self._cut("historic", past, MOST_LINES, "rest_of_list", "kohort decisions", OLDER)
        return {**empty, "head": [head], "history": history}

    def _cut(
        self, macro: str, rows: Sequence[object], most: int, rest: str, shown_by: str, what: str = ""
    ) -> list[str]:
        """Return the HTML of the first ``most`` rows, then a row that says how many others there are and what shows
        them.

        rest: the macro of that last row. shown_by: the command that shows all rows. what: words to put after "more".
        """
        made = [self.rows.html(macro, one=one) for one in rows[:most]]
        left = len(rows) - len(made)
        return [*made, self.rows.html(rest, number=left, what=what, shown_by=shown_by)] if left else made
