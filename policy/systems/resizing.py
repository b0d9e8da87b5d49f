"""Which running jobs may be resized, and when that changes next."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import islice

from policy.cluster.gang import Gang, State
from policy.cluster.job import Job
from policy.cluster.kept import grouped
from policy.cluster.snapshot import MINUTE, Snapshot
from policy.cluster.sortedgroups import GroupEntry, in_sorted

# In a turn, a job is shrunk for another job's plan; the plan fails, and the shrunk job is grown back. A job whose plans
# keep failing must not cause such turns without end, so each job is shrunk for at most two turns in ten minutes.
TURNS = 2
TURN_SECONDS = 600.0


def next_moment(snapshot: Snapshot, now: float, patience: float, cooldown: float | None = None) -> float:
    """Return when the passing of time alone may next change what an elastic cycle does; infinite: never.

    That is when a back-off ends, a turn or a resize no longer counts, a job has waited for ``patience`` seconds, or a
    job was shrunk ``cooldown`` seconds ago.
    """

    def place_moments(uid: str) -> tuple[GroupEntry, ...]:
        gang, job = snapshot.gang(uid), snapshot.jobs.get(uid)
        scaling = gang.scaling
        moments = [
            at + TURN_SECONDS for at in (*scaling.turns, *([] if scaling.kept_at is None else [scaling.kept_at]))
        ]
        if job is not None and in_sorted(snapshot.index.waiting, uid):
            moments.append(job.arrival + patience)
        if gang.tries.not_before:
            moments.append(gang.tries.not_before)
        if cooldown is not None and scaling.grew is False and scaling.scaled_at is not None:
            moments.append(scaling.scaled_at + cooldown)
        return tuple(("moments", (at, uid)) for at in moments)

    moments = grouped(snapshot, "", ("moments", patience, cooldown), place_moments)
    in_order = moments.groups.get("moments", ())
    forgotten = (at + MINUTE for at in snapshot.resizes)
    coming = (at for at, _ in islice(in_order, bisect_left(in_order, (now,)), None))
    return min(next(coming, math.inf), *(at for at in forgotten if at >= now), math.inf)


def may_give(snapshot: Snapshot, victim: Job, gang: Gang, job: Job, now: float) -> bool:
    """Tell whether the victim may be shrunk for the job now: it is elastic, runs, and has turns (``TURNS``) left.

    ``gang``: the victim's gang.
    """
    if gang.state is not State.RUNNING or not victim.elastic:
        return False
    scaling = gang.scaling
    if scaling.kept_at is not None and now - scaling.kept_at < TURN_SECONDS:
        # The operator did not delete the victim's workers at its last shrink, so the victim is not shrunk for a while.
        return False
    turns = sum(1 for turn in scaling.turns if now - turn < TURN_SECONDS) if scaling.turns else 0
    # If the plan fails once more, the victim is grown back: that turn is counted in advance.
    return turns + 1 < TURNS or not snapshot.gang(job.uid).tries.attempts
