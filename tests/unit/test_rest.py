"""REST: its answers for people, the CLI and the controller, and its errors for wrong requests."""

import asyncio
import json
import random
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter

from extender.access.guard import PROBLEM
from extender.app import Live
from extender.clock import Clock
from extender.config.settings import Settings
from extender.observe.health import Check, Heartbeat, Readiness
from extender.present.jobviews import unplaced_members
from extender.present.views.problem import ProblemView
from extender.routes import rest, table
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.answers.change import Kind
from policy.answers.explanation import ProvedChange
from policy.cluster.actions import Admit, Effect, Resize, ShrinkStalled, Stalled
from policy.cluster.amounts import amounts, quantity
from policy.cluster.events import BindHeld, Event, JobSeen, Led, NodeSeen, PodGone, PodSeen, Synced
from policy.cluster.job import Job, Role, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.reasons import Reason, Verdict
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Rules
from policy.systems import make_policy
from tests.documents import rest as documents
from tests.stage import FakeApi, HandClock, virtual
from tests.unit.policy.test_unplaced import scaled_out

GIB = 2**30
NOW = 1_000_000.0
SMALL = Resources({"cpu": 500, "memory": GIB, "pods": 1})
OTHERS = PodSeen(Pod("u-others", "team", "others", node="n2", requests=SMALL, phase=Phase.RUNNING))


class Vitals:
    def __init__(self, clock: Clock) -> None:
        self.controller: Heartbeat | None = Heartbeat(clock)
        self.checks: tuple[Check, ...] = ()

    def readiness(self) -> Readiness:
        return Readiness(self.checks)


def node(name: str, cpu: int = 4000) -> Node:
    return Node(name, Resources({"cpu": cpu, "memory": 8 * GIB, "pods": 110}))


def job(name: str, workers: int = 2, most: int | None = None, cpu: int = 500, **others: Any) -> Job:
    asks = Resources({"cpu": cpu, "memory": GIB, "pods": 1})
    return Job(
        **{
            "uid": f"team/u-{name}", "namespace": "team", "name": name, "kind": "TFJob", "arrival": NOW - 90,
            "roles": (Role("ps", 1, asks), Role("worker", workers, asks)), "min_workers": workers,
            "max_workers": most or workers, "elastic": most is not None, "version": 3, **others,
        }
    )  # fmt: skip


def pod(job: Job, role: str, index: int, **others: Any) -> Pod:
    name = f"{job.name}-{role}-{index}"
    asks = job.roles[0].requests
    return Pod(
        **{
            "uid": f"pod-{name}", "namespace": "team", "name": name, "requests": asks, "job_uid": job.uid,
            "slot": Slot(role, index), "opted_in": True, "since": NOW - 80, **others,
        }
    )  # fmt: skip


def pods(job: Job, **others: Any) -> list[Event]:
    return [PodSeen(pod(job, slot.role, slot.index, **others)) for slot in job.slots(job.min_workers)]


class Service:
    """The REST routes with a real ledger."""

    def __init__(self, *events: Event, policy: str = "kod2", **settings: Any) -> None:
        self.ledger = Ledger(make_policy(policy), Rules(), HandClock(NOW), Journal())
        self.vitals = Vitals(self.ledger.clock)
        app = FastAPI()
        app.include_router(table.router(rest.Rest(self.ledger, lambda: Settings(**settings), self.vitals)))
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kohort")
        self.step(*events)

    def step(self, *events: Event) -> None:
        self.ledger.step(*events)

    async def ask(self, path: str, status: int = 200, client: str = "") -> Any:
        answer = await self.client.get(f"/v1{path}", headers={"X-Kohort-Client": client})
        assert answer.status_code == status, answer.text
        return answer.json()


A, B, BIG = job("a"), job("b", most=4), job("big", cpu=3500)
CLUSTER: tuple[Event, ...] = (NodeSeen(node("n1")), NodeSeen(node("n2")))


def running() -> Service:
    """Return a service with one gang that fits, with its pods, and one that does not fit."""
    gated = pods(BIG, gated=True)
    return Service(*CLUSTER, JobSeen(A), *pods(A), JobSeen(BIG), *gated, Synced())


# -- The test below is about quantities. ---------------------------------------------------------

QUANTITIES = {
    "half a core": ("cpu", 500, "500m"),
    "two cores": ("cpu", 2000, "2"),
    "an over-charged node": ("cpu", -500, "-500m"),
    "whole GiB": ("memory", 8 * GIB, "8Gi"),
    "whole KiB only": ("memory", 8 * GIB + 1024, "8388609Ki"),
    "odd bytes": ("memory", 1001, "1001"),
    "none": ("memory", 0, "0"),
    "storage": ("ephemeral-storage", 2**20, "1Mi"),
    "pieces are not bytes": ("nvidia.com/gpu", 1024, "1024"),
}


@pytest.mark.parametrize(("name", "amount", "text"), QUANTITIES.values(), ids=QUANTITIES.keys())
def test_a_quantity_is_written_as_kubernetes_does_without_loss(name: str, amount: int, text: str) -> None:
    assert quantity(name, amount) == text
    assert amounts(Resources({name: amount}))[name].exact == amount


# -- The tests below are about the routes of jobs and of the queue. ------------------------------


@virtual
async def test_a_job_is_shown_with_its_bounds_and_members() -> None:
    found = await running().ask("/jobs/team/a")
    assert (found["uid"], found["state"], found["workers"], found["waits"]) == ("u-a", "planned", 2, None)
    assert [(m["role"], m["index"], m["pod"], m["state"]) for m in found["members"]] == [
        ("ps", 0, "a-ps-0", "planned"),
        ("worker", 0, "a-worker-0", "planned"),
        ("worker", 1, "a-worker-1", "planned"),
    ]
    assert {m["node"] for m in found["members"]} <= {"n1", "n2"}
    assert found["roles"][0]["requests"]["cpu"] == {"quantity": "500m", "exact": 500}


@virtual
async def test_members_say_how_far_they_are() -> None:
    service = Service(*CLUSTER, JobSeen(A), *pods(A), Synced())
    planned = service.ledger.snapshot.gang(A.uid).nodes
    service.step(BindHeld("pod-a-ps-0", planned[Slot("ps", 0)]))
    service.step(PodSeen(pod(A, "worker", 0, gated=True, version=9)))
    ended = pod(A, "worker", 1, node=planned[Slot("worker", 1)], phase=Phase.SUCCEEDED, version=9)
    service.step(PodSeen(ended))
    members = (await service.ask("/jobs/team/a"))["members"]
    assert [member["state"] for member in members] == ["at barrier", "gated", "ended"]


@virtual
async def test_a_member_of_a_completed_job_whose_pod_is_gone_is_told_as_gone() -> None:
    service = Service(*CLUSTER, JobSeen(A), *pods(A), Synced())
    planned = service.ledger.snapshot.gang(A.uid).nodes
    ended = pod(A, "worker", 0, node=planned[Slot("worker", 0)], phase=Phase.SUCCEEDED, version=9)
    service.step(PodSeen(ended))
    service.step(JobSeen(replace(A, finished=True, version=9)))
    for gone in ("pod-a-ps-0", "pod-a-worker-1"):
        service.step(PodGone(gone))
    found = await service.ask("/explain/team/a")
    assert [(one["role"], one["index"], one["state"]) for one in found["members"]] == [
        ("ps", 0, "gone"), ("worker", 0, "ended"), ("worker", 1, "gone"),
    ]  # fmt: skip
    assert (found["state"], found["missing_pods"], found["needs"]) == ("completed", "", [])


@virtual
async def test_the_queue_says_position_need_and_reason() -> None:
    service = running()
    found = await service.ask("/queue")
    assert found["gated_pods"] == 3
    assert found["warnings"] == []
    (waiting,) = found["jobs"]
    assert (waiting["position"], waiting["name"], waiting["waited_seconds"], waiting["members"]) == (1, "big", 90, 3)
    assert waiting["needs"]["cpu"] == {"quantity": "10500m", "exact": 10500}
    assert waiting["gated_pods"] == 3
    assert waiting["weight"] > 0.5
    assert waiting["waits"]["reason"] == "GangExceedsCluster"
    assert waiting["waits"]["text"].startswith("kohort: ")


@virtual
async def test_the_queue_is_in_the_order_in_which_the_policy_looks() -> None:
    jobs = [job("a-light", 1, cpu=3900), job("heavy", 3, cpu=3900), job("starving", 1, cpu=3900, arrival=NOW - 9999)]
    events = [event for one in jobs for event in (JobSeen(one), *pods(one))]
    service = Service(NodeSeen(node("n1")), NodeSeen(node("n2")), OTHERS, *events, Synced())
    found = (await service.ask("/queue"))["jobs"]
    assert [(j["name"], j["position"], j["starving"]) for j in found] == [
        ("starving", 1, True),
        ("heavy", 2, False),
        ("a-light", 3, False),
    ]


@virtual
async def test_a_job_that_no_turn_would_help_does_not_starve() -> None:
    """Priority would not help a job that is too large for the cluster or has no pods."""
    large = job("large", 9, cpu=3900, arrival=NOW - 9999)
    podless, waits = job("podless", 1, cpu=3900, arrival=NOW - 9999), job("waits", 1, cpu=3900, arrival=NOW - 9999)
    events = [JobSeen(large), *pods(large), JobSeen(podless), JobSeen(waits), *pods(waits)]
    service = Service(NodeSeen(node("n1")), NodeSeen(node("n2")), OTHERS, *events, Synced())
    found = (await service.ask("/queue"))["jobs"]
    assert {j["name"]: (j["waits"]["reason"], j["starving"]) for j in found} == {
        "large": ("GangExceedsCluster", False),
        "podless": ("WaitingForPods", False),
        "waits": ("RoomHeldByOtherPods", True),
    }


def test_members_of_a_running_job_that_have_no_node_are_told_beside_the_queue() -> None:
    (found,) = unplaced_members(scaled_out().snapshot)
    assert (found.key, found.kind, found.members) == ("team/a", "TFJob", 2)
    assert found.detail.startswith("2 of 4 members have no node: ")


@virtual
async def test_a_malformed_job_is_told_beside_the_queue() -> None:
    wrong = replace(job("wrong", 1), invalid="a: 'b' is not allowed; allowed: c")
    found = await Service(JobSeen(wrong), JobSeen(job("right", 1)), Synced()).ask("/queue")
    assert [one["name"] for one in found["jobs"]] == ["right"]
    assert [(one["name"], one["detail"]) for one in found["invalid"]] == [("wrong", wrong.invalid)]


@virtual
async def test_without_weights_the_queue_goes_by_arrival() -> None:
    jobs = [job("late", 3, arrival=NOW - 10), job("early", 1, arrival=NOW - 20)]
    service = Service(*[JobSeen(one) for one in jobs], Synced(), policy="kubeflow-spread")
    found = (await service.ask("/queue"))["jobs"]
    assert [(j["name"], j["weight"], j["starving"]) for j in found] == [("early", None, False), ("late", None, False)]


@virtual
async def test_a_dead_controller_is_said_in_the_queue() -> None:
    service = running()
    service.vitals.checks = (
        Check("controller", False, "not heard from for 12 s", fatal=False),
        Check("watches", False, "the API server has sent nothing about pods"),
        Check("synced", True),
    )
    found = await service.ask("/queue")
    assert found["warnings"] == [
        "watches: the API server has sent nothing about pods",
        "controller: not heard from for 12 s",
    ]


@virtual
async def test_explain_says_what_is_needed_what_each_node_lacks_and_what_mends_it() -> None:
    found = await running().ask("/explain/team/big")
    assert [(need["role"], need["members"], need["requests"]["cpu"]["exact"]) for need in found["needs"]] == [
        ("ps", 1, 3500),
        ("worker", 2, 3500),
    ]
    lacks = {node["node"]: (node["free"]["cpu"]["exact"], node["missing"]["cpu"]["exact"]) for node in found["nodes"]}
    assert sorted(lacks.values()) == [(2500, 8000), (4000, 6500)]
    assert "ask for fewer or smaller members" in found["mend"]
    assert found["waits"]["reason"] == "GangExceedsCluster"


EXPLAINED = {
    "needs": ["role", "members", "requests"], "nodes": ["node", "free", "missing", "refused", "avoided", "promised"],
    "unblock": ["kind", "size", "text"],
}  # fmt: skip


@virtual
async def test_explain_is_the_job_and_the_fields_of_the_explanation_and_the_history() -> None:
    """Scripts read these field names, so renaming a field in the policy must not rename it in the answer."""
    service = running()
    found, job_of = await service.ask("/explain/team/big?unblock=true"), await service.ask("/jobs/team/big")
    assert [
        *job_of, "mend", "needs", "ahead", "plan", "missing_pods", "checked_singly", "shrunk_for", "waits_for", "nodes",
        "held", "arithmetic", "running", "schedule", "expected", "unblock", "history",
    ] == [*found]  # fmt: skip
    assert {name: [*found[name][0]] for name in EXPLAINED} == EXPLAINED
    assert found["waits"] == job_of["waits"]
    assert set(found["waits"]) == {"reason", "text", "detail", "behind"}
    assert set(found["expected"]) == {"at", "in_seconds", "basis"}
    ran = (await service.ask("/explain/team/a?unblock=true"))["running"]
    assert list(ran) == ["placement", "pairs", "crossing", "traffic", "growth"]


@virtual
async def test_what_would_admit_a_job_now_is_told_to_whoever_asks_for_it() -> None:
    service = running()
    assert (await service.ask("/explain/team/big"))["unblock"] is None
    changes = (await service.ask("/explain/team/big?unblock=true"))["unblock"]
    assert [(change["kind"], change["text"]) for change in changes] == [("nodes", "add 2 nodes like n1")]


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_change_can_be_told(kind: Kind) -> None:
    changes: TypeAdapter[ProvedChange] = TypeAdapter(ProvedChange)
    told = changes.dump_json(ProvedChange(kind, 1, "do it"))
    assert json.loads(told)["kind"] == f"{kind}"
    assert changes.validate_json(told).kind is kind


@virtual
async def test_room_that_a_finished_job_holds_is_shown_wherever_people_look() -> None:
    kept = pod(A, "ps", 0, node="n1")
    service = Service(*CLUSTER, JobSeen(replace(A, finished=True, keeps_pods=True)), PodSeen(kept), Synced())
    held = [{"job": "team/a", "pod": "a-ps-0", "node": "n1"}]
    for path in ("/explain/team/a", "/queue", "/nodes"):
        found = (await service.ask(path))["held"]
        assert [{key: room[key] for key in ("job", "pod", "node")} for room in found] == held
    story, nodes = await service.ask("/explain/team/a"), await service.ask("/nodes")
    assert (story["state"], "cleanPodPolicy: Running" in story["mend"]) == ("completed", True)
    assert [(guest["pod"], guest["finished"]) for guest in nodes["nodes"][0]["members"]] == [("a-ps-0", True)]


@virtual
async def test_explain_shows_who_is_ahead_and_why_and_the_plan_of_an_admitted_job() -> None:
    service = running()
    service.step(JobSeen(job("more", cpu=3900, arrival=NOW)), *pods(job("more", cpu=3900)))
    (ahead,) = (await service.ask("/explain/team/more"))["ahead"]
    assert (ahead["job"], ahead["why"].startswith("has more weight (0.")) == ("team/big", True)
    assert (await service.ask("/explain/team/a"))["plan"].keys() == {"ps-0", "worker-0", "worker-1"}


@virtual
async def test_a_job_that_waits_behind_another_names_it() -> None:
    service = running()
    verdicts = {BIG.uid: Verdict(Reason.BEHIND, "", A.uid)}
    service.ledger.snapshot = replace(service.ledger.snapshot, verdicts=verdicts)
    assert (await service.ask("/explain/team/big"))["waits"]["behind"] == "team/a"


@virtual
async def test_an_admitted_job_whose_room_is_being_freed_says_so_and_for_whom_it_waits() -> None:
    service = running()
    snapshot = service.ledger.snapshot
    gang = replace(snapshot.gang(A.uid), waits_for=frozenset({"pod-big-ps-0"}))
    service.ledger.snapshot = replace(snapshot, gangs={A.uid: gang})
    assert (await service.ask("/jobs/team/a"))["waits"]["reason"] == "RoomBeingFreed"
    assert (await service.ask("/plans"))["plans"][0]["waits_for"] == ["team/big-ps-0"]


@pytest.mark.parametrize(
    "path", ["/queue", "/jobs", "/nodes", "/plans", "/decisions", "/jobs/team/a", "/explain/team/a"]
)
@virtual
async def test_an_answer_says_why_it_may_not_be_all(path: str) -> None:
    service = running()
    assert (await service.ask(path))["warnings"] == []
    service.step(Led(False))
    assert (await service.ask(path))["warnings"] == [rest.FOLLOWS]


@virtual
async def test_a_follower_says_whom_to_ask() -> None:
    service = running()
    service.step(Led(False))
    found = await service.ask("/queue?expected=true")
    assert {waiting["expected"] for waiting in found["jobs"]} == {None}
    assert (await service.ask("/explain/team/big?unblock=true"))["expected"] is None
    assert {waiting["waits"]["reason"] for waiting in found["jobs"]} == {"NotLeading"}
    assert (await service.ask("/desired"))["gate"] is None


STATES = {
    "a malformed job says which field": (job("x", invalid="spec: bad"), "invalid", "JobInvalid", "spec: bad"),
    "a suspended one waits for its user": (job("x", suspended=True), "suspended", "JobSuspended", ""),
    "one without pods waits for them": (job("x"), "waiting", "WaitingForPods", "ps 0 of 1, worker 0 of 2"),
}


@pytest.mark.parametrize(("seen", "state", "reason", "detail"), STATES.values(), ids=STATES.keys())
@virtual
async def test_a_job_that_does_not_run_says_why(seen: Job, state: str, reason: str, detail: str) -> None:
    found = await Service(*CLUSTER, JobSeen(seen), Synced()).ask("/explain/team/x")
    assert (found["state"], found["waits"]["reason"], found["waits"]["detail"]) == (state, reason, detail)


MENDS = {"TFJob": "set spec.runPolicy.suspend to false", "Job": "set spec.suspend to false"}


@pytest.mark.parametrize(("kind", "mend"), MENDS.items())
@virtual
async def test_what_lets_a_suspended_job_go_on_is_the_field_of_its_kind(kind: str, mend: str) -> None:
    found = await Service(*CLUSTER, JobSeen(job("x", suspended=True, kind=kind)), Synced()).ask("/explain/team/x")
    assert found["mend"] == f"{mend}, as `kohort resume team/x` does"


@virtual
async def test_before_every_list_is_in_the_ledger_itself_is_the_reason() -> None:
    found = await Service(JobSeen(A)).ask("/queue")
    assert found["jobs"][0]["waits"]["reason"] == "LedgerNotReady"


# -- The tests below are about the routes of nodes and of plans. ---------------------------------


@virtual
async def test_a_node_shows_what_is_free_and_whose_members_it_has() -> None:
    other = Pod("o", "x", "other", SMALL, node="n2")
    service = Service(NodeSeen(node("n1")), JobSeen(A), *pods(A), Synced())
    ended = pod(B, "worker", 0, node="n2", phase=Phase.SUCCEEDED)
    ours = pod(B, "worker", 1, node="n2")
    service.step(NodeSeen(node("n2")), PodSeen(other), JobSeen(B), PodSeen(ended), PodSeen(ours))
    first, second = (await service.ask("/nodes"))["nodes"]
    assert first["allocatable"]["memory"] == {"quantity": "8Gi", "exact": 8 * GIB}
    assert first["free"]["cpu"] == {"quantity": "2500m", "exact": 2500}
    assert [(m["job"], m["role"], m["index"], m["state"]) for m in first["members"]] == [
        ("team/a", "ps", 0, "planned"),
        ("team/a", "worker", 0, "planned"),
        ("team/a", "worker", 1, "planned"),
    ]
    assert [(m["pod"], m["state"]) for m in second["members"]] == [("", "planned"), ("b-worker-1", "bound")]
    assert second["other_pods"] == 1


@virtual
async def test_a_plan_shows_nodes_and_who_is_at_the_barrier() -> None:
    service = Service(NodeSeen(node("n1")), JobSeen(A), *pods(A), Synced())
    service.step(BindHeld("pod-a-ps-0", "n1"))
    (plan,) = (await service.ask("/plans"))["plans"]
    assert (plan["name"], plan["state"], plan["workers"]) == ("a", "planned", 2)
    assert plan["nodes"] == {"ps-0": "n1", "worker-0": "n1", "worker-1": "n1"}
    assert plan["at_barrier"] == ["ps-0"]
    assert plan["window_ends_in_seconds"] == 8.0


# -- The tests below are about the route by which the controller asks what it is to do. ----------


@virtual
async def test_the_controller_is_told_whose_gates_to_remove() -> None:
    service = Service(*CLUSTER, JobSeen(A), *pods(A, gated=True), Synced())
    found = await service.ask("/desired")
    assert [order["name"] for order in found["ungate"]] == ["a-ps-0", "a-worker-0", "a-worker-1"]
    assert found["gate"] is False


@virtual
async def test_a_resize_names_the_apis_uid_and_the_version_it_was_decided_on() -> None:
    bound: Iterable[Event] = pods(B, node="n1", version=5)
    service = Service(*CLUSTER, JobSeen(B), *bound, Synced())
    (order,) = (await service.ask("/desired"))["replicas"]
    assert (order["uid"], order["kind"], order["replicas"], order["version"]) == ("u-b", "TFJob", 2, 3)
    assert order["workers"] > 2


GATE = {
    "when-queued, a queue: on": ("when-queued", True, True),
    "when-queued, none: off": ("when-queued", False, False),
    "always": ("always", False, True),
    "never": ("never", True, False),
}


@pytest.mark.parametrize(("setting", "queue", "want"), GATE.values(), ids=GATE.keys())
@virtual
async def test_the_gate_follows_its_setting(setting: str, queue: bool, want: bool) -> None:
    alike = [job(name, cpu=1500) for name in ("first", "second")]
    waiting = [event for one in alike for event in (JobSeen(one), *pods(one))] if queue else []
    found = await Service(*CLUSTER, *waiting, Synced(), gate=setting).ask("/desired")
    assert found["gate"] is want


@virtual
async def test_while_nobody_may_decide_the_gate_stays_as_it_is() -> None:
    found = await Service(*CLUSTER, JobSeen(BIG), gate="always").ask("/desired")
    assert found["gate"] is None


BESIDE = {
    "jobs": ("/jobs", "jobs_view"),
    "queue": ("/queue", "queue_view"),
    "expected starts": ("/queue?expected=true", "foresee"),
    "nodes": ("/nodes", "nodes_view"),
    "plans": ("/plans", "plans_view"),
    "decisions": ("/decisions", "decisions_view"),
    "explain": ("/explain/team/big", "explain_view"),
    "what would admit the job": ("/explain/team/big?unblock=true", "explanation"),
    "what-if": ("/what-if", "answer"),
}


@pytest.mark.parametrize(("path", "made_by"), BESIDE.values(), ids=BESIDE.keys())
@virtual
async def test_what_people_ask_is_answered_beside_the_loop(
    path: str, made_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is made on another thread, so the event loop can answer kube-scheduler in the meantime.

    benchmarks/beside.py measures the remaining cost.
    """
    threads: list[int] = []
    make = getattr(rest, made_by)

    def noted(*arguments: object, **named: object) -> object:
        threads.append(threading.get_ident())
        return make(*arguments, **named)

    monkeypatch.setattr(rest, made_by, noted)
    service = running()
    service.step(Led(True))
    if path == "/what-if":
        answer = await service.client.post("/v1/what-if", json={"remove_nodes": ["n1"]})
        assert answer.status_code == 200, answer.text
    else:
        await service.ask(path)
    assert threads
    assert threading.get_ident() not in threads


@virtual
async def test_a_long_poll_ends_with_the_next_change() -> None:
    service = running()
    before = await service.ask("/desired")
    asking = asyncio.create_task(service.ask(f"/desired?after={before['generation']}&timeout_seconds=30"))
    await asyncio.sleep(0)
    service.step(NodeSeen(node("n3")))
    after = await asking
    assert after["generation"] == before["generation"] + 1
    assert after["instance"] == before["instance"]


@virtual
async def test_a_long_poll_without_a_change_ends_in_time() -> None:
    service = running()
    before = await service.ask("/desired")
    assert await service.ask(f"/desired?after={before['generation']}&timeout_seconds=1") == before


@virtual
async def test_a_generation_of_another_process_is_not_waited_for() -> None:
    service = running()
    service.ledger.changed = None  # type: ignore[method-assign,assignment]  # waiting would fail
    await service.ask("/desired?after=5000&timeout_seconds=30")


@virtual
async def test_only_the_controllers_question_is_its_sign_of_life() -> None:
    service = running()
    assert service.vitals.controller is not None
    await service.ask("/desired")
    assert not service.vitals.controller.heard
    await service.ask("/desired", client="controller")
    assert service.vitals.controller.heard


# -- The tests below are about the route of decisions. -------------------------------------------


@virtual
async def test_decisions_are_told_in_words_after_a_number() -> None:
    service = running()
    found = await service.ask("/decisions")
    (admitted,) = found["decisions"]
    assert (admitted["action"], admitted["job"]["name"], admitted["job"]["uid"]) == ("Admit", "a", "u-a")
    assert admitted["text"] == "planned: to start with 2 workers on 1 node"
    assert found["latest"] == admitted["sequence"]
    assert (await service.ask(f"/decisions?since={found['latest']}"))["decisions"] == []


@virtual
async def test_a_resize_says_which_way_it_goes_also_where_its_admission_was_read_before() -> None:
    service = Service(JobSeen(A), JobSeen(B), Synced())
    one = {Slot("worker", 2): "n1"}
    effects: list[Effect] = [
        Admit(B.uid, 4, {}),
        Resize(B.uid, 2, on_behalf_of=A.uid),
        Resize(B.uid, 3, one),
        Resize(B.uid, 3, one),
    ]
    service.ledger.journal.write(NOW, 1, [], effects, snapshots=[service.ledger.snapshot])
    found = (await service.ask("/decisions?since=1"))["decisions"]
    assert (await service.ask("/decisions?since=0&limit=2"))["latest"] == 2
    newest = await service.ask("/decisions?limit=2")
    assert ([entry["sequence"] for entry in newest["decisions"]], newest["latest"]) == ([3, 4], 4)
    assert [(entry["direction"], entry["text"]) for entry in found] == [
        ("in", "asked to scale in to 2 workers for team/a"),
        ("out", "asked to scale out to 3 workers"),
        ("", "planned: new nodes for 1 member"),
    ]


@pytest.mark.parametrize(("back", "ends"), [(False, "Kohort still waits for them"), (True, "Kohort takes them back")])
@virtual
async def test_workers_that_do_not_come_are_told_of(back: bool, ends: str) -> None:
    service = Service(JobSeen(B), Synced())
    stalled, snapshots = Stalled(B.uid, 4, 3, given_back=back), [service.ledger.snapshot]
    service.ledger.journal.write(NOW, 1, [], [stalled], snapshots=snapshots)
    (entry,) = (await service.ask("/decisions"))["decisions"]
    assert (entry["job"]["name"], entry["reason"], entry["workers"]) == ("b", "GrowthStalled", 4)
    assert entry["text"] == f"3 of the 4 workers that the job was given have not arrived: {ends}"


@pytest.mark.parametrize(("left", "told"), [(1, "1 worker taken away has"), (2, "2 workers taken away have")])
@virtual
async def test_workers_that_do_not_go_are_told_of_at_the_job_that_they_were_taken_from(left: int, told: str) -> None:
    service = Service(JobSeen(A), JobSeen(B), Synced())
    stalled, snapshots = ShrinkStalled(B.uid, 2, left, on_behalf_of=A.uid), [service.ledger.snapshot]
    service.ledger.journal.write(NOW, 1, [], [stalled], snapshots=snapshots)
    (entry,) = (await service.ask("/decisions"))["decisions"]
    assert (entry["job"]["name"], entry["reason"], entry["workers"]) == ("b", "ShrinkStalled", 2)
    assert entry["on_behalf_of"] == "team/a"
    assert entry["text"] == f"{told} not gone in time: the plan of team/a was given up"


# -- The tests below are about wrong requests. ---------------------------------------------------

WRONG = {
    "not a number": ("/desired?after=x", "after", "x", "a whole number of at least -1"),
    "too long a wait": ("/desired?timeout_seconds=3600", "timeout_seconds", "3600", "a number from 0 to 60"),
    "no amount": ("/desired?timeout_seconds=soon", "timeout_seconds", "soon", "a number from 0 to 60"),
    "no number at all": ("/desired?timeout_seconds=nan", "timeout_seconds", "nan", "a number from 0 to 60"),
    "before the first": ("/decisions?since=-1", "since", "-1", "a whole number of at least 0"),
    "a part of one": ("/decisions?since=1.5", "since", "1.5", "a whole number of at least 0"),
    "a limit in words": ("/jobs?limit=zz", "limit", "zz", "a whole number from 1 to 5000"),
    "a limit of nothing": ("/queue?limit=0", "limit", "0", "a whole number from 1 to 5000"),
    "neither yes nor no": ("/explain/team/a?unblock=perhaps", "unblock", "perhaps", "true or false"),
    "too long a text": (f"/comparison?policy={'x' * 101}", "policy", "x" * 100, "text of at most 100 characters"),
}


@pytest.mark.parametrize(("path", "field", "value", "allowed"), WRONG.values(), ids=WRONG.keys())
@virtual
async def test_a_wrong_request_is_told_what_is_allowed(path: str, field: str, value: str, allowed: str) -> None:
    found = await running().ask(path, status=422)
    assert (found["field"], found["value"], found["allowed"]) == (field, value, allowed)
    assert found["detail"] == f"{field}: {value!r} is not allowed; allowed: {allowed}"


@virtual
async def test_a_parameter_that_there_is_not_is_told_which_there_are() -> None:
    found = await running().ask("/decisions?sinc=1", status=422)
    assert (found["field"], found["value"], found["allowed"]) == ("sinc", "1", "since, limit")
    assert found["detail"] == "sinc: unknown; allowed: since, limit"


@pytest.mark.parametrize("path", ["/stream?since=abc", "/jobs/team/a?since=abc"])
@virtual
async def test_a_route_without_parameters_refuses_any(path: str) -> None:
    found = await running().ask(path, status=422)
    assert (found["field"], found["value"], found["allowed"]) == ("since", "abc", "none")
    assert found["detail"] == "since: unknown; allowed: none"


@virtual
async def test_a_parameter_that_is_missing_is_told_as_such() -> None:
    found = await running().ask("/comparison", status=422)
    assert (found["field"], found["value"]) == ("policy", "")
    assert found["detail"] == f"policy: missing; allowed: {found['allowed']}"
    assert found["allowed"].startswith("text of at most 100 characters (the policy to compare with: one of dragon, ")


JSON = "application/json"
A_BODY = "a JSON object, with content-type: application/json"
BODIES = {
    "no JSON": (b"xx", JSON, "xx"),
    "no JSON, and not said to be any": (b"xx", "", "xx"),
    "JSON that is not said to be any": (b'{"cordon":["n1"]}', "application/x-www-form-urlencoded", '{"cordon":["n1"]}'),
    "a list": (b"[1]", JSON, "[1]"),
    "null": (b"null", JSON, ""),
    "no text": (b'{"policy": "\xff"}', JSON, '{"policy": "\ufffd"}'),
    "too deep": (b"[" * 100_000, JSON, "[" * 100),
    "nothing": (b"", JSON, ""),
}


@pytest.mark.parametrize(("body", "kind", "value"), BODIES.values(), ids=BODIES.keys())
@virtual
async def test_a_body_that_is_no_json_object_is_told_what_it_should_be(body: bytes, kind: str, value: str) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = await running().client.post("/v1/what-if", content=body, headers=headers)
    found = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert (found["field"], found["value"], found["allowed"]) == ("body", value, A_BODY)
    what = f"{value!r} is not allowed" if value else "missing"
    assert found["detail"] == f"body: {what}; allowed: {A_BODY}"


UNROUTED = {
    "no path": ("GET", "/v1/nope", 404, "path", "/v1/nope", "/openapi.json"),
    "no path outside of /v1": ("POST", "/nope", 404, "path", "/nope", "/openapi.json"),
    "another method": ("POST", "/v1/jobs", 405, "method", "POST", "GET"),
    "a method of what is asked with a body": ("GET", "/v1/what-if", 405, "method", "GET", "POST"),
    "a method that the page has not": ("DELETE", "/", 405, "method", "DELETE", "GET, HEAD"),
}


@pytest.mark.parametrize(("method", "path", "status", "field", "value", "allowed"), UNROUTED.values(), ids=UNROUTED)
@virtual
async def test_what_no_route_takes_is_a_problem(
    method: str, path: str, status: int, field: str, value: str, allowed: str
) -> None:
    app = Live(Settings(), FakeApi(), HandClock(NOW), random.Random(1)).rest()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kohort") as asking:
        answer = await asking.request(method, path)
    found = answer.json()
    assert (answer.status_code, found["status"], answer.headers["content-type"]) == (status, status, PROBLEM)
    assert (found["field"], found["value"]) == (field, value)
    assert found["allowed"] in found["detail"]
    assert allowed in found["allowed"]
    assert answer.headers.get("allow") == (allowed if status == 405 else None)


# -- The tests below are about the OpenAPI description, and about unknown jobs and namespaces. ---

DOCUMENT = documents.openapi()
ROUTES = [(path, method, told) for path, methods in DOCUMENT["paths"].items() for method, told in methods.items()]


@pytest.mark.parametrize(("path", "method", "told"), ROUTES)
def test_every_parameter_and_every_key_of_a_body_is_described(path: str, method: str, told: dict[str, Any]) -> None:
    schemas = [content["schema"] for content in told.get("requestBody", {}).get("content", {}).values()]
    keys = [key for schema in schemas for key in documents.fields(schema, DOCUMENT["components"]["schemas"])]
    every = [(one["name"], one) for one in told.get("parameters", ())] + keys
    assert every, f"{method} {path}: every route has some"
    assert [name for name, one in every if not one.get("description")] == []


@pytest.mark.parametrize(("path", "method", "told"), ROUTES)
def test_every_route_says_which_problems_it_answers_with(path: str, method: str, told: dict[str, Any]) -> None:
    problems = {int(code) for code, one in told["responses"].items() if PROBLEM in one.get("content", {})}
    lacks = {404} if "{name}" in path or path == "/v1/comparison" else set()
    assert problems == {401, 403, 422, 429, 503} | lacks
    assert ("304" in told["responses"]) == (method == "get" and path not in ("/v1/desired", "/v1/stream"))


@pytest.mark.parametrize(("path", "method", "told"), ROUTES)
def test_every_problem_has_an_example(path: str, method: str, told: dict[str, Any]) -> None:
    shown = {
        code: one["content"][PROBLEM] for code, one in told["responses"].items() if PROBLEM in one.get("content", {})
    }
    examples = {code: ProblemView.model_validate(one["example"]) for code, one in shown.items()}
    assert {code: one.status for code, one in examples.items()} == {code: int(code) for code in shown}
    assert examples["422"].field
    assert examples["422"].allowed


@pytest.mark.parametrize("path", ["/jobs/team/c", "/explain/team/c"])
@virtual
async def test_an_unknown_job_is_told_which_there_are(path: str) -> None:
    found = await running().ask(path, status=404)
    assert found["detail"] == "name: no job team/c is known; allowed: one of a, big"


@virtual
async def test_an_unknown_namespace_is_told_as_such() -> None:
    found = await running().ask("/jobs/temp/a", status=404)
    assert "no job of namespace 'temp' has opted in" in found["detail"]
