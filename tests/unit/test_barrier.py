"""Held binds: a gang is bound together or not at all, and each call is answered for its own pod."""

import asyncio
from typing import Any

import pytest

from extender.barrier import SUPERSEDED, UNKNOWN_OUTCOME
from extender.kube.api import Refused, Unknown
from extender.state.ledger import LedgerStoppedError
from policy.cluster.events import Led, NodeSeen, PodGone, PodSeen, Tick
from policy.cluster.gang import State
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from tests.builders import job, node, pod
from tests.stage import UNREACHABLE, Stage, virtual

A = job("a").ps(1).workers(2)
CONFLICT = Refused(409, "Conflict", "already assigned")
FAILED = Reason.BIND_FAILED.text


def call(stage: Stage, member: Pod, where: str = "", gone: Any = None) -> "asyncio.Task[str]":
    """Start kube-scheduler's bind call of a member; the task's result is the error text, empty if the pod is bound."""
    staying = asyncio.get_running_loop().create_future() if gone is None else gone
    return asyncio.create_task(stage.barrier.hold(member.uid, where or stage.planned(member), staying))


async def later(seconds: float = 0.1) -> None:
    await asyncio.sleep(seconds)


async def whole_gang(stage: Stage) -> tuple[list[Pod], list["asyncio.Task[str]"]]:
    pods = stage.submit(A)
    calls = [call(stage, member) for member in pods]
    await later()
    return pods, calls


@virtual
async def test_nothing_is_bound_before_the_gang_is_complete_and_then_all_at_once() -> None:
    stage = Stage()
    pods = stage.submit(A)
    first = [call(stage, member) for member in pods[:2]]
    await later(5)
    assert (stage.api.bindings, stage.barrier.held, stage.places.held) == ([], 2, 2)
    last = call(stage, pods[2])
    await later()
    assert [task.result() for task in (*first, last)] == ["", "", ""]
    assert sorted(name for name, *_ in stage.api.bindings) == ["a-ps-0", "a-worker-0", "a-worker-1"]
    assert (stage.barrier.held, stage.places.held, stage.gang(A).state) == (0, 0, State.RUNNING)
    assert stage.outcomes == ["done"] * 3


@virtual
async def test_a_binding_names_uid_plan_and_slot() -> None:
    stage = Stage()
    pods, _ = await whole_gang(stage)
    plan = stage.gang(A).plan
    assert plan
    assert stage.api.bindings[0] == (
        "a-ps-0", pods[0].uid, stage.planned(pods[0]), {"kohort.dev/plan": plan, "kohort.dev/slot": "ps-0"},
    )  # fmt: skip


@virtual
async def test_a_pod_that_is_a_gang_of_its_own_has_no_slot_written_down() -> None:
    stage = Stage()
    pods = stage.submit(job("a", kind="Pod").workers(1))
    await call(stage, pods[0])
    ((*_, notes),) = stage.api.bindings
    assert notes.keys() == {"kohort.dev/plan"}


@virtual
async def test_a_binding_says_who_goes_first_where_the_controller_goes_by_cost() -> None:
    stage = Stage()
    pods = stage.submit(job("a", kind="Deployment").workers(2))
    calls = [call(stage, member) for member in pods]
    await later()
    assert [task.result() for task in calls] == ["", ""]
    cost = "controller.kubernetes.io/pod-deletion-cost"
    assert {name: notes.get(cost) for name, *_, notes in stage.api.bindings} == {"a-worker-0": "0", "a-worker-1": "-1"}


@virtual
async def test_who_has_lost_the_lease_binds_nobody_even_before_the_ledger_has_heard_of_it() -> None:
    stage = Stage()
    stage.leads = False
    _, calls = await whole_gang(stage)
    assert [task.result() for task in calls] == [f"{FAILED}: NotLeading"] * 3
    assert (stage.api.bindings, stage.outcomes) == ([], ["refused"] * 3)
    assert stage.gang(A).in_flight == {}


@virtual
async def test_when_the_window_is_over_all_are_refused() -> None:
    stage = Stage(window_seconds=8.0)
    pods = stage.submit(A)
    calls = [call(stage, member) for member in pods[:2]]
    await later(8.1)
    stage.ledger.step(Tick())
    await later()
    assert [task.result() for task in calls] == [Reason.BARRIER_TIMEOUT.text] * 2
    assert (stage.api.bindings, stage.barrier.held, stage.places.held) == ([], 0, 0)
    assert stage.holds == [pytest.approx(8.1, abs=0.1)] * 2, "how long each was held is told"


@virtual
async def test_a_caller_that_hangs_up_no_longer_counts() -> None:
    stage = Stage()
    pods = stage.submit(A)
    hung_up = asyncio.get_running_loop().create_future()
    call(stage, pods[0], gone=hung_up)
    await later()
    hung_up.set_result(None)
    await later()
    assert (stage.barrier.held, stage.places.held) == (0, 0)
    others = [call(stage, member) for member in pods[1:]]
    await later()
    assert (stage.api.bindings, [task.done() for task in others]) == ([], [False, False])
    again = call(stage, pods[0])
    await later()
    assert [task.result() for task in (again, *others)] == ["", "", ""]


@virtual
async def test_callers_that_all_hang_up_at_once_leave_nothing_to_bind() -> None:
    stage = Stage()
    pods = stage.submit(job("a").ps(1).workers(1, 3, asked=3))  # the minimum of this gang is two of its four members
    hung_up = asyncio.Event()
    calls = [call(stage, member, gone=hung_up.wait()) for member in reversed(pods)]
    await asyncio.sleep(0)
    hung_up.set()
    await later()
    assert [task.result() for task in calls] == [Reason.BARRIER_TIMEOUT.text] * 4
    assert (stage.api.bindings, stage.gang(job("a")).held) == ([], {})


@virtual
async def test_a_connection_that_breaks_in_another_way_is_gone_too() -> None:
    stage = Stage()
    pods = stage.submit(A)
    broken = asyncio.get_running_loop().create_future()
    held = call(stage, pods[0], gone=broken)
    await later()
    broken.set_exception(OSError("reset"))
    await later()
    assert (held.done(), stage.barrier.held, dict(stage.gang(A).held)) == (True, 0, {})


@virtual
async def test_a_cancelled_call_is_dropped() -> None:
    stage = Stage()
    pods = stage.submit(A)
    held = call(stage, pods[0])
    await later()
    held.cancel()
    await later()
    assert (stage.barrier.held, stage.places.held, dict(stage.gang(A).held)) == (0, 0, {})


@virtual
async def test_a_caller_that_hangs_up_during_the_binding_does_not_stop_it() -> None:
    stage = Stage()
    stage.api.slow_seconds = 2.0
    pods = stage.submit(A)
    hung_up = asyncio.get_running_loop().create_future()
    calls = [call(stage, pods[0], gone=hung_up), *(call(stage, member) for member in pods[1:])]
    await later(1)
    hung_up.set_result(None)
    await later(2)
    assert [task.result() for task in calls[1:]] == ["", ""]
    assert stage.gang(A).state is State.RUNNING


@virtual
async def test_a_conflict_with_our_own_binding_is_success() -> None:
    stage = Stage()
    pods = stage.submit(A)
    stage.api.answers["a-ps-0"] = CONFLICT
    stage.api.shows(pods[0], stage.planned(pods[0]))
    calls = [call(stage, member) for member in pods]
    await later()
    assert [task.result() for task in calls] == ["", "", ""]
    assert stage.gang(A).state is State.RUNNING


async def conflict(stage: Stage) -> str:
    """Return the answer to the ps's bind call when the API server answers its binding with a conflict."""
    pods = stage.submit(A)
    stage.api.answers["a-ps-0"] = CONFLICT
    calls = [call(stage, member) for member in pods]
    await later()
    assert [task.result() for task in calls[1:]] == ["", ""], "the others are bound all the same"
    return calls[0].result()


@virtual
async def test_a_conflict_over_another_node_is_an_error() -> None:
    stage = Stage()
    stage.api.shows(pod("a-ps-0"), "n9")
    assert await conflict(stage) == f"{FAILED}: Conflict: already assigned"


@virtual
async def test_a_conflict_with_another_pod_of_that_name_is_an_error() -> None:
    stage = Stage("n1")
    stage.api.shows(pod("a-ps-0"), "n1", uid="other")
    assert await conflict(stage) == f"{FAILED}: Conflict: already assigned"


@virtual
async def test_a_conflict_over_a_pod_that_is_not_bound_is_an_error() -> None:
    stage = Stage()
    stage.api.shows(pod("a-ps-0"))
    assert await conflict(stage) == f"{FAILED}: Conflict: already assigned"


@virtual
async def test_a_conflict_over_a_pod_that_is_gone_is_an_error() -> None:
    assert await conflict(Stage()) == f"{FAILED}: Conflict: already assigned"


@virtual
async def test_a_conflict_that_cannot_be_looked_into_is_not_known() -> None:
    stage = Stage()
    stage.api.unreadable = UNREACHABLE
    assert await conflict(stage) == UNKNOWN_OUTCOME
    assert set(stage.gang(A).in_flight) == {"uid-a-ps-0"}


@pytest.mark.parametrize("lost", [Unknown("timed out"), RuntimeError("a bug of the client")], ids=["lost", "fault"])
@virtual
async def test_a_lost_answer_keeps_the_reservation_until_the_watch_decides(lost: Any) -> None:
    stage = Stage()
    pods = stage.submit(A)
    stage.api.answers["a-worker-1"] = lost
    where = stage.planned(pods[2])
    before = stage.ledger.snapshot.free(where)
    calls = [call(stage, member) for member in pods]
    await later()
    assert [task.result() for task in calls] == ["", "", UNKNOWN_OUTCOME]
    assert stage.outcomes == ["done", "done", "unknown"]
    assert (set(stage.gang(A).in_flight), stage.gang(A).state) == ({pods[2].uid}, State.BINDING)
    assert stage.ledger.snapshot.free(where) == before
    bound = pod("a-worker-1", A.done(), pods[2].slot, node=where, version=2)
    stage.ledger.step(PodSeen(bound))
    assert (set(stage.gang(A).in_flight), stage.gang(A).state) == (set(), State.RUNNING)


@pytest.mark.parametrize("landed", [True, False], ids=["made", "never made"])
@virtual
async def test_what_came_of_a_lost_binding_is_read_back_also_if_the_watch_stalls(landed: bool) -> None:
    stage = Stage()
    pods = stage.submit(A)
    stage.api.answers["a-worker-1"] = Unknown("timed out")
    where = stage.planned(pods[2])
    _ = [call(stage, member) for member in pods]
    stage.api.unreadable = UNREACHABLE
    await later(3)
    assert set(stage.gang(A).in_flight) == {pods[2].uid}
    stage.api.unreadable = None
    stage.api.shows(pods[2], node=where if landed else "")
    await later(20)
    assert dict(stage.gang(A).in_flight) == {}
    assert stage.ledger.snapshot.pods[pods[2].uid].node == (where if landed else "")
    assert stage.gang(A).state is (State.RUNNING if landed else State.BINDING)


@pytest.mark.parametrize("landed", [True, False], ids=["made", "never made"])
@virtual
async def test_a_refusal_is_not_the_last_word_about_an_earlier_binding_whose_answer_was_lost(landed: bool) -> None:
    """Simulation seed 100872: a pod's second binding was refused while its first was still in flight."""
    stage = Stage()
    pods = stage.submit(A)
    stage.api.answers["a-worker-1"] = Unknown("timed out")
    where = stage.planned(pods[2])
    before = stage.ledger.snapshot.free(where)
    _ = [call(stage, member) for member in pods]
    await later()
    stage.api.shows(pods[2], node="")
    stage.api.answers["a-worker-1"] = Refused(429, "TooManyRequests", "later")
    again = call(stage, pods[2])
    await later()
    assert again.result().startswith(FAILED)
    stage.ledger.step(Led(False))
    assert (set(stage.gang(A).in_flight), stage.ledger.snapshot.free(where)) == ({pods[2].uid}, before)
    stage.api.shows(pods[2], node=where if landed else "")
    await later(20)
    assert dict(stage.gang(A).in_flight) == {}
    assert stage.ledger.snapshot.pods[pods[2].uid].node == (where if landed else "")


@virtual
async def test_a_refusal_is_not_the_last_word_about_an_earlier_binding_whose_answer_is_still_to_come() -> None:
    """Simulation seed 105740: kube-scheduler gave its bind call up and asked again while the binding was being made."""
    stage = Stage()
    stage.api.slow_seconds = 3.0
    pods, _ = await whole_gang(stage)
    where = stage.planned(pods[2])
    before = stage.ledger.snapshot.free(where)
    stage.api.slow_seconds = 0.0
    stage.api.answers["a-worker-1"] = Refused(403, "Forbidden", "not now")
    again = call(stage, pods[2])
    await later()
    assert again.result().startswith(FAILED)
    assert pods[2].uid in stage.gang(A).in_flight
    assert stage.ledger.snapshot.free(where) == before
    del stage.api.answers["a-worker-1"]
    await later(5)
    assert (stage.gang(A).state, dict(stage.gang(A).in_flight)) == (State.RUNNING, {})
    assert stage.outcomes == ["refused", *["done"] * 3]


@virtual
async def test_two_bindings_of_a_pod_that_are_refused_at_once_leave_nothing_in_flight() -> None:
    stage = Stage()
    stage.api.slow_seconds = 3.0
    stage.api.answers["a-worker-1"] = Refused(403, "Forbidden", "not now")
    pods, _ = await whole_gang(stage)
    again = call(stage, pods[2])
    stage.api.slow_seconds = 2.9
    await later(5)
    assert again.result().startswith(FAILED)
    assert (stage.outcomes.count("refused"), dict(stage.gang(A).in_flight)) == (2, {})


@virtual
async def test_k_of_n_refused_leaves_the_others_bound_and_the_refused_free_to_come_again() -> None:
    stage = Stage()
    pods = stage.submit(A)
    stage.api.answers["a-worker-1"] = Refused(403, "Forbidden", "exceeded quota")
    calls = [call(stage, member) for member in pods]
    await later()
    assert [task.result() for task in calls] == ["", "", f"{FAILED}: Forbidden: exceeded quota"]
    assert (stage.gang(A).state, dict(stage.gang(A).in_flight)) == (State.BINDING, {})
    del stage.api.answers["a-worker-1"]
    again = call(stage, pods[2])
    await later()
    assert (again.result(), stage.gang(A).state) == ("", State.RUNNING)


@virtual
async def test_a_later_call_for_the_same_pod_takes_the_place_of_the_first() -> None:
    stage = Stage(places=2)
    pods = stage.submit(A)
    first, other = call(stage, pods[0]), call(stage, pods[1])
    await later()
    second = call(stage, pods[0])
    await later()
    assert (first.result(), second.done(), other.done()) == (SUPERSEDED, False, False)
    assert (stage.barrier.held, stage.places.held) == (2, 2), "it did not need a place of its own"
    assert set(stage.gang(A).held) == {pods[0].uid, pods[1].uid}


@virtual
async def test_a_later_call_for_another_node_undoes_the_first_check() -> None:
    stage = Stage()
    pods = stage.submit(A)
    first = call(stage, pods[0])
    await later()
    elsewhere = next(name for name in ("n1", "n2") if name != stage.planned(pods[0]))
    second = call(stage, pods[0], elsewhere)
    others = [call(stage, member) for member in pods[1:]]
    await later()
    assert (first.result(), second.result()) == (SUPERSEDED, Reason.PLAN_CHANGED.text)
    assert ([task.done() for task in others], stage.api.bindings) == ([False, False], [])


@virtual
async def test_a_repeated_call_during_the_binding_is_answered_too() -> None:
    stage = Stage()
    stage.api.slow_seconds = 1.0
    pods, calls = await whole_gang(stage)
    again = call(stage, pods[0])
    await later(3)
    assert [task.result() for task in calls[1:]] == ["", ""]
    assert (again.result(), stage.gang(A).state, stage.places.held) == ("", State.RUNNING, 0)


@virtual
async def test_a_call_for_another_node_is_not_told_that_its_pod_is_bound() -> None:
    """Simulation seed 108721: a bind call for another node replaced the call whose binding was just being made.

    The test tries each millisecond, since the second call must come between the sending and the judging of the binding.
    """
    for milliseconds in range(200):
        stage = Stage()
        stage.api.slow_seconds = 0.1
        pods, calls = await whole_gang(stage)
        elsewhere = next(name for name in ("n1", "n2") if name != stage.planned(pods[0]))
        await later(milliseconds / 1000)
        if not calls[0].done():
            other = call(stage, pods[0], elsewhere)
            await later(3)
            assert other.result() == Reason.PLAN_CHANGED.text
        await later(3)
        assert stage.gang(A).state is State.RUNNING


@virtual
async def test_no_more_calls_are_held_than_there_are_places() -> None:
    stage = Stage(places=2)
    _, calls = await whole_gang(stage)
    assert [task.done() for task in calls] == [False, False, True]
    assert calls[2].result() == Reason.BARRIER_FULL.text
    assert stage.api.bindings == []


@virtual
async def test_places_are_free_again_after_every_end() -> None:
    stage = Stage(places=3)
    for name in ("a", "b"):
        pods = stage.submit(job(name).ps(1).workers(2, cpu=1))
        calls = [call(stage, member) for member in pods]
        await later()
        assert [task.result() for task in calls] == ["", "", ""]
    assert stage.places.held == 0


REFUSED: dict[str, tuple[Any, str, Reason]] = {
    "a pod that nobody knows": (pod("stranger"), "n1", Reason.POD_GONE),
    "a pod of another uid": (pod("a-ps-0", uid="uid-older"), "n1", Reason.POD_GONE),
}


@pytest.mark.parametrize(("member", "where", "reason"), REFUSED.values(), ids=REFUSED.keys())
@virtual
async def test_who_is_refused_at_once(member: Pod, where: str, reason: Reason) -> None:
    stage = Stage()
    stage.submit(A)
    assert await call(stage, member, where) == reason.text
    assert (stage.barrier.held, stage.places.held) == (0, 0)


@virtual
async def test_a_node_that_is_not_the_planned_one_is_refused() -> None:
    stage = Stage()
    pods = stage.submit(A)
    assert await call(stage, pods[0], "n9") == Reason.PLAN_CHANGED.text
    assert stage.api.bindings == []


@virtual
async def test_a_pod_that_goes_while_it_is_held_is_refused_and_the_gang_waits_for_its_successor() -> None:
    stage = Stage()
    pods = stage.submit(A)
    calls = [call(stage, member) for member in pods[:2]]
    await later()
    stage.ledger.step(PodGone(pods[0].uid))
    await later()
    assert [task.result() for task in calls] == [Reason.POD_GONE.text, Reason.WAITING_FOR_PODS.text]
    assert stage.api.bindings == []


@virtual
async def test_who_loses_the_lease_refuses_what_it_holds() -> None:
    stage = Stage()
    pods = stage.submit(A)
    held = call(stage, pods[0])
    await later()
    stage.ledger.step(Led(False))
    assert (await held, stage.places.held) == (Reason.NOT_LEADING.text, 0)


@virtual
async def test_a_restarted_member_of_a_running_gang_is_bound_without_a_barrier() -> None:
    stage = Stage()
    pods, _ = await whole_gang(stage)
    new = pod("a-worker-1", A.done(), pods[2].slot, uid="uid-new", since=pods[2].since + 60)
    stage.ledger.step(PodGone(pods[2].uid), PodSeen(new))
    again = call(stage, new)
    await later()
    assert (again.result(), stage.api.bindings[-1][1], len(stage.api.bindings)) == ("", "uid-new", 4)


@virtual
async def test_closing_refuses_what_is_held_and_waits_for_what_is_on_its_way() -> None:
    stage = Stage()
    stage.ledger.step(NodeSeen(node("n3")))
    stage.api.slow_seconds = 3.0
    _, flying = await whole_gang(stage)
    b = job("b").ps(1).workers(1)
    held_pods = stage.submit(b)
    held = call(stage, held_pods[0])
    await later()
    await stage.barrier.close()
    assert (held.result(), [task.result() for task in flying]) == (Reason.NOT_LEADING.text, ["", "", ""])
    assert dict(stage.gang(b).held) == {}
    assert await call(stage, held_pods[1]) == Reason.NOT_LEADING.text
    assert len(stage.api.bindings) == 3, "nothing new is bound after the end"


@virtual
async def test_a_failed_step_frees_the_place_and_is_not_hidden() -> None:
    stage = Stage()
    pods = stage.submit(A)
    where = stage.planned(pods[0])
    stage.ledger.policy = None  # type: ignore[assignment]
    held = [call(stage, member, where) for member in pods[:2]]
    await later()
    with pytest.raises(LedgerStoppedError):
        await call(stage, pods[2], where)
    await stage.barrier.close()
    await later()
    assert [task.result() for task in held] == [Reason.NOT_LEADING.text] * 2
    assert (stage.barrier.held, stage.places.held) == (0, 0)


@virtual
async def test_calls_that_come_at_once_make_one_step() -> None:
    stage = Stage()
    pods = stage.submit(A)
    before = stage.ledger.snapshot.generation
    for member in pods[:2]:
        call(stage, member)
    await later()
    assert (len(stage.gang(A).held), stage.ledger.snapshot.generation - before) == (2, 1)
