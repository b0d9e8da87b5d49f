"""The comparison of policies on a recorded journal: what it reports, how it is bounded, and which files it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extender.comparison.comparepolicies import MOMENTS, NothingRecordedError, Recording, compare, newest_recording
from extender.state.record import NAME, head, line_of
from policy.answers.load import load
from policy.cluster.events import Event, JobSeen, NodeSeen, PodSeen, Synced, Tick
from policy.cluster.pod import Phase
from policy.cluster.snapshot import Snapshot
from policy.step import step
from policy.systems import make_policy
from policy.systems.base import Policy
from policy.systems.baselines import Fifo
from policy.systems.kod2 import Kod2
from tests import builders

START = builders.START


def recorded(folder: Path, *batches: list[Event], policy: Policy | None = None, files: int = 1) -> Snapshot:
    """Write a journal of ``files`` files with one step for each batch of events; return the snapshot after the last
    step.

    The steps are ten seconds apart.
    """
    deciding, snapshot, each = policy or Kod2(), Snapshot(), -(-len(batches) // files)
    for number in range(files):
        with (folder / NAME.format(number + 1)).open("wb") as file:
            file.write(head(deciding, snapshot))
            for at, events in list(enumerate(batches))[number * each : (number + 1) * each]:
                snapshot, effects = step(snapshot, events, deciding, START + 10 * at)
                file.write(line_of(START + 10 * at, events, effects))
    return snapshot


def scene() -> list[list[Event]]:
    """Return batches of events: a heavy job comes while a light one has all room.

    KOD2 shrinks the light job; other policies let the heavy one wait.
    """
    light = builders.job("light").ps(1).workers(1, 4, 4).arrived(0).done()
    heavy = builders.job("heavy", utility=50.0).ps(1).workers(2).arrived(20).done()
    first, second = builders.members(light), builders.members(heavy)
    bound = [PodSeen(replace(pod, node="n1", phase=Phase.RUNNING, version=2)) for pod in first]
    return [
        [NodeSeen(builders.node("n1")), Synced()],
        [JobSeen(light), *(PodSeen(pod) for pod in first)],
        [*bound],
        [JobSeen(heavy), *(PodSeen(pod) for pod in second)],
        [Tick()],
    ]


def recording(folder: Path) -> Recording:
    found = newest_recording(folder)
    assert found is not None
    return found


def always(_: float) -> bool:
    return True


def test_it_tells_what_would_have_differed_and_what_came_of_it(tmp_path: Path) -> None:
    end = recorded(tmp_path, *scene())
    found = compare(recording(tmp_path), Fifo(), always)
    assert (found.recorded, found.other, found.whole, found.steps) == ("kod2", "fifo", True, 5)
    assert found.counts["recorded"] == {"start": 2, "resize": 2}
    assert found.counts["other"] == {"start": 1}
    assert found.differing == 2
    differs = found.differences[0]
    assert differs.at == START + 30
    assert [one.job for one in differs.recorded] == ["team/light", "team/heavy"]
    assert differs.other == ()
    was, again, other = (found.courses[name] for name in ("as_recorded", "recorded", "other"))
    assert [len(one.moments) for one in (was, again, other)] == [MOMENTS] * 3
    assert (was.moments[-1].waiting, was.moments[-1].running) == (load(end).waiting, load(end).running)
    assert (again.started, again.moments[-1].waiting) == (2, 0)
    assert (other.started, other.moments[-1].waiting, other.most_waiting) == (1, 1, 1)
    assert 0 < other.mean_waiting < 1


def test_the_recorded_policy_differs_nowhere_from_itself(tmp_path: Path) -> None:
    recorded(tmp_path, *scene())
    found = compare(recording(tmp_path), Kod2(), always)
    assert (found.differing, found.differences) == (0, ())
    assert found.courses["recorded"] == found.courses["other"]


@pytest.mark.parametrize("name", ["oasis", "specon", "kod2+specon"])
def test_a_policy_that_keeps_what_it_decided_is_followed_along_its_own_record(tmp_path: Path, name: str) -> None:
    end = recorded(tmp_path, *scene(), policy=make_policy(name))
    found = compare(recording(tmp_path), make_policy(name), always)
    assert found.differing == 0
    assert found.courses["as_recorded"].moments[-1].running == load(end).running


def until(calls: int) -> Callable[[float], bool]:
    """Return a function that says whether time is left: True in its first ``calls`` calls, then False."""
    left = [calls]

    def in_time(_: float) -> bool:
        left[0] -= 1
        return left[0] >= 0

    return in_time


@pytest.mark.parametrize("calls", [1, 3, 8, 100, 300, 400])
def test_whenever_time_runs_out_what_there_is_is_told(tmp_path: Path, calls: int) -> None:
    recorded(tmp_path, *scene())
    found = compare(recording(tmp_path), Fifo(), until(calls))
    assert not found.whole
    times = [[moment.at for moment in one.moments] for one in found.courses.values()]
    assert times[0]
    assert times[1:] == [times[0]] * 2
    assert found.courses["as_recorded"].started <= found.courses["as_recorded"].moments[-1].running
    assert found.steps <= 5


def test_nothing_recorded_is_said(tmp_path: Path) -> None:
    assert newest_recording(tmp_path) is None
    recorded(tmp_path)
    with pytest.raises(NothingRecordedError, match="no step is recorded yet"):
        compare(recording(tmp_path), Fifo(), always)


def test_files_that_hang_together_are_one_recording(tmp_path: Path) -> None:
    recorded(tmp_path, *scene(), files=3)
    assert len(recording(tmp_path).files) == 3
    assert compare(recording(tmp_path), Fifo(), always).steps == 5


def test_what_lies_before_a_gap_or_was_decided_by_another_policy_is_left_out(tmp_path: Path) -> None:
    recorded(tmp_path, *scene(), files=3)
    first, middle, last = sorted(tmp_path.iterdir())
    lines = middle.read_bytes().splitlines(keepends=True)
    middle.write_bytes(b"".join(lines[:-1]))  # the journal lacks the last step of its middle file
    assert recording(tmp_path).files == (last,)
    middle.write_bytes(b"".join(lines))
    begun = json.loads(first.read_bytes().splitlines()[0])
    begun["policy"]["starve_limit"] = 1.0
    first.write_bytes(json.dumps(begun).encode() + b"\n" + b"".join(first.read_bytes().splitlines(keepends=True)[1:]))
    assert recording(tmp_path).files == (middle, last)
