"""The reflector: whole lists, resumed watches, relists that report deleted objects, and retries that do not spin."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from extender.clock import Clock
from extender.kube.api import PODS, TFJOBS, ClusterError, Json, Resource
from extender.kube.reflector import Reflector
from extender.kube.watchbatch import ReflectorTimes, WatchBatch
from tests.stage import virtual

TIMES = ReflectorTimes(
    watch_seconds=(30, 45), stall_seconds=50, backoff_seconds=1, backoff_cap_seconds=16, missing_seconds=20
)


class VirtualClock(Clock):
    """A clock whose time passes only in sleeps and in time-outs that run out; `slept` has the sleeps in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(0.01)  # a script that hangs never continues, so a short real time-out will do


Script = list[Any]
"""Answers in order. Of a list: pages, errors. Of a watch: groups of events, seconds, what is awaited, HANG, errors."""
HANG = object()


class FakeApi:
    """A fake API that answers lists and watches from scripts; it raises StoppedError when a script is used up.

    asked: the requests that were made.
    """

    def __init__(self, clock: VirtualClock, lists: list[Script], watches: list[Script]) -> None:
        self.clock = clock
        self.lists = lists
        self.watches = watches
        self.asked: list[str] = []

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        self.asked.append("list")
        for page in self._next(self.lists):
            if isinstance(page, Exception):
                raise page
            yield page

    async def watch(self, resource: Resource, version: str, timeout: float) -> AsyncGenerator[list[Json], None]:
        assert 30 <= timeout <= 45
        self.asked.append(f"watch {version}")
        yield []
        for step in self._next(self.watches):
            if isinstance(step, Exception):
                raise step
            if step is HANG:
                await asyncio.Event().wait()
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, int | float):
                self.clock.time += step
            else:
                yield step

    @staticmethod
    def _next(scripts: list[Script]) -> Script:
        if not scripts:
            raise StoppedError
        return scripts.pop(0)


class StoppedError(Exception):
    """Raised when a script is used up, which ends the test."""


def pod(name: str, version: int, uid: str = "") -> Json:
    return {"metadata": {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}}


def event(kind: str, item: object) -> Json:
    return {"type": kind, "object": item}


def bookmark(version: int) -> Json:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def gone(name: str, uid: str = "") -> Json:
    return event("DELETED", {"metadata": {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}})


class Run:
    """One run of a reflector over scripts."""

    def __init__(
        self, lists: list[Script], watches: list[Script], resource: Resource = PODS, optional: bool = False
    ) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock, lists, watches)
        self.batches: list[WatchBatch] = []
        # a reflector needs no writes, which the protocol also demands
        self.reflector = Reflector(self.api, resource, self.clock, random.Random(4), TIMES, optional)  # type: ignore[arg-type]

    async def until_stopped(self, deliver: Callable[[WatchBatch], None] | None = None) -> "Run":
        with pytest.raises(StoppedError):
            await self.reflector.run(deliver or self.batches.append)
        return self

    @property
    def told(self) -> list[tuple[str, list[Json], str]]:
        return [(batch.kind, batch.events, batch.resource_version) for batch in self.batches]


GONE = ClusterError(410, "Expired")


@virtual
async def test_pages_are_told_one_by_one_then_their_end_then_changes_in_order() -> None:
    a, b, c = pod("a", 1), pod("b", 2), pod("c", 11)
    lists: list[Script] = [[([a], "10"), ([b], "10")]]
    watches: list[Script] = [
        [[event("ADDED", c), event("DELETED", pod("a", 12))], 40.0, [bookmark(20), event("MODIFIED", pod("b", 21))]]
    ]
    run = await Run(lists, watches).until_stopped()
    assert run.told == [
        ("page", [event("ADDED", a)], "10"),
        ("page", [event("ADDED", b)], "10"),
        ("end", [], "10"),
        ("changes", [event("ADDED", c), event("DELETED", pod("a", 12))], "12"),
        ("changes", [event("MODIFIED", pod("b", 21))], "21"),
    ]
    assert run.api.asked == ["list", "watch 10", "watch 21"]
    assert run.reflector.synced
    assert run.clock.slept == []


@virtual
async def test_a_quiet_watch_resumes_from_its_bookmark_without_a_list() -> None:
    run = await Run([[([], "10")]], [[30.0, [bookmark(99)]], [35.0]]).until_stopped()
    assert run.api.asked == ["list", "watch 10", "watch 99", "watch 99"]
    assert run.told == [("end", [], "10")]
    assert run.reflector.last_seen == 65.0


EXPIRED: dict[str, Script] = {
    "as a status": [GONE],
    "as an event": [[event("ADDED", pod("c", 12)), event("ERROR", {"code": 410, "reason": "Expired"})]],
    "as an event that says nothing": [[event("ADDED", pod("c", 12)), event("ERROR", None)]],
}


@pytest.mark.parametrize("expired", EXPIRED.values(), ids=EXPIRED.keys())
@virtual
async def test_an_expired_version_is_listed_again_and_what_vanished_is_told(expired: Script) -> None:
    before: Script = [([pod("a", 1), pod("b", 2), pod("d", 3, "old")], "10")]
    after: Script = [([pod("b", 2), pod("d", 30, "new")], "40")]
    run = await Run([before, after], [[[event("ADDED", pod("c", 11))], *expired]]).until_stopped()
    assert run.api.asked == ["list", "watch 10", "list", "watch 40"]
    assert run.told[-2:] == [
        ("page", [event("MODIFIED", pod("b", 2)), gone("d", "old"), event("ADDED", pod("d", 30, "new"))], "40"),
        ("end", [gone("a"), gone("c")], "40"),
    ]
    assert run.batches[-1].listed == {"uid-b", "new"}


@virtual
async def test_events_before_an_error_are_not_lost() -> None:
    error = event("ERROR", {"code": 500})
    events = [event("ADDED", pod("a", 5)), error, event("ADDED", pod("b", 6))]
    run = await Run([[([], "1")]], [[events]]).until_stopped()
    assert run.told[1:] == [("changes", [event("ADDED", pod("a", 5))], "5")]
    assert run.api.asked == ["list", "watch 1", "watch 5"]


TRANSIENT = {
    "connection lost": ClusterError(0, "Disconnected"),
    "busy": ClusterError(429, "TooManyRequests"),
    "server error": ClusterError(500, "InternalError"),
}


@pytest.mark.parametrize("error", TRANSIENT.values(), ids=TRANSIENT.keys())
@virtual
async def test_a_passing_failure_resumes_without_a_list(error: ClusterError) -> None:
    run = await Run([[([], "1")]], [[5.0, [bookmark(7)], error]]).until_stopped()
    assert run.api.asked == ["list", "watch 1", "watch 7"]


@virtual
async def test_a_server_that_fails_on_our_version_for_ever_is_asked_for_a_list() -> None:
    broken: list[Script] = [[ClusterError(500, "InternalError")] for _ in range(6)]
    run = await Run([[([], "1")], [([], "2")]], broken).until_stopped()
    assert run.api.asked == ["list", *["watch 1"] * 6, "list", "watch 2"]


@virtual
async def test_a_stalled_watch_is_dropped_and_resumed() -> None:
    run = await Run([[([], "1")]], [[5.0, [bookmark(7)], HANG]]).until_stopped()
    assert run.api.asked == ["list", "watch 1", "watch 7"]
    assert "Stalled" in run.reflector.last_error


FAILING: dict[str, tuple[list[Script], list[Script]]] = {
    "lists fail": ([[ClusterError(500, "InternalError")] for _ in range(40)], []),
    "nobody answers": ([[ClusterError(0, "Unreachable")] for _ in range(40)], []),
    "each watch ends at once": ([[([], "1")]], [[] for _ in range(40)]),
    "each watch brings one event and ends": ([[([], "1")]], [[[event("ADDED", pod("a", 2))]] for _ in range(40)]),
    "each version is expired": ([[([], "1")] for _ in range(41)], [[GONE] for _ in range(40)]),
}


@pytest.mark.parametrize(("lists", "watches"), FAILING.values(), ids=FAILING.keys())
@virtual
async def test_failures_back_off_with_jitter_up_to_the_cap(lists: list[Script], watches: list[Script]) -> None:
    run = await Run(lists, watches).until_stopped()
    slept = run.clock.slept
    assert len(slept) == 40
    assert all(pause <= min(16, 2.0**i) for i, pause in enumerate(slept))
    # The pauses are about half of the cap on average: full jitter, and no spinning.
    assert 4 < sum(slept[8:]) / len(slept[8:]) < 12
    assert len(set(slept)) == 40


@virtual
async def test_a_good_watch_starts_back_off_anew() -> None:
    failing: list[Script] = [[ClusterError(0, "Disconnected")] for _ in range(10)]
    good: Script = [2.0, [bookmark(7)], ClusterError(0, "Disconnected")]
    run = await Run([[([], "1")]], [*failing, good]).until_stopped()
    assert max(run.clock.slept[:10]) > 2
    assert run.clock.slept[10] <= 1


@virtual
async def test_retry_after_is_honoured() -> None:
    run = await Run([[ClusterError(429, "TooManyRequests", retry_after=25.0)]], []).until_stopped()
    assert run.clock.slept == [25.0]


@virtual
async def test_what_a_broken_list_has_told_is_taken_back_by_the_next_one() -> None:
    run = await Run([[([pod("a", 1)], "10"), GONE], [([pod("b", 1)], "12")]], []).until_stopped()
    assert run.told == [
        ("page", [event("ADDED", pod("a", 1))], "10"),
        ("page", [event("ADDED", pod("b", 1))], "12"),
        ("end", [gone("a")], "12"),
    ]


@virtual
async def test_a_broken_list_syncs_nothing() -> None:
    run = await Run([[([pod("a", 1)], "10"), ClusterError(403, "Forbidden")]], []).until_stopped()
    assert (run.reflector.synced, [kind for kind, _, _ in run.told]) == (False, ["page"])


@virtual
async def test_no_page_is_asked_for_before_the_last_one_is_taken() -> None:
    """Otherwise the list of a large cluster would be held in memory as a whole."""
    held: list[str] = []

    class Paged(FakeApi):
        async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
            async for page in super().list_pages(resource):
                yield page
                held.append("asked for more")

    run = Run([[([pod("a", 1)], "10"), ([pod("b", 1)], "10")]], [])
    api = Paged(run.clock, run.api.lists, [])
    reflector = Reflector(api, PODS, run.clock, random.Random(4), TIMES)  # type: ignore[arg-type]
    with pytest.raises(StoppedError):
        await reflector.run(lambda batch: held.append(batch.kind))
    assert held == ["page", "asked for more", "page", "asked for more", "end"]


@virtual
async def test_a_missing_resource_is_quiet_and_picked_up_when_it_appears() -> None:
    missing: Script = [ClusterError(404, "NotFound")]
    run = Run([missing, missing, [([pod("j", 1)], "3")]], [], TFJOBS, optional=True)
    await run.until_stopped()
    assert run.told == [("end", [], ""), ("page", [event("ADDED", pod("j", 1))], "3"), ("end", [], "3")]
    assert (run.reflector.synced, run.reflector.restarts, run.reflector.last_error) == (True, 0, "")
    assert all(10 <= pause <= 20 for pause in run.clock.slept)


@virtual
async def test_a_resource_that_is_removed_empties() -> None:
    missing: Script = [ClusterError(404, "NotFound")]
    run = await Run([[([pod("j", 1)], "3")], missing], [missing], TFJOBS, optional=True).until_stopped()
    assert run.told[2:] == [("end", [gone("j")], "")]


@virtual
async def test_pods_are_not_gone_because_somebody_does_not_find_their_api() -> None:
    """A load balancer without a backend may answer 404, so the known pods stay and the list is asked for again."""
    missing: Script = [ClusterError(404, "NotFound")]
    run = await Run([[([pod("a", 1)], "3")], missing, [([pod("a", 1)], "4")]], [missing]).until_stopped()
    assert [item for kind, events, _ in run.told for item in events if item["type"] == "DELETED"] == []
    assert run.told[-1] == ("end", [], "4")
    assert run.reflector.restarts == 2


@virtual
async def test_not_synced_before_the_first_list_or_while_it_is_forbidden() -> None:
    run = await Run([[ClusterError(403, "Forbidden")] for _ in range(3)], []).until_stopped()
    assert (run.reflector.synced, run.reflector.restarts, run.told) == (False, 3, [])


FORBIDDEN: Script = [ClusterError(403, "Forbidden")]


@virtual
async def test_an_optional_resource_that_is_forbidden_is_left_out_after_a_while_and_taken_up_with_the_right() -> None:
    run = Run([*[FORBIDDEN] * 30, [([pod("j", 1)], "3")]], [[HANG]], TFJOBS, optional=True)
    seen: list[tuple[float, bool]] = []

    def deliver(batch: WatchBatch) -> None:
        run.batches.append(batch)
        seen.append((run.clock.time, run.reflector.forbidden))

    await run.until_stopped(deliver)
    assert run.told == [("end", [], ""), ("page", [event("ADDED", pod("j", 1))], "3"), ("end", [], "3")]
    assert 10 <= seen[0][0] < 30, "not at once: the API server's caches may be late"
    assert [forbidden for _, forbidden in seen] == [True] * 3
    assert not run.reflector.forbidden, "the watch was accepted"


@virtual
async def test_what_was_read_before_the_right_was_taken_away_stays_known() -> None:
    run = Run([[([pod("j", 1)], "3")], *[FORBIDDEN] * 20], [FORBIDDEN], TFJOBS, optional=True)
    await run.until_stopped()
    assert run.told == [("page", [event("ADDED", pod("j", 1))], "3"), ("end", [], "3")]
    assert (run.reflector.forbidden, run.reflector.last_seen) == (True, run.clock.time - run.clock.slept[-1])


class PatientClock(VirtualClock):
    """A clock on which a silent watch does not time out."""

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(seconds)


async def asked_anew(run: Run, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Let the reflector wait in its watch, ask for a new list at once after ``meanwhile``, and run it to the scripts'
    end.
    """
    run.reflector._clock = PatientClock()
    listed = asyncio.Event()

    def deliver(batch: WatchBatch) -> None:
        run.batches.append(batch)
        listed.set()

    task = asyncio.create_task(run.reflector.run(deliver))
    async with asyncio.timeout(20):
        await listed.wait()
        await asyncio.sleep(5)  # the watch waits for an event that never comes
        assert run.api.asked == ["list", "watch 10"]
        meanwhile()
        run.reflector.refresh()
        assert not run.reflector.fresh
        with pytest.raises(StoppedError):
            await task
    assert run.api.asked == ["list", "watch 10", "list", "watch 20"]
    assert run.reflector.fresh


@virtual
async def test_a_list_that_is_asked_for_does_not_wait_for_a_silent_watch() -> None:
    run = Run([[([pod("a", 1)], "10")], [([pod("a", 11)], "20")]], [[HANG]])
    await asked_anew(run)
    assert run.told[2:] == [("page", [event("MODIFIED", pod("a", 11))], "20"), ("end", [], "20")]


@virtual
async def test_a_list_that_is_asked_for_as_an_event_comes_does_not_wait_for_the_next_one() -> None:
    arrived = asyncio.Event()
    run = Run([[([pod("a", 1)], "10")], [([pod("a", 12)], "20")]], [[arrived, [event("MODIFIED", pod("a", 11))], HANG]])
    await asked_anew(run, meanwhile=arrived.set)
    assert run.told[2][0] == "changes"


@virtual
async def test_a_list_that_was_on_its_way_is_not_the_one_that_is_asked_for() -> None:
    run = Run([[([pod("a", 1)], "10")], [([pod("a", 11)], "20")]], [])
    fresh: list[bool] = []

    def deliver(batch: WatchBatch) -> None:
        if batch.resource_version == "10" and batch.kind == "page":
            run.reflector.refresh()
        fresh.append(run.reflector.fresh)

    await run.until_stopped(deliver)
    assert run.api.asked == ["list", "list", "watch 20"]
    assert fresh == [False, False, False, True]


@virtual
async def test_what_does_not_exist_is_read_and_what_may_not_be_read_is_left_out() -> None:
    """The service does not wait for a list of a resource that does not exist or that it may not read."""
    missing: Script = [ClusterError(404, "NotFound")]
    for scripts in ([missing], [FORBIDDEN] * 20):
        run = Run(scripts, [], TFJOBS, optional=True)
        run.reflector.refresh()
        fresh: list[bool] = []
        await run.until_stopped(lambda batch, run=run, fresh=fresh: fresh.append(run.reflector.fresh))  # type: ignore[misc]
        assert fresh == [True]
        run.reflector.refresh()
        assert run.reflector.fresh


JUNK: list[Any] = [None, 7, "x", [], {}, {"metadata": None}, {"metadata": []}, {"metadata": {"name": ""}}]


@virtual
async def test_malformed_objects_are_dropped_and_counted_and_the_rest_goes_on() -> None:
    junk_events = [event("ADDED", item) for item in JUNK] + [{}, event("STRANGE", pod("s", 5)), {"type": None}]
    run = await Run([[([*JUNK, pod("a", 1)], "10")]], [[[*junk_events, event("ADDED", pod("b", 11))]]]).until_stopped()
    assert run.told == [
        ("page", [event("ADDED", pod("a", 1))], "10"),
        ("end", [], "10"),
        ("changes", [event("ADDED", pod("b", 11))], "11"),
    ]
    assert run.reflector.dropped >= 2 * len(JUNK)


@virtual
async def test_a_fault_of_the_consumer_is_not_swallowed() -> None:
    def broken(_: WatchBatch) -> None:
        raise RuntimeError("invariant")

    with pytest.raises(RuntimeError, match="invariant"):
        await Run([[([], "1")]], []).reflector.run(broken)


@virtual
async def test_clock_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("extender.clock.time", SimpleNamespace(time=loop.time, monotonic=loop.time))
    clock, began = Clock(speed=200), loop.time()
    before = clock.monotonic(), clock.now()
    await clock.sleep(2.0)
    assert loop.time() - began == pytest.approx(0.01)
    assert clock.monotonic() - before[0] == pytest.approx(2.0)
    assert clock.now() - before[1] == pytest.approx(2.0)
    with pytest.raises(TimeoutError):
        async with clock.timeout(2.0):
            await asyncio.sleep(1)
    assert loop.time() - began == pytest.approx(0.02)
    with pytest.raises(ValueError, match="speed"):
        Clock(speed=0)
