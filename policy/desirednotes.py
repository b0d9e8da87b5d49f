"""What should be written on job objects (training reports, the policy's memory) and on nodes (failures there)."""

from __future__ import annotations

from collections.abc import Iterator

from policy.cluster.failures import write_failures
from policy.cluster.job import lives
from policy.cluster.orders import NodeOrder, NoteOrder
from policy.cluster.snapshot import Snapshot
from policy.cluster.training import write_reports

NOTED_SECONDS = 60.0


def notes(snapshot: Snapshot) -> Iterator[NoteOrder]:
    """Yield orders to write training reports and the policy's memory on job objects that do not have them yet.

    Reports are written at most once in ``NOTED_SECONDS``.
    """
    for uid in sorted({*snapshot.reports, *snapshot.texts}):
        job = snapshot.jobs.get(uid)
        if job is not None and job.holds_notes and lives(job):
            reports, text = snapshot.reports.get(uid), snapshot.texts.get(uid, job.memory)
            # If the clock was set back, the reports on the object may be later than those in the snapshot. Then the
            # reports on the object are replaced at once.
            due = reports and not 0 <= reports[-1].at - job.reported < NOTED_SECONDS
            note = NoteOrder(
                uid, job.namespace, job.name, job.kind, job.version,
                write_reports(reports) if reports and due else None, text if text != job.memory else None,
            )  # fmt: skip
            if (note.reports, note.memory) != (None, None):
                yield note


def node_notes(snapshot: Snapshot) -> Iterator[NodeOrder]:
    """Yield orders to write the failures of members on nodes whose annotation says something else.

    The annotation by which an administrator forgives the failures is removed once they are forgotten.
    """
    for name, found in sorted(snapshot.failures.items()):
        node = snapshot.nodes.get(name)
        if node is not None and ((text := write_failures(node.uid, found)) != node.failures or node.forgiven):
            yield NodeOrder(node.uid, name, node.version, text, node.forgiven)
