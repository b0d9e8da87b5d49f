"""The journal on disk: recorded steps run again, files follow one another, and no fault blocks or ends the service."""

import logging
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from extender.clock import Clock
from extender.state import record
from extender.state.codec import CodecError
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from extender.state.record import Recorder, RecordError, effects_of, head, line_of, read
from lab.sim.pods.world import SimulatedWorld
from lab.sim.simulatedstep import SimulatedStep
from lab.sim.traces import kod2
from lab.study import replay
from lab.virtual.podrun import simulate
from policy.cluster.actions import Admit, Decision, Remember
from policy.cluster.constraints import Constraints, Requirement, Taint, Term, Toleration
from policy.cluster.events import (
    BindDone,
    BindDropped,
    BindHeld,
    BindRefused,
    BindUnknown,
    Event,
    JobGone,
    JobSeen,
    Led,
    NodeGone,
    NodeNotOffered,
    NodeSeen,
    PodGone,
    PodSeen,
    PolicyChanged,
    QuotaGone,
    QuotaSeen,
    Reported,
    Saved,
    Synced,
    Tick,
    UsageSeen,
    WritesRefused,
)  # fmt: skip
from policy.cluster.quota import Quota
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Rules, Snapshot
from policy.cluster.training import Goal, Report, Training, Utility
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2
from tests.builders import job, node, ps, w
from tests.eventually import wait_until

CHOOSY = Constraints(
    (("disk", "ssd"),), (Term((Requirement("gpu", "In", ("a", "b")),), ()),), (Toleration("k", "Exists", "", ""),)
)
TRAINED = job("a").ps(1).workers(1, 4).made


@cache
def steps_of_a_run(seed: int = 1) -> list[SimulatedStep]:
    seen: list[SimulatedStep] = []

    def look(step: SimulatedStep, world: SimulatedWorld) -> None:
        del world
        seen.append(step)

    simulate(kod2(seed), Kod2(), on_step=look)
    return seen


def before(steps: list[SimulatedStep]) -> Snapshot:
    """Return the state before the first of these steps: empty, with the run's rules."""
    return Snapshot(rules=steps[0].snapshot.rules)


def keep_up(recorder: Recorder, behind: int) -> None:
    """Wait until at most so many steps are still to be written."""
    wait_until(lambda: recorder._queue.qsize() <= behind, "the journal is written")


def recorded(folder: Path, steps: list[SimulatedStep], file_bytes: int, files: int) -> list[Path]:
    recorder = Recorder(folder, Kod2(), before(steps), file_bytes, files)
    for step in steps:
        recorder.write(step.at, step.events, step.effects, step.snapshot)
        keep_up(recorder, 0)
    recorder.close(60)
    return sorted(folder.iterdir())


def pods(seed: int) -> tuple[Event, ...]:
    return tuple(event for step in steps_of_a_run(seed) for event in step.events if isinstance(event, PodSeen))


EVENTS: tuple[Event, ...] = (
    NodeSeen(node("n", labels={"disk": "ssd"}, taints=(Taint("k", "v", "NoSchedule"),))),
    NodeGone("n"),
    JobSeen(TRAINED),
    JobGone("uid"),
    *pods(1)[:200:10],
    PodGone("uid"),
    Synced(),
    Led(False),
    PolicyChanged(),
    PolicyChanged(("oasis",)),
    BindHeld("p", "n"),
    BindDropped("p"),
    BindDone("p", "n"),
    BindRefused("p", "no"),
    BindUnknown("p"),
    NodeNotOffered("p", "n"),
    Reported("j", Report(3.5, 0.25, None)),
    Saved("j"),
    UsageSeen({"n1": Resources({"cpu": 1500})}),
    WritesRefused((RefusedWrite("SetReplicas", "uid", "Invalid: no", lasting=True, name="team/a"),)),
    QuotaSeen(
        Quota(
            "team",
            "few",
            Resources({"limits.cpu": 4000}),
            Resources({"limits.cpu": 1}),
            (Requirement("PriorityClass", "In", ("high",)),),
            uid="uid",
            version=3,
        )
    ),
    QuotaGone("team/few"),
    Tick(),
)


def test_every_event_is_read_back_as_it_was(tmp_path: Path) -> None:
    training = Training(3, 2, 1, 0.5, 30.0, 1.0, 2.0, Utility(1.0, 2.0, 3.0), all_reduce=True, goal=Goal.MAX, alpha=0.1)
    roles = tuple(replace(role, constraints=CHOOSY) for role in TRAINED.roles)
    rich = job("b").with_(roles=roles, training=training, migratable=True).made
    events = (*EVENTS, JobSeen(rich))
    assert {type(event) for event in events} == set(record._EVENTS.values())
    (tmp_path / "j").write_bytes(head(Kod2(), Snapshot()) + line_of(7.25, events, ()))
    _, steps = read(tmp_path / "j")
    (step,) = steps
    assert step.events == events
    assert step.at == 7.25
    assert "ps-0" in {str(event.pod.slot) for event in step.events if isinstance(event, PodSeen)}


def test_decisions_are_compared_with_their_slots_and_memories() -> None:
    effects = (Admit("j", 2, {ps(): "n", w(0): "m"}), Remember("k", {("a", 1): frozenset({"x"})}))
    assert effects_of(effects) == effects_of(effects)
    assert effects_of(effects) != effects_of((Admit("j", 2, {ps(): "n", w(0): "n"}), effects[1]))
    assert b'"worker"' in effects_of(effects)


def test_a_full_file_is_followed_by_one_that_can_be_replayed_by_itself(tmp_path: Path) -> None:
    steps = steps_of_a_run()
    paths = recorded(tmp_path, steps, 40_000, 100)
    assert len(paths) > 3
    found = [replay.replay_journal(path) for path in paths]
    assert [one.departures for one in found] == [()] * len(paths)
    assert sum(one.steps for one in found) == len(steps)
    assert sum(one.decisions for one in found) == sum(len(step.effects) for step in steps)


def test_only_so_many_files_are_kept_and_a_restart_goes_on_counting(tmp_path: Path) -> None:
    steps = steps_of_a_run()
    names = [path.name for path in recorded(tmp_path, steps, 40_000, 3)]
    assert len(names) == 3
    assert names[0] != "journal-000001.jsonl"
    again = [path.name for path in recorded(tmp_path, steps[:1], 40_000, 3)]
    assert again[:2] == names[1:]
    assert int(again[2][8:14]) == int(names[2][8:14]) + 1


def test_what_the_disk_cannot_follow_is_left_out_and_a_new_file_begins_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, real = threading.Event(), record.line_of

    def line_of_slow(*arguments: object) -> bytes:
        slow.wait(60)  # the recorder must stay slow even if a busy machine stops for ten seconds
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(record, "line_of", line_of_slow)
    monkeypatch.setattr(record, "BEHIND", 20)
    steps = steps_of_a_run()
    recorder = Recorder(tmp_path, Kod2(), before(steps), 10**9, 10)
    for number, step in enumerate(steps[:100]):
        recorder.write(step.at, step.events, step.effects, step.snapshot)
        if not number:
            # the writer has the first step in hand, and takes no other one until the gap has arisen
            keep_up(recorder, 0)
    slow.set()
    keep_up(recorder, 0)
    for step in steps[100:]:
        recorder.write(step.at, step.events, step.effects, step.snapshot)
        keep_up(recorder, 10)
    recorder.close(60)
    first, second = (replay.replay_journal(path) for path in sorted(tmp_path.iterdir()))
    assert first.steps == 21
    assert second.steps == len(steps) - 100
    assert (first.departures, second.departures) == ((), ())


def test_a_disk_that_fails_ends_the_record_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record, "BEHIND", 5)
    recorder = Recorder(tmp_path / "there", Kod2(), Snapshot(), 10**9, 10)
    (tmp_path / "there").rmdir()
    with caplog.at_level(logging.ERROR):
        for step in steps_of_a_run()[:50]:
            recorder.write(step.at, step.events, step.effects, step.snapshot)
        recorder.close(60)
    assert "the journal on disk has ended" in caplog.text


def test_steps_that_wait_while_a_file_is_full_begin_one_file_and_not_one_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, may, done = Recorder._write, threading.Semaphore(0), threading.Semaphore(0)

    def write_when_let(recorder: Recorder, step: record._Handed) -> None:
        may.acquire()
        write(recorder, step)
        done.release()

    monkeypatch.setattr(Recorder, "_write", write_when_let)
    recorder = Recorder(tmp_path, Kod2(), Snapshot(), 1, 10)  # each step begins a new file

    def hand_over(step: int) -> None:
        recorder.write(float(step), (Tick(),), (), Snapshot())

    for step in range(10):
        hand_over(step)
    for step in range(10, 15):  # with each step that comes, one of the first ten is written
        may.release()
        assert done.acquire(timeout=60)
        hand_over(step)
    may.release(10)
    recorder.close(60)
    assert [len(path.read_bytes().splitlines()) - 1 for path in sorted(tmp_path.iterdir())] == [10, 5]


@pytest.mark.parametrize("waiting", [1, 8], ids=["the disk alone", "a full queue, too"])
def test_a_disk_that_hangs_does_not_keep_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waiting: int
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(Recorder, "_append", lambda recorder, line: hangs.wait(60))
    monkeypatch.setattr(record, "BEHIND", 4)
    recorder = Recorder(tmp_path, Kod2(), Snapshot(), 10**9, 10)
    for at in range(waiting):
        recorder.write(float(at), (Tick(),), (), Snapshot())
    closing = threading.Thread(target=recorder.close, args=(0.05,), daemon=True)
    closing.start()
    closing.join(30)
    ended = not closing.is_alive()
    hangs.set()
    assert ended
    assert "the journal on disk lacks its last steps" in caplog.text


class Fails(Policy):
    """A policy that raises an error when there is a job."""

    name = "fails"

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        if snapshot.jobs:
            raise ZeroDivisionError("a bug")
        return Decision()


def test_the_step_on_which_a_process_died_is_recorded_and_dies_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path, Kod2(), Snapshot(), 10**9, 10)
    ledger = Ledger(Kod2(), Rules(), Clock(), Journal(), record=recorder.write)
    ledger.step(NodeSeen(node("n")), Synced())
    monkeypatch.setattr(Kod2, "decide", Fails.decide)
    with pytest.raises(ZeroDivisionError):
        ledger.step(JobSeen(TRAINED))
    recorder.close(60)
    (path,) = tmp_path.iterdir()
    found = replay.replay_journal(path)
    assert (found.steps, found.departures, found.stopped) == (2, (), "ZeroDivisionError: a bug")
    monkeypatch.undo()
    # the mended policy decides at the step at which the recorded one failed
    assert [one.line for one in replay.replay_journal(path).departures] == [3]


def test_a_line_that_was_being_written_is_no_step(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(head(Kod2(), Snapshot()) + line_of(1.0, (Synced(),), ()) + b'{"at": 2.0, "eve')
    assert replay.replay_journal(tmp_path / "j").steps == 1


BROKEN = {
    "no journal": (b"name,time\n", "line 1: this line does not begin a journal"),
    "another format": (b'{"kohort": 9}\n', "line 1: kohort: 9 is not allowed; allowed: 1"),
    "no step": (head(Kod2(), Snapshot()) + b"[]\n", "line 2: this line is not a step of a journal"),
    "no such event": (
        head(Kod2(), Snapshot()) + b'{"at":1.0,"events":[["Rain",{}]],"effects":[]}\n',
        "line 2: this line is not a step of a journal: event: 'Rain' is not allowed; allowed: NodeSeen,",
    ),
    "an event without its field": (
        head(Kod2(), Snapshot()) + b'{"at":1.0,"events":[["PodGone",{}]],"effects":[]}\n',
        "line 2: this line is not a step of a journal: Object missing required field `uid`",
    ),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_told_with_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(RecordError) as error:
        list(read(tmp_path / "j")[1])
    assert str(error.value).startswith(f"{tmp_path / 'j'}, {said}")


def test_a_policy_that_is_none_of_ours_cannot_be_recorded() -> None:
    with pytest.raises(CodecError, match="cannot be written"):
        head(Fails(), Snapshot())
