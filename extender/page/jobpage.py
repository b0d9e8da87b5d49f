"""The lists of one job's page: its state and the reason for it, its members, what it needs, and its history."""

from __future__ import annotations

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
from policy.cluster.model import Job

MOST_LINES = 300
MOST_NODES = 40
MOST_MEMBERS = 1_000


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
        waiting = view.waited_seconds is not None
        row = self.rows.html
        return {
            "head": [row("jobhead", job=view, look=self.looks.of(job.uid), now=now)],
            "why": [row("why", job=view, waiting=waiting)],
            "members": [row("member", one=one) for one in view.members[:MOST_MEMBERS]],
            "needs": [row("need", one=one) for one in view.needs],
            "ahead": [row("ahead", one=one) for one in view.ahead[:10]],
            "rooms": [row("room", one=one) for one in view.nodes[:MOST_NODES]],
            "history": [row("step", one=one) for one in view.history[: -MOST_LINES - 1 : -1]],
        }

    def _gone(self, namespace: str, name: str, past: list[TimelineEntry]) -> Lists:
        head = self.rows.html("gonehead", namespace=namespace, name=name)
        empty: dict[str, list[str]] = {key: [] for key in ("why", "members", "needs", "ahead", "rooms")}
        return {
            **empty,
            "head": [head],
            "history": [self.rows.html("historic", line=line) for line in past[:MOST_LINES]],
        }
