"""The lists of one job's page: its state and the reason for it, its members, what it needs, and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from extender.access.veil import Veil
from extender.page.frames import Lists, breathe
from extender.page.marks import Looks
from extender.page.rows import Rows
from extender.page.story import Line, Story
from extender.present.explain import explain_view
from extender.state.ledger import Ledger
from policy.cluster.model import Job

MOST_LINES = 300
MOST_NODES = 40
MOST_MEMBERS = 1_000


@dataclass(slots=True)
class JobPage:
    """Makes the lists for any job of one ledger. Only one thread may use it at a time."""

    ledger: Ledger
    story: Story
    looks: Looks
    rows: Rows

    def find(self, namespace: str, name: str) -> Job | None:
        """Return the job of that name; where several kinds have one of that name, the job that arrived last."""
        jobs = self.ledger.snapshot.jobs.values()
        found = [job for job in jobs if (job.namespace, job.name) == (namespace, name)]
        return max(found, key=lambda job: job.arrival) if found else None

    def make(self, namespace: str, name: str, veil: Veil, deeper: Mapping[str, object] | None = None) -> Lists | None:
        """Return the lists, or None where nothing is known of such a job.

        deeper: the fields that `present.explain.deeper` computes, where the viewer asked for them.
        """
        self.story.read_on()
        job = self.find(namespace, name)
        if job is not None:
            return self._of(job, veil, deeper or {})
        past = [line for line in self.story.lines() if (line.namespace, line.name) == (namespace, name)]
        told = [replace(line, text=veil.text(line.text)) for line in past]
        return self._gone(namespace, name, told) if told else None

    def _of(self, job: Job, veil: Veil, deeper: Mapping[str, object]) -> Lists:
        snapshot, now = self.ledger.snapshot, self.ledger.now()
        entries = veil.journal(self.ledger.journal.since())
        view = explain_view(snapshot, job, self.ledger.policy, now, entries).model_copy(update=dict(deeper))
        view = veil.view(view)
        breathe()
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

    def _gone(self, namespace: str, name: str, past: list[Line]) -> Lists:
        head = self.rows.html("gonehead", namespace=namespace, name=name)
        empty: dict[str, list[str]] = {key: [] for key in ("why", "members", "needs", "ahead", "rooms")}
        return {
            **empty,
            "head": [head],
            "history": [self.rows.html("historic", line=line) for line in past[:MOST_LINES]],
        }
