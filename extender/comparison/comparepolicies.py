"""Compares another policy with the one that the journal was recorded under.

First the journal is replayed, and the other policy is asked at each recorded step what it would decide. Then the
recorded hours are simulated twice, once under each policy. A recording is the newest part of the journal on disk that
has no gap: files of one policy, where each file begins in the state in which the one before it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from extender.present.views.comparison import ActionView, ComparisonView, CourseView, DifferenceView, LoadView
from extender.state.record import Beginning, Step, beginning, journals, read
from policy.answers.load import Load, load
from policy.answers.otherwise import Beside, Difference, Told
from policy.answers.rerun import Rerun, Works, finishes
from policy.step import step
from policy.systems.base import Policy

MOST_BYTES: Final = 16 * 1024 * 1024  # files before the newest one are read only up to this total size


@dataclass(frozen=True, slots=True)
class Recording:
    """A part of a journal without a gap: the state at its beginning, and its files, oldest first."""

    beginning: Beginning
    files: tuple[Path, ...]

    def steps(self) -> Iterator[Step]:
        """Yield every recorded step. Raises RecordError, OSError."""
        for file in self.files:
            yield from read(file)[1]


def newest_recording(folder: Path) -> Recording | None:
    """Return the part of the journal that ends with the newest file; None where there is no file yet.

    Raises RecordError, OSError.
    """
    files = journals(folder)
    if not files:
        return None
    begun, chosen, size = beginning(files[-1]), [files[-1]], 0
    for file in reversed(files[:-1]):
        size += file.stat().st_size
        if size > MOST_BYTES:
            break
        before = beginning(file)
        if before.policy != begun.policy or before.snapshot.generation + _steps(file) != begun.snapshot.generation:
            break
        begun, chosen = before, [file, *chosen]
    return Recording(begun, tuple(chosen))


def _steps(file: Path) -> int:
    """Return the number of steps in a journal file: each line is one step, except the first, which holds the state at
    the beginning.
    """
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.endswith(b"\n")) - 1


# The load is sampled this many times in each replay or simulation; more samples would not be visible in a chart.
MOMENTS: Final = 240
MOST_DIFFERENCES: Final = 200
# at least this much recorded time passes between two counts of the work that each job has done
LOOK_SECONDS: Final = 1.0
# Reading the journal stops after the first of these shares of the allowed time, and replaying it after the second.
SHARES: Final = (0.2, 0.5)

InTime = Callable[[float], bool]
"""A function that tells whether less than the given share of the allowed time has passed."""
Hours = Sequence[tuple[float, Sequence[Step]]]
"""The recorded steps in portions: each entry has a time (seconds since the epoch), and the steps since the entry
before.
"""


class NothingRecordedError(Exception):
    """The journal has no step yet, so that nothing can be compared."""


def compare(recording: Recording, other: Policy, in_time: InTime) -> ComparisonView:
    """Return how ``other`` would have decided at each recorded step, for as much of the recording as there is time for.

    The answer also has the cluster's load over those hours three times: as recorded, and simulated under each policy.
    ``in_time``: tells whether a share of the allowed time is left. Raises NothingRecordedError, RecordError, OSError.
    """
    reading, walking = SHARES
    steps = list(takewhile(lambda _: in_time(reading), recording.steps()))
    if not steps:
        raise NothingRecordedError("no step is recorded yet; repeat this when the service has decided something")
    read_whole = in_time(reading)
    replay = _Replay(recording, other, steps[0].at)
    hours = replay.go(_hours(steps), lambda: in_time(walking))
    mine = recording.beginning.policy
    again, otherwise = replay.rerun_under((mine, other), hours, lambda: in_time(1.0))
    return ComparisonView(
        recorded=mine.name,
        other=other.name,
        begin=steps[0].at,
        end=hours[-1][0],
        whole=read_whole and len(again) == MOMENTS,
        steps=sum(len(batch) for _, batch in hours),
        asked=replay.beside.asked,
        differing=replay.differing,
        counts={whose: dict(sorted(verbs.items())) for whose, verbs in replay.beside.counts.items()},
        differences=tuple(_difference(one) for one in reversed(replay.differences)),
        courses={
            "as_recorded": _course(mine.name, replay.looks[: len(again)]),
            "recorded": _course(mine.name, again),
            "other": _course(other.name, otherwise),
        },
    )


class _Look(NamedTuple):
    """The load at one time of a replay or simulation. ``started`` and ``ended``: how many jobs have started and ended
    since it began.
    """

    load: LoadView
    started: int
    ended: int


def _hours(steps: Sequence[Step]) -> Hours:
    begin, end = steps[0].at, steps[-1].at
    length = max(end - begin, 1e-6) / MOMENTS
    batches = [list[Step]() for _ in range(MOMENTS)]
    for one in steps:
        batches[min(MOMENTS - 1, int((one.at - begin) / length))].append(one)
    return [(begin + length * (number + 1), batch) for number, batch in enumerate(batches)]


class _Replay:
    """Replays the journal, asks the other policy at every step, and counts how much work each job has done."""

    def __init__(self, recording: Recording, other: Policy, begin: float) -> None:
        self._begun, self._begin = recording.beginning, begin
        self._snapshot = recording.beginning.snapshot
        self.beside = Beside(recording.beginning.policy, other)
        self.differing = 0
        self.differences: deque[Difference] = deque(maxlen=MOST_DIFFERENCES)
        self._works, self._looked = Works(begin), begin
        self.looks: list[_Look] = []
        self._started = 0

    def go(self, hours: Hours, in_time: Callable[[], bool]) -> Hours:
        """Replay the recorded steps as long as there is time. Return those that were replayed.

        ``hours``: the recorded steps, in portions of equal length in time. ``in_time``: tells whether there is time
        left.
        """
        for number, (moment, batch) in enumerate(hours, 1):
            for recorded in batch:
                self._take(recorded)
            self.looks.append(_Look(_load(moment, load(self._snapshot)), self._started, len(self._works.done)))
            if not in_time():
                return hours[:number]
        return hours

    def _take(self, recorded: Step) -> None:
        if recorded.at - self._looked >= LOOK_SECONDS or finishes(recorded.events):
            self._works.look(self._snapshot, recorded.at)
            self._works.finish(recorded.events)
            self._looked = recorded.at
        before = set(self._snapshot.index.admitted)
        self._snapshot, _ = step(self._snapshot, recorded.events, self.beside, recorded.at)
        self._started += len(set(self._snapshot.index.admitted) - before)
        found = self.beside.taken()
        self.differing += len(found)
        self.differences.extend(found)

    def rerun_under(self, policies: Sequence[Policy], hours: Hours, in_time: Callable[[], bool]) -> list[list[_Look]]:
        """Simulate the recorded hours once under each of these policies, as long as there is time.

        ``hours``: the recorded steps, whose events (such as new jobs) are simulated. The simulations advance together,
        so that all reach the same time. Return for each policy the samples of its load over time.
        """
        reruns = [self._rerun(policy) for policy in policies]
        looks = [list[_Look]() for _ in reruns]
        for moment, batch in hours:
            events = [event for one in batch for event in one.events]
            for rerun, seen in zip(reruns, looks, strict=True):
                seen.append(_Look(_load(moment, rerun.to(moment, events)), rerun.started, rerun.ended))
            if not in_time():
                break
        return looks

    def _rerun(self, policy: Policy) -> Rerun:
        same = policy == self._begun.policy
        return Rerun(self._begun.snapshot, policy, self._works.done, self._begin, same=same)


def _load(at: float, found: Load) -> LoadView:
    used = {name: round(share, 4) for name, share in found.used.items()}
    return LoadView(at=at, waiting=found.waiting, running=found.running, used=used)


def _course(policy: str, looks: Sequence[_Look]) -> CourseView:
    moments = [look.load for look in looks]
    names = sorted({name for one in moments for name in one.used})
    return CourseView(
        policy=policy,
        started=looks[-1].started,
        ended=looks[-1].ended,
        mean_waiting=fmean(one.waiting for one in moments),
        most_waiting=max(one.waiting for one in moments),
        mean_used={name: fmean(one.used.get(name, 0.0) for one in moments) for name in names},
        moments=tuple(moments),
    )


def _difference(one: Difference) -> DifferenceView:
    return DifferenceView(at=one.at, recorded=_actions(one.mine), other=_actions(one.other))


def _actions(actions: Iterable[Told]) -> tuple[ActionView, ...]:
    return tuple(ActionView(job=one.job, text=one.text) for one in actions)
