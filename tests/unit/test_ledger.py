"""The ledger: which events it puts into one step, in which order, whom it tells, and what a failed step does."""

import asyncio
import logging

import pytest

from extender.state.journal import Journal
from extender.state.ledger import Ledger, LedgerStoppedError
from policy.cluster.actions import Decision, Effect, Remember
from policy.cluster.events import Event, NodeGone, NodeSeen, PodGone, Synced
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems.base import Policy
from tests.builders import job, node
from tests.stage import Stage, VirtualClock, virtual


class Script(Policy):
    """A policy that notes the nodes that it sees at each decision, and fails on request."""

    name = "script"

    def __init__(self) -> None:
        self.saw: list[list[str]] = []
        self.at: list[float] = []
        self.fails = False

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        if self.fails:
            raise ZeroDivisionError("a bug")
        self.saw.append(sorted(snapshot.nodes))
        self.at.append(now)
        return Decision((Remember("step", len(self.saw)),))


def ledger(policy: Script, coalesce: float = 0.02) -> Ledger:
    made = Ledger(policy, Rules(), VirtualClock(), Journal(), coalesce)
    made.step(Synced())
    policy.saw.clear()
    policy.at.clear()
    return made


def up(name: str) -> Event:
    return NodeSeen(node(name))


@virtual
async def test_a_burst_makes_one_decision_within_the_coalescing_time() -> None:
    policy = Script()
    held = ledger(policy)
    started = held.clock.now()
    for name in ("a", "b", "c"):
        held.post(up(name))
        await asyncio.sleep(0.005)
    assert (held.dirty, policy.saw) == (True, [])
    await asyncio.sleep(0.02)
    assert (held.dirty, policy.saw) == (False, [["a", "b", "c"]])
    assert policy.at == [pytest.approx(started + 0.02)]
    held.post(up("d"))
    await asyncio.sleep(0.03)
    assert policy.saw[1:] == [["a", "b", "c", "d"]], "and the next burst makes the next"


class SlowClock(VirtualClock):
    """A clock on which each decision of the policy takes ``late`` seconds."""

    def __init__(self, policy: Script, late: float) -> None:
        super().__init__()
        self._policy, self._late = policy, late

    def monotonic(self) -> float:
        return super().monotonic() + self._late * len(self._policy.at)


@virtual
@pytest.mark.parametrize(("late", "rest"), [(0.001, 0.02), (0.1, 0.1), (10.0, 0.25)])
async def test_verbs_are_left_as_much_time_as_a_step_takes(late: float, rest: float) -> None:
    policy = Script()
    held = Ledger(policy, Rules(), SlowClock(policy, late), Journal(), 0.02)
    held.step(Synced())
    held.post(up("a"))
    await asyncio.sleep(rest - 0.001)
    assert held.dirty
    await asyncio.sleep(0.002)
    assert not held.dirty


@virtual
async def test_nothing_posted_is_nothing_to_do() -> None:
    policy = Script()
    held = ledger(policy)
    held.post()
    await asyncio.sleep(1)
    assert policy.saw == []


@virtual
async def test_what_was_queued_comes_before_what_is_immediate() -> None:
    policy = Script()
    held = ledger(policy)
    held.post(up("a"))
    held.step(NodeGone("a"))
    assert (policy.saw, held.dirty) == ([[]], False)
    held.post(NodeGone("b"))
    held.step(up("b"))
    assert policy.saw[-1] == ["b"]
    await asyncio.sleep(1)
    assert len(policy.saw) == 2, "the timer of what was applied at once is gone"


@virtual
async def test_carriers_are_told_after_the_snapshot_is_set() -> None:
    held = ledger(Script())
    seen: list[tuple[int, bool]] = []
    held.carry_with(lambda effects: seen.append((held.snapshot.generation, "a" in held.snapshot.nodes)))
    before = held.snapshot.generation
    assert held.step(up("a")) == (Remember("step", 1),)
    assert seen == [(before + 1, True)]


@virtual
async def test_a_carrier_may_post_and_step_and_all_hear_of_it_in_order() -> None:
    policy = Script()
    held = ledger(policy)
    first: list[object] = []
    last: list[object] = []

    def busy(effects: tuple[Effect, ...]) -> None:
        first.extend(effects)
        if len(first) == 1:
            held.post(up("posted"))
            held.step(up("stepped"))

    held.carry_with(busy)
    held.carry_with(last.extend)
    held.step(up("a"))
    assert first == last == [Remember("step", 1), Remember("step", 2)]
    assert policy.saw == [["a"], ["a", "posted", "stepped"]]


@virtual
async def test_a_carrier_that_fails_takes_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    held = ledger(Script())
    told: list[object] = []

    def broken(effects: tuple[Effect, ...]) -> None:
        raise RuntimeError("broken metric")

    held.carry_with(broken)
    held.carry_with(told.extend)
    with caplog.at_level(logging.ERROR):
        held.step()
        held.step()
    assert told == [Remember("step", 1), Remember("step", 2)]
    assert "broken metric" in caplog.text


@virtual
async def test_after_a_failed_step_the_ledger_answers_nobody() -> None:
    policy = Script()
    held = ledger(policy)
    before = held.snapshot
    policy.fails = True
    with pytest.raises(ZeroDivisionError):
        held.step(up("a"))
    policy.fails = False
    with pytest.raises(LedgerStoppedError):
        held.step(up("b"))
    assert held.snapshot is before


@virtual
async def test_a_failure_of_gathered_facts_ends_the_tick_at_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = Script()
    held = ledger(policy)
    ticking = asyncio.create_task(held.tick(3600))
    policy.fails = True
    held.post(up("a"))
    with pytest.raises(LedgerStoppedError) as stopped:
        await asyncio.wait_for(ticking, 1)
    assert isinstance(stopped.value.__cause__, ZeroDivisionError)
    assert "a step of the ledger failed" in caplog.text


@virtual
async def test_a_long_poll_ends_with_the_next_generation() -> None:
    held = ledger(Script())
    started, generation = held.clock.now(), held.snapshot.generation
    waiting = asyncio.create_task(held.changed(generation, 30))
    await asyncio.sleep(2)
    assert not waiting.done()
    held.step(up("a"))
    assert (await waiting).generation == generation + 1
    assert held.clock.now() == pytest.approx(started + 2)
    assert (await held.changed(generation, 30)).generation == generation + 1
    assert held.clock.now() == pytest.approx(started + 2), "what has changed already is not waited for"


@virtual
async def test_a_long_poll_ends_with_its_time() -> None:
    held = ledger(Script())
    started, snapshot = held.clock.now(), held.snapshot
    assert await held.changed(snapshot.generation, 30) is snapshot
    assert held.clock.now() == pytest.approx(started + 30)


@virtual
async def test_ticks_come_only_when_nothing_else_does() -> None:
    policy = Script()
    held = ledger(policy)
    started = held.clock.now()
    ticking = asyncio.create_task(held.tick(10))
    await asyncio.sleep(6)
    held.step()
    await asyncio.sleep(15)
    ticking.cancel()
    assert [at - started for at in policy.at] == [pytest.approx(6), pytest.approx(16)]


class Preparing(Script):
    """A policy that notes when it is asked to prepare the next decision."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[float] = []
        self.cannot = False

    def prepare(self, snapshot: Snapshot, now: float) -> None:
        self.prepared.append(now)
        if self.cannot:
            raise ZeroDivisionError("a bug")


@virtual
async def test_what_can_be_prepared_is_prepared_between_steps_and_no_more_often_than_a_tick_comes() -> None:
    policy = Preparing()
    held = ledger(policy)
    started = held.clock.now()
    ticking = asyncio.create_task(held.tick(10))
    for _ in range(25):
        await asyncio.sleep(1)
        held.step()
    ticking.cancel()
    assert [round(at - started) for at in policy.prepared] == [1, 11, 21]


@virtual
async def test_nothing_is_prepared_before_the_lists_are_in() -> None:
    policy = Preparing()
    held = Ledger(policy, Rules(), VirtualClock(), Journal(), 0.02)
    started = held.clock.now()
    ticking = asyncio.create_task(held.tick(10))
    await asyncio.sleep(3)
    held.step(up("a"))
    await asyncio.sleep(1)
    held.step(Synced())
    await asyncio.sleep(1)
    ticking.cancel()
    assert [round(at - started) for at in policy.prepared] == [4]


@virtual
async def test_what_cannot_be_prepared_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    policy = Preparing()
    policy.cannot = True
    held = ledger(policy)
    ticking = asyncio.create_task(held.tick(10))
    await asyncio.sleep(25)
    assert (ticking.done(), len(policy.at), len(policy.prepared)) == (False, 2, 2)
    assert "computing ahead for the next decision failed" in caplog.text
    ticking.cancel()


@virtual
async def test_a_tick_is_there_at_the_deadline_that_a_later_step_set() -> None:
    stage = Stage(window_seconds=8.0)
    ticking = asyncio.create_task(stage.ledger.tick(3600))
    await asyncio.sleep(1)
    pods = stage.submit(job("a").ps(1).workers(2))
    started = stage.ledger.clock.now()
    answer = await stage.barrier.hold(pods[0].uid, stage.planned(pods[0]), asyncio.sleep(3600))
    assert answer.startswith("kohort: kube-scheduler did not ask to bind all members")
    assert stage.ledger.clock.now() == pytest.approx(started + 8, abs=0.1)
    ticking.cancel()


@virtual
async def test_a_back_off_ends_with_a_tick() -> None:
    stage = Stage(window_seconds=2.0, plan_seconds=3.0, backoff_initial_seconds=5.0)
    ticking = asyncio.create_task(stage.ledger.tick(3600))
    a = job("a").ps(1).workers(1)
    stage.submit(a)
    await asyncio.sleep(3.5)
    assert (stage.gang(a).admitted, stage.gang(a).tries.attempts) == (False, 1), "nobody came to the barrier"
    await asyncio.sleep(5)
    assert stage.gang(a).admitted
    ticking.cancel()


class Punctual(Script):
    """A policy that wants to decide at every full hundred seconds."""

    def next_moment(self, now: float) -> float:
        return (now // 100 + 1) * 100


@virtual
async def test_a_moment_that_the_policy_keeps_does_not_wait_for_the_tick() -> None:
    policy = Punctual()
    held = ledger(policy)
    ticking = asyncio.create_task(held.tick(3600))
    await asyncio.sleep(150)
    held.step()
    await asyncio.sleep(100)
    ticking.cancel()
    assert [at % 1000 for at in policy.at] == [pytest.approx(at, abs=0.1) for at in (100, 150, 200)]


@virtual
async def test_a_moment_that_comes_while_a_step_is_made_is_kept() -> None:
    """A timer may ring slightly early, so that a step begins just before the policy's moment and ends just after it."""
    slow = [0.0]

    class SlowClock(VirtualClock):
        def monotonic(self) -> float:
            return super().monotonic() + slow[0]

    class Slow(Punctual):
        def decide(self, snapshot: Snapshot, now: float) -> Decision:
            slow[0] += 0.002
            return super().decide(snapshot, now)

    policy = Slow()
    held = Ledger(policy, Rules(), SlowClock(), Journal(), 0.02)
    held.step(Synced())
    policy.at.clear()
    ticking = asyncio.create_task(held.tick(3600))
    await asyncio.sleep(100 - held.now() % 100 - 0.001)
    held.step()
    await asyncio.sleep(1)
    ticking.cancel()
    before, after = policy.at
    assert before % 100 > 99
    assert after - before < 0.2


@virtual
async def test_a_pod_that_a_later_list_lacks_was_deleted_before_our_start() -> None:
    held = ledger(Script())
    held.listed(frozenset({"p1"}), 50)
    assert [held.was_deleted("p1", 40), held.was_deleted("p2", 40)] == [False, True]
    assert [held.was_deleted("p2", 51), held.was_deleted("p2"), held.was_deleted("p2", 50)] == [False, False, True]


@virtual
async def test_deleted_pods_are_remembered_up_to_a_bound() -> None:
    held = ledger(Script())
    held.step(PodGone("p1"))
    assert (held.was_deleted("p1"), held.was_deleted("p2")) == (True, False)
    held.step(*(PodGone(f"q{index}") for index in range(10_000)))
    assert (held.was_deleted("p1"), held.was_deleted("q0")) == (False, True)


@virtual
async def test_the_journal_says_what_was_decided_and_why() -> None:
    held = ledger(Script())
    held.post(up("a"), up("b"))
    held.step(NodeGone("a"))
    entry = list(held.journal.since())[-1]
    assert (entry.cause, entry.effect, entry.generation) == (
        ("NodeSeen", "NodeGone"), Remember("step", 1), held.snapshot.generation,
    )  # fmt: skip
    assert list(held.journal.since(entry.sequence)) == []


def test_the_journal_keeps_the_last_entries_numbered_without_gaps() -> None:
    journal = Journal(size=3)
    for number in range(5):
        journal.write(float(number), number, ["Tick", "Tick"], [Remember("k", number)])
    assert [(entry.sequence, entry.cause) for entry in journal.since(0)] == [(n, ("Tick",)) for n in (3, 4, 5)]
    assert [entry.sequence for entry in journal.since(4)] == [5]


@virtual
async def test_a_wall_clock_that_is_set_anew_moves_no_deadline() -> None:
    clock = VirtualClock()
    jumps = [0.0, 0.0, 3600.0, -3600.0]
    clock.now = lambda: clock.monotonic() + jumps.pop(0)  # type: ignore[method-assign]
    policy = Script()
    held = Ledger(policy, Rules(), clock, Journal())
    began = clock.now()
    for _ in range(3):
        held.step(Synced())
    assert policy.at == [began] * 3
