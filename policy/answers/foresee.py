"""Computes when a waiting job may start if no other job comes: running jobs end as they state, and the policy decides.

What a running job still has to do is known from its progress reports, or else from its training annotation. A job that
has neither is assumed to run on without end, and a job that waits for its room has no expected start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from policy.answers.explanation import Start
from policy.answers.operated import forward, without
from policy.answers.refusals import backs_off_from_refusal
from policy.cluster import words
from policy.cluster.gang import ADMITTED
from policy.cluster.job import Job
from policy.cluster.reasons import Concern, Lasts
from policy.cluster.snapshot import Snapshot, reason_of
from policy.cluster.training import remaining_seconds
from policy.systems.base import Policy

MOST_ENDS = 64
# MOST_MOMENTS is how many moments are tried at most at which no job ends, but the policy may decide differently because
# time has passed.
MOST_MOMENTS = 64
HORIZON_SECONDS = 7 * 86_400.0
LEAST_STEP = 1.0
# A job starves only once its limit is exceeded, so the decision is tried this many seconds after the limit.
JUST_AFTER = 0.01
NAMED = 3
REFUSED = "the API server has refused its binding, and Kohort tries again after each back-off"


def foresee(snapshot: Snapshot, policy: Policy, now: float) -> Mapping[str, Start]:
    """Return the expected start of every waiting job (by uid). ``now``: seconds since the epoch."""
    waiting = [job.uid for job in snapshot.waiting()]
    return Course(replace(snapshot, leading=True), policy, now).starts(waiting) if waiting else {}


class Course:
    """Simulates the cluster's next hours on a copy of the snapshot.

    ``snapshot``: the state that the simulation has reached. ``before``: the state on which the last decision was made.
    ``_left``: by uid, how many worker-seconds of work each job with a known end still has.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy, now: float) -> None:
        self._begun, self._policy, self._now, self._began = snapshot, policy, now, now
        self.snapshot = self.before = snapshot
        self._left: dict[str, float] = {}
        self._ended: list[str] = []

    def starts(self, waiting: list[str]) -> dict[str, Start]:
        """Return by uid the expected starts of the jobs with these uids.

        The simulation goes on until all of the jobs have started, or no further change is known.
        """
        gangs = self._begun.gangs
        found = {uid: Start(None, REFUSED) for uid in waiting if uid in gangs and backs_off_from_refusal(gangs[uid])}
        for _ in self.moments():
            for uid in waiting:
                if uid not in found and self.snapshot.gang(uid).state in ADMITTED:
                    found[uid] = Start(self._now, self._basis(self._begun.jobs[uid]))
            if len(found) == len(waiting):
                break
        jobs = self._begun.jobs
        return found | {uid: Start(None, self._unknown(jobs[uid])) for uid in waiting if uid not in found}

    def moments(self) -> Iterator[float]:
        """Simulate, and yield the time now, each end of a job, and each moment at which the policy may decide
        differently.

        When a time (in seconds since the epoch) is yielded, ``snapshot`` has the state after the policy's decision.
        """
        ends = idle = 0
        self._to(self._now, "")
        yield self._now
        while ends < MOST_ENDS and idle < MOST_MOMENTS:
            ending = min(((self._end_of(uid), uid) for uid in self._left), default=(math.inf, ""))
            sooner = max(self._next_change(), self._now + LEAST_STEP)
            at = min(ending[0], sooner)
            if at - self._began > HORIZON_SECONDS:
                return
            ends, idle = (ends + 1, idle) if at == ending[0] else (ends, idle + 1)
            self._to(at, ending[1] if at == ending[0] else "")
            yield at

    def _to(self, at: float, ending: str) -> None:
        """Let time pass until ``at``, end the job ``ending`` if one is named, and carry out the policy's decision."""
        for uid, left in self._left.items():
            done = (at - self._now) * self.snapshot.gang(uid).workers
            self._left[uid] = max(0.0, left - done)
        self._now = at
        if ending:
            self._ended.append(self.snapshot.jobs[ending].key)
            del self._left[ending]
        self.before = without(self.snapshot, ending) if ending else self.snapshot
        self.snapshot = forward(self.before, (), self._policy, at)
        for job in self.snapshot.running():
            told = self._left_of(job) if job.uid not in self._left else None
            if told is not None:
                self._left[job.uid] = told

    def _end_of(self, uid: str) -> float:
        workers = self.snapshot.gang(uid).workers
        return self._now + self._left[uid] / workers if workers else math.inf

    def _next_change(self) -> float:
        """Return the next moment at which the policy may decide differently, in seconds since the epoch.

        If the policy cannot say, it is the beginning of its next time slot or the end of the next back-off.
        """
        policy = self._policy.base
        change = policy.next_change(self.snapshot, self._now + LEAST_STEP)
        if change is not None:
            return change + (JUST_AFTER if policy.starve_limit else 0.0)
        rests = (at for at in self.snapshot.index.rests.values() if at > self._now)
        return min([policy.next_moment(self._now), *rests])

    def _left_of(self, job: Job) -> float | None:
        """Return how many worker-seconds of work the job has left, by its reports or else by its training annotation.

        A job without workers counts as one worker. None: the job has neither reports nor an annotation of its duration.
        """
        gang, training = self.snapshot.gang(job.uid), job.training
        workers = max(1, gang.workers)
        seconds = remaining_seconds(self.snapshot.reports.get(job.uid, ()), self._now)
        if seconds is not None:
            return seconds * workers
        if training is None or not training.is_timed:
            return None
        ran = max(0.0, self._now - gang.admitted_at) if gang.admitted_at is not None else 0.0
        return max(0.0, training.worker_seconds - ran * workers)

    # -- The methods below put an expectation into words. ----------------------------------------

    def _basis(self, job: Job) -> str:
        if self._ended:
            have = "has" if len(self._ended) == 1 else "have"
            return f"if no other job comes, once {words.listed(self._ended, NAMED)} {have} ended"
        return f"if no other job comes, once {self._in_time(job)}" if self._now > self._began else "now"

    def _in_time(self, job: Job) -> str:
        """Return in words what is over when the job starts: its back-off, its wait until it starves, or a cool-down."""
        limit = self._policy.base.starve_limit
        if self._began < self._begun.gang(job.uid).tries.not_before <= self._now:
            return "its back-off is over"
        if limit and self._began < job.arrival + limit <= self._now:
            return f"it has waited for the starvation limit of {limit:g} s"
        return "a cool-down or a time slot of the policy is over"

    def _unknown(self, job: Job) -> str:
        """Return in words why the job's start is not known, such as the running jobs whose end is not known."""
        silent = [one.key for one in self.snapshot.running() if one.uid not in self._left]
        reason = reason_of(self._begun, job).reason
        if reason.concern not in (Concern.ROOM, Concern.DECISION) or reason.lasts is Lasts.CHANGE:
            return reason.fact
        if silent:
            return f"neither reports nor kohort.dev/training tell how long {words.listed(silent, NAMED)} will train"
        return "it would get no room even when the running jobs have ended"
