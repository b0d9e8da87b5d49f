"""The lists of one job's page: its state and the reason for it, its members, what it needs, and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from extender.access.redaction import Redaction
from extender.page.frames import Lists, let_loop_run
from extender.page.htmlrows import Rows
from extender.page.marks import Looks
from extender.page.timeline import Timeline, TimelineEntry
from extender.present.explainview import explain_view
from extender.present.names import job_named
from extender.state.ledger import Ledger
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

    def make(
        self, namespace: str, name: str, redaction: Redaction, slow_fields: Mapping[str, object] | None = None
    ) -> Lists | None:
        """Return the lists, or None if no job of that name is known or was recorded.

        redaction: hides what the viewer may not read. slow_fields: the result of `explainview.slow_fields`, if the
        viewer asked for it.
        """
        self.timeline.read_on()
        job = job_named(self.ledger.snapshot, namespace, name)
        if job is not None:
            return self._of(job, redaction, slow_fields or {})
        past = [line for line in self.timeline.lines() if (line.namespace, line.name) == (namespace, name)]
        told = [replace(line, text=redaction.text(line.text)) for line in past]
        return self._gone(namespace, name, told) if told else None

    def _of(self, job: Job, redaction: Redaction, slow_fields: Mapping[str, object]) -> Lists:
        snapshot, now = self.ledger.snapshot, self.ledger.now()
        entries = redaction.journal(self.ledger.journal.since())
        view = explain_view(snapshot, job, self.ledger.policy, now, entries).model_copy(update=dict(slow_fields))
        view = redaction.view(view)
        let_loop_run()
        waiting = view.waited_seconds is not None
        row = self.rows.html
        return {
            "head": [row("jobhead", job=view, look=self.looks.of(job.uid), now=now)],
            "why": [row("why", job=view, waiting=waiting)],
            "members": [row("member", one=one) for one in view.members[:MOST_MEMBERS]],
            "needs": [row("need", one=one) for one in view.needs],
            "ahead": [row("ahead", one=one) for one in view.ahead[:10]],
            "rooms": [row("room", one=one) for one in view.nearest()[:MOST_NODES]],
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
