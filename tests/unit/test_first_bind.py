"""``barrier.commit: first`` in the service: one call binds a gang, and later calls cause no second write."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from extender.barrier import UNKNOWN_OUTCOME
from extender.kube.api import Done, Refused, Unknown
from policy.cluster.constraints import ANYWHERE
from policy.cluster.events import JobSeen, PodGone, PodSeen
from policy.cluster.gang import State
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from tests.builders import JobBuilder, job, members
from tests.stage import Stage, virtual

A = job("a").ps(1).workers(2)
NAMES = ["a-ps-0", "a-worker-0", "a-worker-1"]
FAILED = Reason.BIND_FAILED.text


def submit(stage: Stage, of: JobBuilder = A) -> list[Pod]:
    """Submit the job and its pods, which may go to any node; return the pods."""
    pods = [replace(one, places=ANYWHERE) for one in members(of.done())]
    stage.ledger.step(JobSeen(of.done()), *(PodSeen(one) for one in pods))
    return pods


def call(stage: Stage, member: Pod, where: str = "") -> asyncio.Task[str]:
    staying = asyncio.get_running_loop().create_future()
    return asyncio.create_task(stage.barrier.hold(member.uid, where or stage.planned(member), staying))


def elsewhere(stage: Stage, member: Pod) -> str:
    return next(name for name in ("n1", "n2") if name != stage.planned(member))


async def later(seconds: float = 0.1) -> None:
    await asyncio.sleep(seconds)


def bound(stage: Stage) -> list[str]:
    return sorted(name for name, *_ in stage.api.bindings)


@virtual
async def test_one_call_binds_the_gang_and_the_step_follows_it_at_once() -> None:
    stage = Stage(commit_first=True)
    pods = submit(stage)
    first = call(stage, pods[1])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bound(stage) == NAMES
    await later()
    assert (first.result(), stage.gang(A).state, stage.barrier.held, stage.places.held) == ("", State.RUNNING, 0, 0)
    plan = stage.ledger.snapshot.pods[pods[0].uid].plan
    assert {notes["kohort.dev/plan"] for *_, notes in stage.api.bindings} == {plan}


@virtual
async def test_who_has_lost_the_lease_binds_nobody() -> None:
    stage = Stage(commit_first=True)
    stage.leads = False
    pods = submit(stage)
    first = call(stage, pods[0])
    await later()
    assert (stage.api.bindings, stage.outcomes) == ([], ["refused"] * 3)
    assert (first.result(), dict(stage.gang(A).in_flight)) == (f"{FAILED}: NotLeading", {})


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.001, 1.01, 1.5, 9.0])
@virtual
async def test_a_later_call_gets_the_outcome_of_the_one_binding(seconds: float) -> None:
    """The later call comes during the binding, right after it, once a step has seen its outcome, or much later."""
    stage = Stage(commit_first=True)
    stage.api.slow_seconds = 1.0
    pods = submit(stage)
    first = call(stage, pods[0])
    await later(0.0)
    await later(seconds)
    again = call(stage, pods[2])
    await later(0.2)
    assert again.done() is (seconds > 0.7)
    await later(2.0)
    assert (first.result(), again.result(), bound(stage)) == ("", "", NAMES)
    assert (stage.api.reads, stage.barrier.held, stage.places.held) == (0, 0, 0)


@pytest.mark.parametrize("seconds", [0.5, 1.5])
@virtual
async def test_a_later_call_for_another_node_is_refused(seconds: float) -> None:
    stage = Stage(commit_first=True)
    stage.api.slow_seconds = 1.0
    pods = submit(stage)
    call(stage, pods[0])
    await later(seconds)
    other = call(stage, pods[2], elsewhere(stage, pods[2]))
    await later(2.0)
    assert (other.result(), bound(stage)) == (Reason.PLAN_CHANGED.text, NAMES)


@virtual
async def test_a_refused_binding_refuses_the_later_call_and_the_next_one_tries_again() -> None:
    stage = Stage(commit_first=True)
    stage.api.slow_seconds = 1.0
    stage.api.answers["a-worker-1"] = Refused(403, "Forbidden", "exceeded quota")
    pods = submit(stage)
    call(stage, pods[0])
    await later(0.5)
    refused = call(stage, pods[2])
    await later(1.0)
    assert (refused.result(), stage.gang(A).state) == (f"{FAILED}: Forbidden: exceeded quota", State.BINDING)
    del stage.api.answers["a-worker-1"]
    again = call(stage, pods[2])
    await later(2.0)
    assert (again.result(), stage.gang(A).state) == ("", State.RUNNING)
    assert bound(stage) == [*NAMES, "a-worker-1"]


@virtual
async def test_a_binding_of_unknown_outcome_is_never_answered_with_success() -> None:
    stage = Stage(commit_first=True)
    stage.api.answers["a-worker-1"] = Unknown("timed out")
    pods = submit(stage)
    call(stage, pods[0])
    await later()
    stage.api.shows(pods[2], node="")
    again = call(stage, pods[2])
    await later()
    assert again.result() == UNKNOWN_OUTCOME
    assert set(stage.gang(A).in_flight) == {pods[2].uid}
    stage.api.shows(pods[2], node=stage.planned(pods[2]))
    await later(20)
    assert (await call(stage, pods[2]), stage.gang(A).state) == ("", State.RUNNING)


@virtual
async def test_a_member_that_is_gone_is_not_answered_from_memory() -> None:
    stage = Stage(commit_first=True)
    pods = submit(stage)
    where = stage.planned(pods[2])
    call(stage, pods[0])
    await later()
    stage.ledger.step(PodGone(pods[2].uid))
    again = call(stage, pods[2], where)
    await later()
    assert again.result() == Reason.POD_GONE.text


@virtual
async def test_members_that_nobody_asked_for_get_the_event_that_kube_scheduler_would_write() -> None:
    """Only members without a bind call get Kohort's Event; kube-scheduler writes it for the others."""
    stage, told = Stage(commit_first=True), list[dict[str, Any]]()

    async def create_event(namespace: str, event: dict[str, Any]) -> Done:
        assert namespace == "team"
        told.append(event)
        return Done({})

    stage.api.create_event = create_event  # type: ignore[method-assign, assignment]
    writing = asyncio.create_task(stage.barrier.events.run())
    pods = submit(stage)
    where = stage.planned(pods[1])
    call(stage, pods[0])
    await later(1.5)
    call(stage, pods[2])
    assert told == []
    await later(10.0)
    (event,) = told
    assert (event["reason"], event["type"], event["action"]) == ("Scheduled", "Normal", "Binding")
    assert event["note"] == f"Successfully assigned team/a-worker-0 to {where}"
    assert event["regarding"]["uid"] == pods[1].uid
    writing.cancel()


@pytest.mark.parametrize("seconds", [0.5, 1.5])
@virtual
async def test_a_call_for_another_node_does_not_replace_the_event(seconds: float) -> None:
    """kube-scheduler writes no Event for a bind call that is refused, whether it comes before the binding or after."""
    stage = Stage(commit_first=True)
    stage.api.slow_seconds = 1.0
    pods = submit(stage)
    call(stage, pods[0])
    await later(seconds)
    other = call(stage, pods[2], elsewhere(stage, pods[2]))
    await later(2.0)
    assert other.result() == Reason.PLAN_CHANGED.text
    assert set(stage.barrier.events._due) == {pods[1].uid, pods[2].uid}


@virtual
async def test_with_the_barrier_kube_scheduler_tells_of_every_binding() -> None:
    stage = Stage()
    pods = submit(stage)
    calls = [call(stage, one) for one in pods]
    await later()
    assert ([one.result() for one in calls], stage.barrier.events._due) == (["", "", ""], {})


@virtual
async def test_an_ineligible_gang_is_held_and_its_repeated_calls_are_too() -> None:
    stage = Stage(commit_first=True)
    pods = submit(stage)
    stage.ledger.step(PodSeen(replace(pods[2], unchecked=("volumes",), version=2)))
    first = call(stage, pods[0])
    await later(1.0)
    assert (first.done(), bound(stage)) == (False, [])
    others = [call(stage, one) for one in pods[1:]]
    await later()
    assert ([one.result() for one in (first, *others)], bound(stage)) == (["", "", ""], NAMES)
