"""Finds members of a running gang that have no node: how many there are, and which resources they lack."""

from __future__ import annotations

from collections.abc import Iterator

from policy.answers.outranked import outranked_in_words
from policy.cluster.gang import ADMITTED, Gang
from policy.cluster.job import WORKER, Job, Slot
from policy.cluster.snapshot import Snapshot
from policy.cluster.sortedgroups import in_sorted
from policy.placement.gang import ask_for
from policy.placement.holders import Holders
from policy.placement.holes import holes


def unplaced(snapshot: Snapshot) -> Iterator[tuple[Job, list[Slot]]]:
    """Yield every admitted job that has unplaced slots, in order of name, with these slots."""
    jobs = (snapshot.jobs[uid] for uid in snapshot.index.lacking if uid in snapshot.jobs)
    for job in sorted(jobs, key=lambda one: one.key):
        if missing := unplaced_of(snapshot, job):
            yield job, missing


def unplaced_of(snapshot: Snapshot, job: Job) -> list[Slot]:
    """Return the slots of an admitted gang that have no node; none for a gang that waits as a whole."""
    gang = snapshot.gang(job.uid)
    if gang.state not in ADMITTED or (gang.whole and not in_sorted(snapshot.index.lacking, job.uid)):
        return []
    return holes(snapshot, job, gang)


def unplaced_in_words(snapshot: Snapshot, job: Job, gang: Gang, missing: list[Slot]) -> str:
    """Return in words how many members of the gang have no node, and what keeps them from being placed.

    ``missing``: the slots of these members.
    """
    size = len(job.slots(gang.workers, gang.ps))
    rigid = [slot for slot in missing if slot.role != WORKER]
    ask = ask_for(snapshot, job, rigid, len(missing) - len(rigid), gang.workers)
    binds = "; and ".join(blocker.text for blocker in Holders(snapshot, job.uid).blockers(ask))
    binds = "; ".join([binds, *outranked_in_words(snapshot, job.uid, ask)])
    told = f"{len(missing)} of {size} members {'has' if len(missing) == 1 else 'have'} no node"
    return f"{told}: {binds}" if binds else told
