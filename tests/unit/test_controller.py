"""The controller: orders become writes with preconditions, once, in order, at a rate, and only while it leads."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from extender.clock import Clock
from extender.config.settings import Settings
from extender.control.callkinds import (
    MarkScheduled,
    Nominate,
    Note,
    Release,
    Renumber,
    SetGate,
    SetReplicas,
    Suspend,
    Ungate,
    Wake,
)
from extender.control.calls import calls, perform
from extender.control.controller import Controller
from extender.control.extenderrest import ExtenderError
from extender.control.jobevents import DecisionEvents, WaitingEvents
from extender.control.ratelimit import EventQuota, RateLimit
from extender.kube.api import CONFIGMAPS, PODS, TFJOBS, ClusterError, Done, Json, Outcome, Ref, Refused
from extender.kube.jobkinds import GATE, LEADER, RELEASED
from extender.present.views.base import JobName
from extender.present.views.decisions import DecisionsView, DecisionView
from extender.present.views.jobs import QueuedJob, QueueView
from extender.present.views.orders import DesiredView
from extender.present.views.refused import RefusedBody, RefusedWritesBody
from policy.answers.change import Kind
from policy.answers.explanation import ProvedChange, Waits
from policy.cluster.orders import NoteOrder, PodOrder, ReplicaOrder, SuspendOrder
from tests.stage import VirtualClock, virtual
from tests.unasked import Unasked

GATE_MAP = Ref(CONFIGMAPS, "kohort-system", "kohort-gate")
CONFLICT = Refused(409, "Conflict", "changed")
FORBIDDEN = Refused(403, "Forbidden", "no")


class FakeApi(Unasked):
    """Keeps objects and what was written; ``answers`` has the outcome of each write by its name, by default done."""

    def __init__(self) -> None:
        self.objects: dict[Ref, Json] = {}
        self.written: list[Any] = []
        self.answers: dict[str, Outcome] = {}
        self.unreadable = False
        self.slow_seconds = 0.0
        self.most_at_once = 0
        self._now = 0

    async def get(self, ref: Ref) -> Json | None:
        if self.unreadable:
            raise ClusterError(500, "InternalError")
        return self.objects.get(ref)

    async def patch(
        self,
        ref: Ref,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: str = "merge",
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Outcome:
        if kind == "json" and not subresource:
            return await self._json_patch(ref, list(patch), uid)
        return await self._write(ref.name, ("patch", ref, patch, subresource, uid, resource_version))

    async def _json_patch(self, ref: Ref, patch: list[Any], uid: str) -> Outcome:
        """Apply a JSON patch that tests and removes one scheduling gate, as far as RFC 6902 is needed for that."""
        test, remove = patch
        gates = self.objects.get(ref, {}).get("spec", {}).get("schedulingGates", [])
        index = int(remove["path"].rsplit("/", 1)[1])
        assert test["path"] == f"/spec/schedulingGates/{index}/name"
        if self.objects[ref]["metadata"]["uid"] != uid or [g["name"] for g in gates[index : index + 1]] != [GATE]:
            return Refused(422, "Invalid", "test failed")
        del gates[index]
        return await self._write(ref.name, ("ungate", ref.name))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        return await self._write(name, ("delete", namespace, name, uid))

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        return await self._write(name, ("evict", namespace, name, uid))

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        return await self._write("event", ("event", namespace, event["reason"], event["regarding"]["name"]))

    async def _write(self, name: str, what: Any) -> Outcome:
        self.written.append(what)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(self.slow_seconds)
        self._now -= 1
        return self.answers.get(name, Done({}))


class FakeExtender:
    """A fake extender that returns the answers set by the test; a long poll is answered at once if there is news."""

    def __init__(self) -> None:
        self.desired = orders()
        self.decisions = DecisionsView(instance="one", latest=0, decisions=())
        self.queue = QueueView(generation=1, gated_pods=0, jobs=())
        self.down = False
        self.asked = 0
        self.told: list[tuple[RefusedBody, ...]] = []
        self._new = asyncio.Event()

    def want(self, desired: DesiredView) -> None:
        self.desired = desired.model_copy(update={"generation": self.desired.generation + 1})
        self._new.set()

    async def tell(self, path: str, body: bytes, seconds: float) -> None:
        if self.down:
            raise ExtenderError("connection refused")
        self.told.append(RefusedWritesBody.model_validate_json(body).refused)

    async def fetch(self, path: str, query: Mapping[str, str], seconds: float) -> bytes:
        self.asked += 1
        if self.down:
            raise ExtenderError("connection refused")
        if path == "/v1/decisions":
            since = int(query.get("since", max(0, self.decisions.latest - int(query.get("limit", 0)))))
            found = [entry for entry in self.decisions.decisions if entry.sequence > since]
            return self.decisions.model_copy(update={"decisions": tuple(found)}).model_dump_json().encode()
        if path == "/v1/queue":
            return self.queue.model_dump_json().encode()
        if path.startswith("/v1/explain/"):
            raise ExtenderError("busy")  # in this case the controller writes the Event without an explanation
        assert path == "/v1/desired"
        if int(query["after"]) == self.desired.generation:
            self._new.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._new.wait(), float(query["timeout_seconds"]))
        return self.desired.model_dump_json().encode()


class FakeLease:
    def __init__(self) -> None:
        self.leads = True
        self.taken = False  # whether another replica has taken the Lease, which this replica learns at its next look
        self.slow_seconds = 0.0
        self.name = "kohort-0"

    def leading(self) -> bool:
        return self.leads

    async def check(self) -> None:
        await asyncio.sleep(self.slow_seconds)
        self.leads = self.leads and not self.taken


def pod(name: str, value: str = "") -> PodOrder:
    return PodOrder(uid=f"uid-{name}", namespace="team", name=name, value=value)


def orders(**parts: Any) -> DesiredView:
    return DesiredView(**{"instance": "one", "generation": 1, "gate": None, **parts})


def suspension(name: str, *, suspend: bool) -> SuspendOrder:
    return SuspendOrder(uid=f"uid-{name}", namespace="team", name=name, kind="TFJob", suspend=suspend, version=7)


def resize(name: str, replicas: int, workers: int, version: int = 7, **bounds: int) -> ReplicaOrder:
    return ReplicaOrder(
        uid=f"uid-{name}",
        namespace="team",
        name=name,
        kind="TFJob",
        workers=workers,
        replicas=replicas,
        version=version,
        **bounds,
    )


def gated(name: str, *gates: str) -> tuple[Ref, Json]:
    spec = {"schedulingGates": [{"name": gate} for gate in gates]}
    return Ref(PODS, "team", name), {"metadata": {"uid": f"uid-{name}"}, "spec": spec}


# -- In the tests below, the extender's orders become calls of the API server. -------------------


def test_what_frees_room_goes_first_and_what_waits_for_it_last() -> None:
    desired = orders(
        gate=True,
        ungate=(pod("a-ps-0"), pod("a-worker-0")),
        wake=(pod("b-ps-0", "plan"),),
        nominate=(pod("a-ps-0", "n1"),),
        replicas=(resize("grows", 2, 4, min_workers=2), resize("shrinks", 4, 2, max_workers=4)),
        suspend=(suspension("goes-on", suspend=False), suspension("stops", suspend=True)),
        release=(pod("c-ps-0"),),
        renumber=(pod("d-x7k2p", "worker-1"),),
        scheduled=(pod("e-ps-0"),),
    )
    assert list(calls(desired)) == [
        Release(pod("c-ps-0")),
        Suspend(suspension("stops", suspend=True)),
        Suspend(suspension("goes-on", suspend=False)),
        Renumber(pod("d-x7k2p", "worker-1")),
        SetReplicas(resize("shrinks", 4, 2, max_workers=4)),
        SetReplicas(resize("grows", 2, 4, min_workers=2)),
        SetGate(True),
        Nominate(pod("a-ps-0", "n1")),
        Ungate(pod("a-ps-0")),
        Ungate(pod("a-worker-0")),
        Wake(pod("b-ps-0", "plan")),
        MarkScheduled(pod("e-ps-0")),
    ]


def test_the_gate_stays_as_it_is_while_nobody_may_decide() -> None:
    assert list(calls(orders(gate=None))) == []


WRITES = {
    "release: delete with the pod's uid": (Release(PodOrder("u", "team", "p")), ("delete", "team", "p", "u")),
    "suspend off, with another number of ps, in one write": (
        Suspend(SuspendOrder("u", "team", "j", "TFJob", False, 42, 3)),
        (
            "patch", Ref(TFJOBS, "team", "j"),
            {
                "metadata": {"annotations": {RELEASED: None, LEADER: None}},
                "spec": {"runPolicy": {"suspend": False}, "tfReplicaSpecs": {"PS": {"replicas": 3}}},
            }, "", "u", "42",
        ),
    ),
    "suspend: with our mark, in one write": (
        Suspend(SuspendOrder("u", "team", "j", "TFJob", True, 42)),
        (
            "patch", Ref(TFJOBS, "team", "j"),
            {"metadata": {"annotations": {RELEASED: "true", LEADER: None}}, "spec": {"runPolicy": {"suspend": True}}},
            "", "u", "42",
        ),
    ),
    "go on: the mark goes with the suspension": (
        Suspend(SuspendOrder("u", "team", "j", "TFJob", False, 42)),
        (
            "patch", Ref(TFJOBS, "team", "j"),
            {"metadata": {"annotations": {RELEASED: None, LEADER: None}}, "spec": {"runPolicy": {"suspend": False}}},
            "", "u", "42",
        ),
    ),
    "replicas: only worker, with uid and resourceVersion": (
        SetReplicas(ReplicaOrder("u", "team", "j", "TFJob", 3, 2, 42)),
        (
            "patch", Ref(TFJOBS, "team", "j"),
            {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}, "metadata": {"annotations": {LEADER: None}}},
            "", "u", "42",
        ),
    ),
    "replicas: with them the bounds that nobody states": (
        SetReplicas(ReplicaOrder("u", "team", "j", "TFJob", 3, 2, 42, min_workers=2, max_workers=4)),
        (
            "patch", Ref(TFJOBS, "team", "j"),
            {
                "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}},
                "metadata": {
                    "annotations": {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "4", LEADER: None},
                },
            },
            "", "u", "42",
        ),
    ),
    "nominate: the status": (
        Nominate(PodOrder("u", "team", "p", "n1")),
        ("patch", Ref(PODS, "team", "p"), {"status": {"nominatedNodeName": "n1"}}, "status", "u", ""),
    ),
    "nominate nothing: the field is cleared": (
        Nominate(PodOrder("u", "team", "p", "")),
        ("patch", Ref(PODS, "team", "p"), {"status": {"nominatedNodeName": None}}, "status", "u", ""),
    ),
    "renumber: the slot, and what makes the highest go first": (
        Renumber(PodOrder("u", "team", "p", "worker-11")),
        (
            "patch", Ref(PODS, "team", "p"),
            {"metadata": {"annotations": {
                "kohort.dev/slot": "worker-11", "controller.kubernetes.io/pod-deletion-cost": "-11",
            }}},
            "", "u", "",
        ),
    ),
    "wake: an annotation": (
        Wake(PodOrder("u", "team", "p", "plan-1")),
        (
            "patch", Ref(PODS, "team", "p"),
            {"metadata": {"annotations": {"kohort.dev/wake": "plan-1"}}}, "", "u", "",
        ),
    ),
    "gate: the ConfigMap's one key": (SetGate(True), ("patch", GATE_MAP, {"data": {"gate": "on"}}, "", "", "")),
}  # fmt: skip


@pytest.mark.parametrize(("call", "want"), WRITES.values(), ids=WRITES.keys())
@virtual
async def test_a_call_is_one_write_with_its_precondition(call: Any, want: Any) -> None:
    api = FakeApi()
    api.objects[GATE_MAP] = {"data": {"gate": "off", "other": "kept"}}
    assert await perform(api, call, GATE_MAP) == Done({})
    assert api.written == [want]


FALSE = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "m", "probe": None}
MADE_TRUE = [
    {"op": "test", "path": "/status/conditions/1/type", "value": "PodScheduled"},
    {"op": "test", "path": "/status/conditions/1/status", "value": "False"},
    {"op": "replace", "path": "/status/conditions/1",
     "value": {"type": "PodScheduled", "status": "True", "probe": None}},
]  # fmt: skip


@virtual
async def test_the_condition_of_a_bound_pod_is_set_to_true_and_nothing_else_changes() -> None:
    api, ref = FakeApi(), Ref(PODS, "team", "a")
    api.objects[ref] = {"metadata": {"uid": "uid-a"}, "status": {"conditions": [{"type": "Ready"}, FALSE]}}
    assert await perform(api, MarkScheduled(pod("a")), GATE_MAP) == Done({})
    assert api.written == [("patch", ref, MADE_TRUE, "status", "uid-a", "")]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ({"metadata": {"uid": "uid-a"}, "status": {"conditions": [FALSE | {"status": "True"}]}}, 0),
        ({"metadata": {"uid": "uid-a"}, "status": {}}, 0),
        ({"metadata": {"uid": "of another pod"}, "status": {"conditions": [FALSE]}}, 404),
        (None, 404),
    ],
    ids=["true already", "no condition", "another pod", "no pod"],
)
@virtual
async def test_a_condition_that_is_not_false_is_left_alone(found: Any, status: int) -> None:
    api = FakeApi()
    if found is not None:
        api.objects[Ref(PODS, "team", "a")] = found
    outcome = await perform(api, MarkScheduled(pod("a")), GATE_MAP)
    assert outcome.status == status if isinstance(outcome, Refused) else status == 0
    assert api.written == []


@pytest.mark.parametrize(
    ("call", "reason", "why"),
    [
        (Note(NoteOrder("u", "team", "j", "Deployment", 42, memory="m")), "NoObject", "keeps no annotations"),
        (Suspend(SuspendOrder("u", "team", "j", "Deployment", True, 42)), "NotSuspendable", "cannot be suspended"),
        (SetReplicas(ReplicaOrder("u", "team", "j", "JobSet", 3, 2, 42)), "NotElastic", "cannot be changed"),
        (Suspend(SuspendOrder("u", "team", "j", "NewKind", True, 42)), "NotSuspendable", "kind NewKind cannot be"),
    ],
    ids=["notes", "suspension", "replicas", "a kind of a later version"],
)
@virtual
async def test_an_order_of_another_version_is_refused_with_what_to_do(call: Any, reason: str, why: str) -> None:
    api = FakeApi()
    refused = await perform(api, call, GATE_MAP)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.status) == (reason, 0)
    assert why in refused.message
    assert refused.message.endswith("; run the extender and the controller in the same version")
    assert api.written == []


BY_LEADER = {
    "notes": Note(NoteOrder("u", "team", "j", "TFJob", 42, memory="m")),
    "suspension": Suspend(SuspendOrder("u", "team", "j", "TFJob", True, 42)),
    "replicas": SetReplicas(ReplicaOrder("u", "team", "j", "TFJob", 3, 2, 42)),
}


@pytest.mark.parametrize("leader", ["replica-a", ""])
@pytest.mark.parametrize("call", BY_LEADER.values(), ids=BY_LEADER.keys())
@virtual
async def test_a_job_bears_who_leads_and_nobodys_name_where_no_lease_says_so(call: Any, leader: str) -> None:
    """The API server compares the name with the Lease, so a former leader's name would make it refuse every write."""
    api = FakeApi()
    await perform(api, call, GATE_MAP, leader=leader)
    (written,) = api.written
    assert written[2]["metadata"]["annotations"][LEADER] == (leader or None)


@virtual
async def test_a_gate_that_is_right_is_not_written() -> None:
    api = FakeApi()
    api.objects[GATE_MAP] = {"data": {"gate": "on"}}
    assert isinstance(await perform(api, SetGate(True), GATE_MAP), Done)
    assert api.written == []


@virtual
async def test_without_its_parameters_the_gate_is_off_already_and_cannot_be_on() -> None:
    api = FakeApi()
    assert isinstance(await perform(api, SetGate(False), GATE_MAP), Done)
    outcome = await perform(api, SetGate(True), GATE_MAP)
    assert isinstance(outcome, Refused)
    assert "kohort-gate" in outcome.message


@virtual
async def test_a_gate_that_cannot_be_read_is_not_written() -> None:
    api = FakeApi()
    api.unreadable = True
    assert isinstance(await perform(api, SetGate(True), GATE_MAP), Refused)
    assert api.written == []


GATES = {
    "ours alone": ((GATE,), []),
    "ours first": ((GATE, "theirs"), ["theirs"]),
    "ours last": (("theirs", "others", GATE), ["theirs", "others"]),
    "not there any more": (("theirs",), ["theirs"]),
    "no gates at all": ((), []),
}


@pytest.mark.parametrize(("before", "after"), GATES.values(), ids=GATES.keys())
@virtual
async def test_ungating_removes_ours_and_keeps_the_others(before: tuple[str, ...], after: list[str]) -> None:
    api = FakeApi()
    ref, api.objects[ref] = (found := gated("p", *before))[0], found[1]
    assert isinstance(await perform(api, Ungate(PodOrder("uid-p", "team", "p")), GATE_MAP), Done)
    assert [gate["name"] for gate in api.objects[ref]["spec"]["schedulingGates"]] == after


@virtual
async def test_ungating_leaves_another_pod_of_the_name_alone() -> None:
    api = FakeApi()
    ref, api.objects[ref] = (found := gated("p", GATE))[0], found[1]
    assert isinstance(await perform(api, Ungate(PodOrder("uid-before", "team", "p")), GATE_MAP), Refused)
    assert api.written == []


# -- The tests below are about the controller's loop, which fetches orders and writes. -----------


class Bench:
    """A controller that runs against fakes in virtual time."""

    def __init__(self, **settings: Any) -> None:
        self.api, self.extender, self.lease = FakeApi(), FakeExtender(), FakeLease()
        self.clock = VirtualClock()
        self.controller = Controller(
            self.api, self.extender.fetch, self.extender.tell, Settings(controller=settings), self.clock, self.lease,
            chance=random.Random(1),
        )  # fmt: skip
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Bench":
        self._task = asyncio.create_task(self.controller.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        if self._task.done():
            self._task.result()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, true: Callable[[], object], seconds: float = 60.0) -> None:
        ends = self.clock.now() + seconds
        while not true():
            assert self.clock.now() < ends, "this was waited for in vain"
            await asyncio.sleep(0.01)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def deletes(self, name: str) -> int:
        return sum(1 for what in self.api.written if what == ("delete", "team", name, f"uid-{name}"))


@virtual
async def test_what_is_wanted_is_written_once_until_the_watch_must_have_shown_it() -> None:
    async with Bench() as bench:
        bench.extender.want(orders(release=(pod("a"),)))
        await bench.until(lambda: bench.deletes("a"))
        bench.extender.want(orders(release=(pod("a"), pod("b"))))
        await bench.until(lambda: bench.deletes("b"))
        await bench.pass_time(1)
        assert (bench.deletes("a"), bench.deletes("b")) == (1, 1)
        # the pod is still there, so the level-triggered order is carried out again
        await bench.until(lambda: bench.deletes("a") == 2)


@virtual
async def test_what_is_wanted_no_more_is_not_written() -> None:
    async with Bench(patches_per_second=1) as bench:
        bench.extender.want(orders(release=tuple(pod(f"p{i}") for i in range(50))))
        await bench.until(lambda: bench.api.written)
        bench.extender.want(orders())
        await bench.pass_time(0.5)
        written = len(bench.api.written)
        await bench.pass_time(5)
        assert len(bench.api.written) == written


@virtual
async def test_nothing_is_written_unless_this_replica_leads() -> None:
    async with Bench() as bench:
        bench.lease.leads = False
        bench.extender.want(orders(gate=True, release=(pod("a"),)))
        await bench.pass_time(3)
        assert bench.api.written == []
        bench.lease.leads = True
        await bench.until(lambda: bench.deletes("a"))


@virtual
async def test_what_a_follower_found_wanted_is_done_as_soon_as_it_leads() -> None:
    async with Bench() as bench:
        bench.lease.leads = False
        bench.extender.want(orders(release=(pod("a"),)))
        await bench.pass_time(0.2)
        bench.lease.leads = True
        bench.controller.led(True)
        await bench.pass_time(0.01)
        assert bench.deletes("a")


@virtual
async def test_who_leads_no_more_shows_it_though_its_extender_is_silent() -> None:
    async with Bench() as bench:
        bench.extender.down = True
        await bench.pass_time(5)
        shown = partial(bench.controller.metrics.registry.get_sample_value, "kohort_leader")
        assert shown() == 1
        bench.lease.leads = False
        assert shown() == 0


@virtual
async def test_leadership_lost_while_a_write_waits_for_its_turn_stops_it() -> None:
    async with Bench(patches_per_second=1) as bench:
        bench.extender.want(orders(release=(pod("a"), pod("b"), pod("c"))))
        await bench.until(lambda: bench.deletes("a"))
        bench.lease.leads = False
        await bench.pass_time(5)
        assert len(bench.api.written) == 1


UNSIGNED: dict[str, Any] = {
    "a deletion": {"release": (pod("a"),)},
    "an eviction": {"evict": (pod("a"),)},
    "a scale": {"replicas": (ReplicaOrder("uid-s", "team", "s", "StatefulSet", 7, 4, 2),)},
}


@pytest.mark.parametrize("wanted", UNSIGNED.values(), ids=UNSIGNED.keys())
@virtual
async def test_the_lease_is_looked_at_before_a_write_that_takes_pods_and_cannot_say_by_whom(wanted: Any) -> None:
    async with Bench() as bench:
        bench.lease.taken = True
        bench.extender.want(orders(**wanted))
        await bench.pass_time(3)
        assert bench.api.written == []
        bench.lease.taken, bench.lease.leads = False, True
        await bench.until(lambda: bench.api.written)


@pytest.mark.parametrize("wanted", UNSIGNED.values(), ids=UNSIGNED.keys())
@virtual
async def test_what_is_withdrawn_while_the_lease_is_looked_at_is_not_written(wanted: Any) -> None:
    async with Bench() as bench:
        bench.lease.slow_seconds = 1.0
        bench.extender.want(orders(**wanted))
        await bench.pass_time(0.5)
        bench.extender.want(orders())
        await bench.pass_time(5)
        assert bench.api.written == []


@virtual
async def test_what_is_ordered_otherwise_while_the_lease_is_looked_at_is_written_as_it_is_then() -> None:
    async with Bench() as bench:
        bench.lease.slow_seconds = 1.0
        (first,) = UNSIGNED["a scale"]["replicas"]
        bench.extender.want(orders(replicas=(first,)))
        await bench.pass_time(0.5)
        bench.extender.want(orders(replicas=(replace(first, workers=3),)))
        await bench.pass_time(1.9)
        (what,) = bench.api.written
        assert what[2] == {"spec": {"replicas": 3}}


@virtual
async def test_writes_keep_to_their_rate() -> None:
    async with Bench(patches_per_second=10) as bench:
        begun = bench.clock.monotonic()
        bench.extender.want(orders(release=tuple(pod(f"p{i}") for i in range(30))))
        await bench.until(lambda: len(bench.api.written) >= 30)
        assert bench.clock.monotonic() - begun >= 2.0  # the limit lets ten writes through at once, then ten a second


@virtual
async def test_slow_writes_are_made_at_once_but_not_all_of_them() -> None:
    async with Bench(patches_per_second=1000) as bench:
        bench.api.slow_seconds = 1.0
        bench.extender.want(orders(release=tuple(pod(f"p{i}") for i in range(100))))
        await bench.until(lambda: len(bench.api.written) >= 100, seconds=6)
        assert bench.api.most_at_once == 32


@virtual
async def test_a_conflict_is_left_to_the_next_answer_which_is_tried_at_once() -> None:
    async with Bench() as bench:
        bench.api.answers["j"] = CONFLICT
        bench.extender.want(orders(replicas=(resize("j", 4, 2, version=7),)))
        await bench.until(lambda: len(bench.api.written) == 1)
        await bench.pass_time(1)
        assert len(bench.api.written) == 1
        bench.extender.want(orders(replicas=(resize("j", 4, 2, version=8),)))
        await bench.until(lambda: len(bench.api.written) == 2)
        assert [what[-1] for what in bench.api.written] == ["7", "8"]


@pytest.mark.parametrize(
    ("status", "message", "outdated"),
    [
        (404, "", True),
        (409, "", True),
        (422, 'Pod "p" is invalid: metadata.uid: Invalid value: "u": field is immutable', True),
        (422, 'Pod "p" is invalid: spec.schedulingGates: Forbidden', False),
        (403, "", False),
    ],
)
def test_a_precondition_that_fails_is_no_fault(status: int, message: str, outdated: bool) -> None:
    assert Refused(status, "Reason", message).outdated is outdated


@virtual
async def test_another_pod_of_that_name_is_left_alone_and_logged_as_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async with Bench() as bench:
        bench.api.answers["a"] = Refused(422, "Invalid", 'Pod "a" is invalid: metadata.uid: Invalid value: "uid-a"')
        bench.extender.want(orders(wake=(pod("a", "plan"),)))
        await bench.until(lambda: len(bench.api.written) == 1)
        await bench.pass_time(1)
        assert len(bench.api.written) == 1
        assert caplog.records == []


@virtual
async def test_a_refusal_waits_longer_each_time_and_holds_nobody_else_up() -> None:
    async with Bench() as bench:
        bench.api.answers["bad"] = FORBIDDEN
        bench.extender.want(orders(release=(pod("bad"), pod("good"))))
        await bench.until(lambda: bench.deletes("good"))
        await bench.pass_time(20)
        assert 3 <= bench.deletes("bad") <= 7  # the retries back off: about 1, 2, 4 and 8 seconds apart


@virtual
async def test_a_pod_is_nominated_before_its_gate_goes() -> None:
    async with Bench() as bench:
        ref, body = gated("a", GATE)
        bench.api.objects[ref] = body
        bench.api.slow_seconds = 3.0
        bench.extender.want(orders(nominate=(pod("a", "n1"),), ungate=(pod("a"),)))
        await bench.until(lambda: bench.api.written)
        await bench.pass_time(2)
        assert [what[0] for what in bench.api.written] == ["patch"]  # the first patch has no answer yet
        await bench.until(lambda: ("ungate", "a") in bench.api.written)
        assert [what[0] for what in bench.api.written] == ["patch", "ungate"]


@virtual
async def test_a_nomination_that_is_refused_does_not_keep_the_gate_shut() -> None:
    async with Bench() as bench:
        ref, body = gated("a", GATE)
        bench.api.objects[ref] = body
        bench.api.answers["a"] = FORBIDDEN
        bench.extender.want(orders(nominate=(pod("a", "n1"),), ungate=(pod("a"),)))
        await bench.until(lambda: ("ungate", "a") in bench.api.written)


@virtual
async def test_an_extender_that_is_down_stops_the_writes_and_is_asked_less_often() -> None:
    async with Bench() as bench:
        bench.extender.want(orders(release=(pod("a"),)))
        await bench.until(lambda: bench.deletes("a"))
        bench.extender.down = True
        await bench.pass_time(5)
        asked, written = bench.extender.asked, len(bench.api.written)
        await bench.pass_time(10)
        assert len(bench.api.written) == written
        assert bench.extender.asked - asked <= 20  # about ten of these requests are for decisions
        assert not bench.controller.readiness().ready
        bench.extender.down = False
        await bench.until(lambda: len(bench.api.written) > written)  # the same orders are written again
        assert bench.controller.readiness().ready


@virtual
async def test_a_restarted_extender_counts_anew_and_is_followed() -> None:
    async with Bench() as bench:
        bench.extender.desired = orders(generation=5000)
        await bench.until(lambda: bench.extender.asked >= 2)
        bench.extender.desired = orders(instance="two", generation=1, release=(pod("a"),))
        await bench.until(lambda: bench.deletes("a"))


@virtual
async def test_an_answer_that_is_no_answer_counts_as_silence() -> None:
    async with Bench() as bench:

        async def nonsense(*_: object) -> bytes:
            return b"<html>"

        bench.controller._fetch = nonsense
        await bench.pass_time(2)
        assert bench.api.written == []
        assert not bench.controller.readiness().ready


@virtual
async def test_metrics_show_what_is_still_to_do_and_what_was_done() -> None:
    async with Bench() as bench:
        value = bench.controller.metrics.registry.get_sample_value
        bench.lease.leads = False
        bench.extender.want(orders(release=(pod("a"), pod("b"))))
        await bench.pass_time(1)
        assert value("kohort_controller_wanted_writes", {"kind": "Release"}) == 2
        assert value("kohort_controller_wanted_writes", {"kind": "Wake"}) == 0
        bench.lease.leads = True
        bench.api.answers["b"] = FORBIDDEN
        await bench.until(lambda: bench.deletes("a") and bench.deletes("b"))
        await bench.pass_time(0.1)
        assert value("kohort_controller_wanted_writes", {"kind": "Release"}) == 1
        assert value("kohort_controller_writes_total", {"kind": "Release", "outcome": "done"}) == 1
        assert value("kohort_controller_writes_total", {"kind": "Release", "outcome": "refused"}) == 1


# -- The tests below are about the Events and logs that people read. -----------------------------


def decision(sequence: int, at: float, action: str = "Admit", **others: Any) -> DecisionView:
    job = JobName(namespace="team", name="mnist", kind="TFJob", uid="u1")
    base = {"sequence": sequence, "at": at, "generation": 1, "cause": (), "action": action, "job": job, "text": "text"}
    return DecisionView(**{**base, **others})


OLD = -3600.0  # the time of a decision, an hour before the extender's clock shows 0


def decided(*told: DecisionView, instance: str = "one", at: float = 0.0) -> DecisionsView:
    latest = max((one.sequence for one in told), default=0)
    return DecisionsView(instance=instance, at=at, latest=latest, decisions=told)


@virtual
@pytest.mark.parametrize("off", [0.0, -3600.0, 3600.0])
async def test_decisions_since_the_start_become_events_once_whatever_the_extenders_clock_says(off: float) -> None:
    async with Bench() as bench:
        at = bench.clock.now() + off
        old = (decision(1, at - 61, "Released"), decision(2, at - 61, "Migrate"))
        bench.extender.decisions = decided(*old, at=at)
        await bench.pass_time(3)
        assert bench.api.written == []
        bench.extender.decisions = decided(
            *old, decision(3, at + 3), decision(4, at + 3, "Bind"), decision(5, at + 3, "Bound"), at=at + 3
        )
        await bench.until(lambda: bench.api.written)
        await bench.pass_time(3)
        assert bench.api.written == [
            ("event", "team", "Planned", "mnist"),
            ("event", "team", "Bound", "mnist"),
        ]


@virtual
async def test_a_controller_that_starts_late_tells_what_was_decided_in_the_last_minute() -> None:
    """The controller starts beside the extender or after a crash, and gives its Events the same names as before."""
    async with Bench() as bench:
        bench.extender.down = True
        late = (decision(2, 1001.0), decision(3, 1002.0, "Bind"), decision(4, 1002.1, "Bound"))
        bench.extender.decisions = decided(decision(1, 1000.0, "Released"), *late, at=1060.5)
        await bench.pass_time(3)
        bench.extender.down = False
        await bench.until(lambda: bench.api.written)
        await bench.pass_time(3)
        assert [written[2] for written in bench.api.written] == ["Planned", "Bound"]


@virtual
async def test_events_go_on_where_the_wall_clock_is_set_back_while_both_processes_run() -> None:
    async with Bench() as bench:
        await bench.pass_time(1)
        theirs = bench.clock.now  # the extender's time runs on from the clock at its start
        bench.clock.now = lambda: theirs() - 3600  # type: ignore[method-assign]
        bench.extender.decisions = decided(decision(1, theirs(), "Released"))
        await bench.until(lambda: bench.api.written)


@virtual
async def test_a_controller_that_comes_to_lead_tells_what_was_decided_since_it_began_to_follow() -> None:
    """The new leader's extender may decide before its controller notices the Lease."""
    async with Bench() as bench:
        bench.lease.leads = False
        bench.extender.decisions = decided(decision(1, OLD, "Released"))
        await bench.pass_time(3)
        bench.extender.decisions = decided(decision(1, OLD, "Released"), decision(2, 0.0))
        await bench.pass_time(3)
        assert bench.api.written == []
        bench.lease.leads = True
        await bench.until(lambda: bench.api.written)
        await bench.pass_time(3)
        assert bench.api.written == [("event", "team", "Planned", "mnist")]


@virtual
async def test_the_first_look_is_made_again_until_the_extender_answers() -> None:
    async with Bench() as bench:
        bench.extender.down = True
        bench.extender.decisions = decided(decision(1, OLD))
        await bench.pass_time(3)
        bench.extender.down = False
        await bench.pass_time(3)
        assert bench.api.written == []
        bench.extender.decisions = decided(decision(1, OLD), decision(2, 0.0))
        await bench.until(lambda: bench.api.written)


@virtual
async def test_events_begin_anew_with_a_new_extender() -> None:
    async with Bench() as bench:
        await bench.pass_time(1)
        bench.extender.decisions = decided(decision(1, 0.0))
        await bench.until(lambda: len(bench.api.written) == 1)
        bench.extender.decisions = decided(decision(1, 0.0, "Resize", direction="in"), instance="two")
        await bench.until(lambda: len(bench.api.written) == 2)
        assert bench.api.written[-1] == ("event", "team", "Shrinking", "mnist")


def test_an_event_is_what_the_api_asks_for() -> None:
    (event,) = DecisionEvents("abcd", "host-1", EventQuota()).events_of([decision(26, 1_700_000_000.5, "Released")])
    assert event == {
        "metadata": {"name": "mnist.abcd.1a", "namespace": "team"},
        "eventTime": "2023-11-14T22:13:20.500000Z",
        "reportingController": "kohort.dev/controller",
        "reportingInstance": "host-1",
        "action": "Released",
        "reason": "Released",
        "type": "Warning",
        "note": "text",
        "regarding": {
            "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "namespace": "team", "name": "mnist", "uid": "u1",
        },
    }  # fmt: skip


def waiting(waited: float, reason: str = "WaitingForRoom", name: str = "mnist") -> QueueView:
    job = QueuedJob(
        namespace="team", name=name, kind="TFJob", uid=f"u-{name}", position=2, waited_seconds=waited, members=3,
        min_workers=2, max_workers=4, needs={},
        waits=Waits(reason=reason, text="kohort: the gang waits for room", detail="cpu 3000"),
    )  # fmt: skip
    return QueueView(generation=1, gated_pods=0, jobs=(job,))


def queued(story: WaitingEvents, queue: QueueView, now: float) -> list[dict[str, Any]]:
    return [story.queued(job, (), now) for job in story.news(queue, now)]


def test_a_waiting_job_is_told_why_and_what_helps_once_it_has_waited_for_a_moment() -> None:
    story = WaitingEvents("host-1", EventQuota())
    assert queued(story, waiting(19), 1000.0) == []
    (event,) = queued(story, waiting(21), 1002.0)
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("Queued", "Normal", "mnist")
    assert event["note"].startswith(
        "position 2 in the queue; the gang waits for room; cpu 3000; what helps: wait for a job to end"
    )
    assert queued(story, waiting(30), 1011.0) == []


def test_a_job_whose_reason_flaps_gets_fewer_than_ten_events_an_hour() -> None:
    story, told = WaitingEvents("host-1", EventQuota()), 0
    for second in range(0, 3600, 10):
        reason = ("WaitingForRoom", "BehindHeavierJob")[second // 10 % 2]
        told += len(queued(story, waiting(100 + second, reason), 1000.0 + second))
    assert 5 <= told <= 8


def test_a_gang_that_gives_its_room_up_again_and_again_gets_fewer_than_ten_events_an_hour() -> None:
    quota = EventQuota()
    waits, decides, told = WaitingEvents("host-1", quota), DecisionEvents("abcd", "host-1", quota), list[str]()
    for attempt in range(60):
        at = 1000.0 + 60 * attempt
        told += [one["reason"] for one in queued(waits, waiting(30), at)]
        job = JobName(namespace="team", name="mnist", kind="TFJob", uid=waiting(30).jobs[0].uid)
        numbered = ((1, at, "Admit"), (2, at + 30, "Released"))
        tried = [decision(3 * attempt + number, when, what, job=job) for number, when, what in numbered]
        told += [one["reason"] for one in decides.events_of(tried)]
        assert queued(waits, QueueView(generation=1, gated_pods=0, jobs=()), at + 40) == []
    assert Counter(told).keys() == {"Queued", "Planned", "Released"}
    assert len(told) == 9
    bound = (decision(900, 4500.0, "Admit"), decision(901, 4501.0, "Bound"))
    assert "Bound" in [one["reason"] for one in decides.events_of(bound)], "what has come of it is told in any case"
    assert queued(waits, waiting(30), 1000.0 + 2 * 3600), "an hour later it is told again"


def test_a_controller_that_starts_again_and_again_tells_no_more() -> None:
    """The controller does not remember what it reported, but the API server takes an Event of one name only once."""
    names, written = set[str](), 0
    for minute in range(60):
        story, now = WaitingEvents("host-1", EventQuota()), 1000.0 + 60 * minute
        starves = waiting(700).model_copy(
            update={"jobs": (waiting(700).jobs[0].model_copy(update={"starving": True}),)}
        )
        events = [*queued(story, waiting(700), now), *story.starving(starves, now)]
        names |= {event["metadata"]["name"] for event in events}
        written += len(events)
    assert written == 120
    assert len(names) < 10
    other = waiting(700).jobs[0].model_copy(update={"uid": "u-later"})
    again = WaitingEvents("host-1", EventQuota()).queued(other, (), 1000.0)
    assert again["metadata"]["name"] not in names, "a job of the same name that came later"


def test_the_same_reason_is_told_again_before_the_api_server_forgets_it() -> None:
    story = WaitingEvents("host-1", EventQuota())
    times = [at for at in range(0, 7200, 10) if queued(story, waiting(100 + at), 1000.0 + at)]
    assert times == [0, 3000, 6000]


def test_a_job_that_waits_anew_is_told_anew() -> None:
    story = WaitingEvents("host-1", EventQuota())
    (first,) = queued(story, waiting(30), 1000.0)
    assert queued(story, QueueView(generation=1, gated_pods=0, jobs=()), 1010.0) == []
    (second,) = queued(story, waiting(30), 1020.0)
    assert first["metadata"]["name"] != second["metadata"]["name"]


@virtual
async def test_why_a_job_waits_becomes_an_event_of_the_replica_that_leads() -> None:
    async with Bench() as bench:
        bench.lease.leads = False
        bench.extender.queue = waiting(60)
        await bench.pass_time(25)
        assert bench.api.written == []
        bench.lease.leads = True
        await bench.until(lambda: bench.api.written)
        await bench.pass_time(60)
        assert bench.api.written == [("event", "team", "Queued", "mnist")]


def test_a_decision_on_a_job_that_is_gone_is_not_told() -> None:
    assert list(DecisionEvents("abcd", "host-1", EventQuota()).events_of([decision(1, 0.0, job=None)])) == []


TOLD = {
    "to be started": (decision(1, 0.0), "Planned"),
    "workers to be taken": (decision(1, 0.0, "Resize", direction="in", workers=2), "Shrinking"),
    "workers to be given": (decision(1, 0.0, "Resize", direction="out", workers=2), "Growing"),
    "members to be placed anew": (decision(1, 0.0, "Resize", workers=2), "Repairing"),
    "without a worker role": (decision(1, 0.0, "Resize", workers=0, nodes={"trainer-1": "n1"}), "Repairing"),
    "no work in this slot": (decision(1, 0.0, "Resize", direction="in", workers=0), "Pausing"),
    "to be moved": (decision(1, 0.0, "Migrate"), "Migrating"),
    "bound": (decision(1, 0.0, "Bound"), "Bound"),
    "workers are gone": (decision(1, 0.0, "Shrunk"), "Shrunk"),
    "workers are there": (decision(1, 0.0, "Grown"), "Grown"),
    "members are there again": (decision(1, 0.0, "Repaired"), "Repaired"),
    "its pods are gone": (decision(1, 0.0, "Paused"), "Paused"),
    "moved": (decision(1, 0.0, "Moved"), "Moved"),
    "the API server refuses": (decision(1, 0.0, "WriteRefused"), "WriteRefused"),
    "refused": (decision(1, 0.0, "Reject"), "Rejected"),
    "workers that do not come": (decision(1, 0.0, "Stalled", workers=2), "GrowthStalled"),
    "workers that do not go": (decision(1, 0.0, "ShrinkStalled", workers=2), "ShrinkStalled"),
    "changed by a person": (decision(1, 0.0, "Edited"), "Edited"),
}


@pytest.mark.parametrize(("one", "reason"), TOLD.values(), ids=TOLD.keys())
def test_each_decision_has_its_word(one: DecisionView, reason: str) -> None:
    assert [event["reason"] for event in DecisionEvents("abcd", "host-1", EventQuota()).events_of([one])] == [reason]


def test_a_binding_that_was_sent_is_no_event() -> None:
    assert list(DecisionEvents("abcd", "host-1", EventQuota()).events_of([decision(1, 1.0, "Bind")])) == []


def test_a_job_that_starves_is_told_once() -> None:
    story, queue = WaitingEvents("host-1", EventQuota()), waiting(700)
    starves = queue.model_copy(update={"jobs": (queue.jobs[0].model_copy(update={"starving": True}),)})
    (event,) = story.starving(starves, 1000.0)
    assert (event["reason"], event["regarding"]["name"]) == ("Starving", "mnist")
    assert list(story.starving(starves, 1010.0)) == []
    assert list(story.starving(queue, 1010.0)) == []


def test_what_would_admit_the_job_now_is_told() -> None:
    queue = waiting(100)
    texts = {
        Kind.WAIT: "wait 575 s", Kind.NODES: "add 1 node", Kind.END: "wait for the end of team/a",
        Kind.WORKERS: "take 2 workers: 2 from team/a",
    }  # fmt: skip
    changes = [ProvedChange(kind, 1, text) for kind, text in texts.items()]
    event = WaitingEvents("host-1", EventQuota()).queued(queue.jobs[0], changes, 1000.0)
    told = "; would admit it now: add 1 node | take 2 workers: 2 from team/a"
    assert event["note"].endswith(told), "what can be done at once comes first"
    assert "helps" not in event["note"]


def test_a_note_is_never_longer_than_the_api_takes() -> None:
    job = waiting(100).jobs[0].model_copy(update={"waits": Waits(reason="X", text="t" * 900, detail="d" * 900)})
    assert len(WaitingEvents("host-1", EventQuota()).queued(job, (), 1000.0)["note"]) == 1024


# -- The test below is about the limit on calls in a second. -------------------------------------


@virtual
async def test_a_pace_gives_a_seconds_worth_at_once_and_then_its_rate() -> None:
    class Still(Clock):
        time = 0.0
        slept: list[float]

        def monotonic(self) -> float:
            return self.time

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    clock = Still()
    clock.slept = []
    pace = RateLimit(4, clock)
    for _ in range(6):
        await pace.turn()
    assert clock.slept == [0.25, 0.5]
    clock.time = 100.0
    for _ in range(4):
        await pace.turn()
    assert clock.slept == [0.25, 0.5]
