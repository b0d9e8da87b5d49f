"""What Tiresias and Optimus share: they decide sizes from scratch, and jobs whose size changes give up all their GPUs.

A job that loses its GPUs is paused. The others are placed in a later step of the same moment, when its room is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.sim.rivals.emptiest import PlacementRule
from policy.cluster.actions import Action, Admit, Decision, Resize
from policy.cluster.job import Job, queued
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.snapshot import Snapshot
from policy.placement.room import Room
from policy.systems.queue import queue

NO_TURN = Verdict(Reason.NO_ROOM, "other jobs come first")
FREEING = Verdict(Reason.NO_ROOM, "its room is being freed")


def in_order_of_arrival(snapshot: Snapshot, now: float) -> tuple[list[Job], Mapping[str, Verdict]]:
    """Return the jobs that run or could start, oldest first, and by uid why the other waiting jobs cannot start."""
    line = queue(snapshot, now)
    running = [job for job in snapshot.running() if queued(job)]
    return sorted((*running, *line.ready), key=lambda job: (job.arrival, job.uid)), line.barred


def workers_of_cluster(snapshot: Snapshot, jobs: Sequence[Job]) -> int:
    """Return how many workers the nodes hold without the jobs; only the first job's are tried, as all are alike."""
    empty = Room.without_jobs(snapshot)
    role = jobs[0].worker if jobs else None
    return sum(role.requests.how_many(empty.free(name)) for name in empty) if role else 0


def held(snapshot: Snapshot, job: Job) -> int:
    """Return how many workers the job has; 0 if it waits."""
    gang = snapshot.gang(job.uid)
    return gang.workers if gang.admitted else 0


def turn_over(snapshot: Snapshot, sizes: Sequence[tuple[Job, int]], place: PlacementRule) -> Decision:
    """Return the decision that gives each job its size; the jobs that start are placed in the order of ``sizes``.

    A job that has its size already keeps its nodes; one of another size is paused first, and starts anew.
    """
    losing = [job for job, size in sizes if held(snapshot, job) not in (0, size)]
    without = [(job, size) for job, size in sizes if held(snapshot, job) != size or not size]
    if losing:
        verdicts = {job.uid: FREEING if size else NO_TURN for job, size in without}
        return Decision(tuple(Resize(job.uid, 0) for job in losing), verdicts)
    return _start(snapshot, without, place)


def _start(snapshot: Snapshot, sizes: Sequence[tuple[Job, int]], place: PlacementRule) -> Decision:
    room = Room.of(snapshot)
    actions, verdicts = list[Action](), dict[str, Verdict]()
    for job, size in sizes:
        nodes = place(room, job, size) if size else None
        if nodes is None:
            verdicts[job.uid] = FREEING if size else NO_TURN
        else:
            actions.append(Admit(job.uid, size, nodes))
    return Decision(tuple(actions), verdicts)
