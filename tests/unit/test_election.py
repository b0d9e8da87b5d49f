"""The extenders' own Lease: one replica leads, another takes over in time, and a stopped replica no longer leads."""

import asyncio
import random
from typing import Any

import pytest

from extender.clock import Clock
from extender.config.sections import LeaseSettings
from extender.kube.api import LEASES, ClusterError, Done, Json, Outcome, Ref, Refused, Unknown
from extender.leading.election import Election, lease_of
from extender.leading.lease import Lease
from tests.stage import HandClock

SETTINGS = LeaseSettings(name="kohort-extender", elect=True)
CHANCE = random.Random(1)


class LeaseApi:
    """A fake API server with one Lease.

    answer: what a patch gets instead of success. lost: whether that patch is carried out all the same.
    """

    def __init__(self) -> None:
        self.spec: Json | None = {}
        self.version = 1
        self.patches: list[Json] = []
        self.answer: Outcome | None = None
        self.lost = False
        self.error: ClusterError | None = None

    async def get(self, ref: Ref) -> Json | None:
        assert ref == Ref(LEASES, "kohort-system", "kohort-extender")
        if self.error is not None:
            raise self.error
        if self.spec is None:
            return None
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": dict(self.spec)}

    async def patch(self, ref: Ref, patch: Json, *, resource_version: str = "", **_: Any) -> Outcome:
        if self.answer is not None and not self.lost:
            return self.answer
        if resource_version != str(self.version):
            return Refused(409, "Conflict", "")
        self.patches.append(patch["spec"])
        self.version += 1
        merged = {**(self.spec or {}), **patch["spec"]}
        self.spec = {key: value for key, value in merged.items() if value is not None}
        return self.answer or Done({})


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1_800_000_100.0)


@pytest.fixture
def api() -> LeaseApi:
    return LeaseApi()


def replica(api: Any, clock: Clock) -> Election:
    return Election(api, SETTINGS, clock, CHANCE)


async def test_the_first_takes_it_and_the_second_follows(api: LeaseApi, clock: HandClock) -> None:
    first, second = replica(api, clock), replica(api, clock)
    assert not first.leading()
    await first.look()
    await second.look()
    assert (first.leading(), second.leading()) == (True, False)
    assert second.holder == first.holder != ""
    (taken,) = api.patches
    assert taken["leaseTransitions"] == 1
    assert taken["acquireTime"] == taken["renewTime"] == "2027-01-15T08:01:40.000000Z"


async def test_the_leader_stays_while_it_renews(api: LeaseApi, clock: HandClock) -> None:
    first, second = replica(api, clock), replica(api, clock)
    for _ in range(30):
        await first.look()
        await second.look()
        assert (first.leading(), second.leading()) == (True, False)
        clock.time += 2
    assert [patch.get("leaseTransitions") for patch in api.patches] == [1] + [None] * 29


async def test_another_takes_over_when_it_is_not_renewed_and_never_both_lead(api: LeaseApi, clock: HandClock) -> None:
    first, second = replica(api, clock), replica(api, clock)
    await first.look()
    story = []
    for _ in range(20):
        await second.look()
        story.append((first.leading(), second.leading()))
        clock.time += 1
    assert (True, True) not in story
    assert story.index((False, True)) == 15, "its whole duration after it was last seen to change"
    assert story[9:15] == [(True, False)] + [(False, False)] * 5, "the former leader stops before"
    await first.look()
    assert not first.leading()
    assert first.holder == second.holder


async def test_whoever_was_stopped_leads_no_more_until_it_has_looked(api: LeaseApi, clock: HandClock) -> None:
    first = replica(api, clock)
    await first.look()
    clock.time += 60
    assert not first.leading()
    await first.look()
    assert first.leading()


async def test_of_two_that_take_it_at_once_one_gets_it(api: LeaseApi, clock: HandClock) -> None:
    first, second = replica(api, clock), replica(api, clock)
    real = api.get

    async def both_read(ref: Ref) -> Json | None:
        found = await real(ref)
        await asyncio.sleep(0)
        return found

    api.get = both_read  # type: ignore[method-assign]
    await asyncio.gather(first.look(), second.look())
    assert first.leading() != second.leading()


@pytest.mark.parametrize(("answer", "lost"), [(Refused(403, "Forbidden", ""), False), (Unknown("lost"), True)])
async def test_an_answer_that_is_no_success_is_none(api: LeaseApi, clock: HandClock, answer: Any, lost: bool) -> None:
    """A patch whose answer was lost may have succeeded: the next look finds this replica in the Lease and renews it."""
    api.answer, api.lost = answer, lost
    first = replica(api, clock)
    await first.look()
    assert not first.leading()
    api.answer = None
    await first.look()
    assert first.leading()


async def test_a_leader_that_goes_leaves_the_lease_free(api: LeaseApi, clock: HandClock) -> None:
    first, second = replica(api, clock), replica(api, clock)
    await first.look()
    await second.look()
    await second.release()
    assert first.leading()
    await first.release()
    assert not first.leading()
    await second.look()
    assert second.leading()


@pytest.mark.parametrize("gone", [True, False], ids=["no such Lease", "unreadable"])
async def test_a_lease_that_cannot_be_used_leads_nobody_and_is_said_once(
    api: LeaseApi, clock: HandClock, gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if gone:
        api.spec = None
    else:
        api.error = ClusterError(403, "Forbidden")
    first = replica(api, clock)
    for _ in range(3):
        await first.look()
    assert not first.leading()
    assert first.error
    assert len(caplog.records) == 1


def test_the_setting_says_which(api: Any, clock: HandClock) -> None:
    assert type(lease_of(api, SETTINGS, clock, CHANCE)) is Election
    assert type(lease_of(api, LeaseSettings(), clock, CHANCE)) is Lease
