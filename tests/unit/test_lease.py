"""Leadership: by the scheduler's Lease, judged by our own monotonic clock, and never longer than its renew deadline."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from extender.clock import Clock
from extender.config.sections import LeaseSettings
from extender.kube.api import LEASES, Api, ClusterError, Json, Ref
from extender.leading.lease import Lease
from tests.stage import HandClock


class LeaseApi:
    """A fake API server that answers with a Lease or an error after ``slow`` seconds."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.spec: Json | None = None
        self.error: ClusterError | None = None
        self.slow = 0.0
        self.asked: list[Ref] = []

    async def get(self, ref: Ref) -> Json | None:
        self.asked.append(ref)
        self.clock.time += self.slow
        if self.error:
            raise self.error
        return None if self.spec is None else {"spec": self.spec}


def held(holder: str = "node-a_1234", renewed: str = "t1", **others: Any) -> Json:
    return {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15, **others}


@pytest.fixture
def clock() -> HandClock:
    return HandClock(100.0)


@pytest.fixture
def api(clock: HandClock) -> LeaseApi:
    return LeaseApi(clock)


def lease_of(api: Any, clock: Clock, identity: str = "node-a") -> Lease:
    fake: Api = api
    return Lease(fake, LeaseSettings(identity=identity), clock)


async def renewed(lease: Lease, api: LeaseApi, holder: str = "node-a_1234") -> None:
    """Look at the Lease twice, with a renewal by that holder between the looks."""
    for moment in ("t0", "t1"):
        api.spec = held(holder, moment)
        await lease.look()


HOLDERS = {
    "our scheduler": ("node-a_1234", True),
    "another host": ("node-b_1234", False),
    "a host whose name begins like ours": ("node-ab_1234", False),
    "our name without a scheduler's id": ("node-a", False),
    "nobody": ("", False),
}


@pytest.mark.parametrize(("holder", "leads"), HOLDERS.values(), ids=HOLDERS.keys())
async def test_we_lead_while_the_scheduler_beside_us_holds_the_lease(
    api: LeaseApi, clock: HandClock, holder: str, leads: bool
) -> None:
    lease = lease_of(api, clock)
    assert not lease.leading()
    await renewed(lease, api, holder)
    assert lease.leading() is leads
    assert set(api.asked) == {Ref(LEASES, "kohort-system", "kohort-scheduler")}


async def test_the_first_look_proves_nothing_for_the_renewal_may_be_old(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    api.spec = held()
    await lease.look()
    assert not lease.leading()


async def test_a_renewal_may_be_as_old_as_the_look_before(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    api.spec = held(renewed="t0")
    await lease.look()
    clock.time += 6  # for six seconds no look has had an answer
    api.spec = held(renewed="t1")
    await lease.look()
    clock.time += 3.9
    assert lease.leading()
    clock.time += 0.2
    assert not lease.leading()


async def test_a_lease_that_is_not_there_leads_nobody(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    await lease.look()
    assert not lease.leading()


async def test_leadership_ends_at_the_renew_deadline_without_a_further_look(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    await renewed(lease, api)
    clock.time += 9.9
    assert lease.leading()
    clock.time += 0.2
    assert not lease.leading()


async def test_a_lease_that_is_not_renewed_is_not_prolonged_by_looking(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    api.spec = held(renewed="t1")
    for _ in range(6):
        await lease.look()
        clock.time += 2
    assert not lease.leading()
    api.spec = held(renewed="t2")
    await lease.look()
    assert lease.leading()


async def test_a_slow_answer_counts_from_the_question(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    await lease.look()
    api.spec, api.slow = held(), 11.0
    await lease.look()
    assert not lease.leading()


async def test_an_api_server_out_of_reach_ends_leadership_only_in_time(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    await renewed(lease, api)
    api.error = ClusterError(0, "Timeout")
    clock.time += 5
    await lease.look()
    assert lease.leading()
    clock.time += 6
    assert not lease.leading()


@pytest.mark.parametrize("duration", [None, "15", True, 0, -1])
async def test_a_duration_that_cannot_be_used_counts_as_kubernetes_default(
    api: LeaseApi, clock: HandClock, duration: object
) -> None:
    lease = lease_of(api, clock)
    for moment in ("t0", "t1"):
        api.spec = held(renewed=moment, leaseDurationSeconds=duration)
        await lease.look()
    clock.time += 9.9
    assert lease.leading()
    clock.time += 0.2
    assert not lease.leading()


async def test_the_star_always_leads_and_asks_nobody(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock, "*")
    await lease.look()
    assert lease.leading()
    assert api.asked == []


async def test_who_listens_is_told_at_the_start_and_at_each_change_once(api: LeaseApi, clock: HandClock) -> None:
    lease, told = lease_of(api, clock), list[bool]()
    running = asyncio.create_task(lease.run(told.append))
    await asyncio.sleep(0)
    api.spec = held()
    for _ in range(60):
        await asyncio.sleep(0)
    # the replica leads when the scheduler's Lease is held, and no longer when it is not renewed
    assert told == [False, True, False]
    api.spec = held(renewed="t2")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    assert told == [False, True, False, True]


# -- The tests below are about how often a follower reads the Lease. ---------------------------------


async def watched(lease: Lease, api: LeaseApi, clock: HandClock, until: float) -> list[float]:
    """Return the times at which the running loop looked at the Lease until the given time."""
    looks = list[float]()
    running = asyncio.create_task(lease.run())
    while clock.time < until:
        before = len(api.asked)
        await asyncio.sleep(0)
        if len(api.asked) > before:
            looks.append(clock.time)
    running.cancel()
    return looks


async def test_a_follower_looks_seldom_while_the_leader_renews_and_often_once_its_lease_has_run_out(
    api: LeaseApi, clock: HandClock
) -> None:
    lease = lease_of(api, clock)
    await renewed(lease, api, "node-b_1234")  # the holder renews at 100 s and never again
    looks = await watched(lease, api, clock, 140)
    pauses = [(at, round(later - at, 3)) for at, later in pairwise(looks)]
    assert max(pause for at, pause in pauses if at < 110) == 2.0
    assert max(pause for at, pause in pauses if 110 <= at < 115) == 0.5
    assert max(pause for at, pause in pauses if 115 <= at < 130) == 0.1
    assert max(pause for at, pause in pauses if at > 131) == 0.5


async def test_a_call_of_the_scheduler_beside_us_tells_that_it_leads(api: LeaseApi, clock: HandClock) -> None:
    lease, told = lease_of(api, clock), list[bool]()
    await renewed(lease, api, "node-b_1234")
    running = asyncio.create_task(lease.run(told.append))
    await asyncio.sleep(0)
    running.cancel()  # stops the loop between two looks
    api.spec, clock.time = held(renewed="t9"), clock.time + 1
    await lease.on_scheduler_call()
    assert told == [False, True]
    assert lease.leading()


async def test_calls_of_a_scheduler_that_does_not_lead_do_not_flood_the_api_server(
    api: LeaseApi, clock: HandClock
) -> None:
    lease = lease_of(api, clock)
    await renewed(lease, api, "node-b_1234")
    looks = len(api.asked)
    for _ in range(100):
        clock.time += 0.01
        await lease.on_scheduler_call()
    assert 5 <= len(api.asked) - looks <= 10


async def test_a_leader_answers_its_scheduler_without_a_look(api: LeaseApi, clock: HandClock) -> None:
    lease = lease_of(api, clock)
    await renewed(lease, api)
    looks = len(api.asked)
    clock.time += 1
    await lease.on_scheduler_call()
    assert len(api.asked) == looks


class Slow(LeaseApi):
    """A fake API server that lets other tasks run before it answers."""

    at_once = most = 0

    async def get(self, ref: Ref) -> Json | None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        for _ in range(3):  # so that another check that is started meanwhile would ask at the same time
            await asyncio.sleep(0)
        self.at_once -= 1
        return await super().get(ref)


async def test_an_answer_never_overtakes_the_one_before(clock: HandClock) -> None:
    """With two looks at once, the older answer could be read last and count as a renewal."""
    slow = Slow(clock)
    lease = lease_of(slow, clock)
    await asyncio.gather(*(lease.check() for _ in range(3)))
    assert slow.most == 1


async def test_all_who_ask_during_one_look_share_the_next_and_none_an_older_one(clock: HandClock) -> None:
    slow = Slow(clock)
    lease = lease_of(slow, clock)
    first = asyncio.create_task(lease.check())
    await asyncio.sleep(0)
    assert slow.at_once == 1
    others = [asyncio.create_task(lease.check()) for _ in range(30)]
    await asyncio.gather(first, *others)
    assert len(slow.asked) == 2
    await lease.check()
    assert len(slow.asked) == 3


async def test_a_look_that_was_cut_off_is_shared_by_nobody(clock: HandClock) -> None:
    slow = Slow(clock)
    lease = lease_of(slow, clock)
    first, cut, last = (asyncio.create_task(lease.check()) for _ in range(3))
    await first
    await asyncio.sleep(0)
    assert slow.at_once == 1  # this request is the second check's
    cut.cancel()
    await asyncio.gather(cut, last, return_exceptions=True)
    assert len(slow.asked) == 2  # the first and the last check have asked
