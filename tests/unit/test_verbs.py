"""The four verbs over HTTP, as kube-scheduler calls them. Numbers are those of extender-protocol.md, section 9."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from extender.barrier import UNKNOWN_OUTCOME
from extender.http.bodies import BodyLimit
from extender.kube.api import Refused, Unknown
from extender.kube.translate import Translator
from extender.kubescheduler.wire import VERBS
from extender.routes.verbs import INTERNAL_ERROR, TOO_LONG, UNREADABLE, Verbs, VerbsFirst, refusal, too_long
from lab.sim.invariants import violations
from policy.cluster.events import JobSeen, Led, NodeGone, NodeSeen, PodGone, PodSeen
from policy.cluster.gang import State
from policy.cluster.pod import Phase, Pod
from policy.cluster.reasons import Reason
from tests.builders import guest, job, members, node, pod, res
from tests.stage import UNREACHABLE, Stage, virtual

Json = dict[str, Any]
A = job("a").ps(1).workers(2)
BODY_LIMIT = 200_000


class Scheduler(Stage):
    """A kube-scheduler that makes the extender's calls."""

    def __init__(self, *nodes: str, places: int = 100, elects: bool = False, **rules: Any) -> None:
        super().__init__(*nodes, places=places, **rules)
        self.observed: list[tuple[str, str]] = []
        self.looks, self.lease_is_ours = 0, False
        self.verbs = Verbs(
            self.ledger, self.barrier, self.api, Translator("kohort"), "kohort",
            lambda verb, seconds, reason: self.observed.append((verb, reason)), self._look,
            elects=elects,
        )  # fmt: skip
        app = VerbsFirst(self.verbs, "/scheduler/v1", Starlette())
        transport = httpx.ASGITransport(app=BodyLimit(app, BODY_LIMIT, too_long))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://kohort", timeout=None)

    async def _look(self) -> None:
        self.looks += 1
        self.ledger.step(Led(self.lease_is_ours))

    async def post(self, verb: str, body: object) -> Any:
        """Send the body to the verb; return the decoded answer, whose status is always 200."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.http.post(f"/scheduler/v1/{verb}", content=content)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        return answer.json()

    async def filter(self, who: Pod, *names: str, item: Json | None = None) -> Json:
        answer: Json = await self.post("filter", args(item or body_of(who), names or ("n1", "n2")))
        assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
        return answer

    async def bind(self, who: Pod, where: str, **changes: str) -> str:
        body = {"PodName": who.name, "PodNamespace": who.namespace, "PodUID": who.uid, "Node": where} | changes
        answer = await self.post("bind", body)
        assert set(answer) == {"Error"}
        return str(answer["Error"])

    async def schedule(self, *pods: Pod) -> list[str]:
        """Filter each pod in turn, then bind all at once, each to the node that it was given; return the
        error texts.
        """
        given = [(await self.filter(one))["NodeNames"] for one in pods]
        assert all(len(names) == 1 for names in given)
        return await asyncio.gather(*(self.bind(one, names[0]) for one, names in zip(pods, given, strict=True)))

    async def prioritize(self, who: Pod, *names: str) -> dict[str, int]:
        scores = await self.post("prioritize", args(body_of(who), names))
        assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in scores)
        return {entry["Host"]: entry["Score"] for entry in scores}


def body_of(who: Pod, scheduler: str = "kohort", **status: Any) -> Json:
    """Return the pod as kube-scheduler sends it; a member has its owner and labels."""
    meta: Json = {"name": who.name, "namespace": who.namespace, "uid": who.uid, "resourceVersion": "1"}
    if who.slot is not None:
        owner = who.name.removesuffix(f"-{who.slot}")
        ref = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": owner, "uid": f"job-{owner}"}
        prefix = "training.kubeflow.org/replica"
        meta["labels"] = {f"{prefix}-type": who.slot.role, f"{prefix}-index": str(who.slot.index)}
        meta["ownerReferences"] = [ref | {"controller": True}]
    requests = {"cpu": f"{who.requests['cpu']}m", "memory": str(who.requests["memory"])}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending", **status}}


def args(item: Any, names: Sequence[str] | None = ("n1", "n2"), nodes: Any = None) -> Json:
    return {"Pod": item, "Nodes": nodes, "NodeNames": None if names is None else list(names)}


def kept(*names: str) -> Json:
    return {"Nodes": None, "NodeNames": list(names), "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""}


def refused(reason: Reason, *names: str) -> Json:
    """Return the filter's answer that refuses all nodes; it names only the first, and unnamed nodes are refused as
    well.
    """
    return kept() | {"FailedAndUnresolvableNodes": dict.fromkeys((names or ("n1", "n2"))[:1], reason.text)}


# -- The tests below are about the verb filter. --------------------------------------------------


@virtual
async def test_a_planned_member_gets_its_planned_node_and_no_other() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    for member in pods:
        assert await stage.filter(member) == kept(stage.planned(member))
    assert stage.observed == [("filter", "")] * 3


@virtual
async def test_the_first_call_after_a_take_over_is_answered_by_a_leader() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    stage.ledger.step(Led(False))
    stage.lease_is_ours = True
    answers = [await stage.filter(one) for one in pods[:2]]
    assert answers == [kept(stage.planned(one)) for one in pods[:2]]
    assert stage.looks == 1


@virtual
async def test_a_replica_that_does_not_lead_refuses_after_its_look() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    stage.ledger.step(Led(False))
    assert await stage.filter(pods[0]) == refused(Reason.NOT_LEADING)
    assert stage.looks == 1


@virtual
async def test_who_does_not_lead_behind_one_address_lets_the_connection_go() -> None:
    """Behind a Service an open connection stays on its replica, even when another replica leads."""
    for elects in (False, True):
        stage = Scheduler(elects=elects)
        pods = stage.submit(A)
        closes = []
        for leads in (True, False):
            stage.ledger.step(Led(leads))
            body = json.dumps(args(body_of(pods[0]), ["n1"])).encode()
            answer = await stage.http.post("/scheduler/v1/filter", content=body)
            closes.append(answer.headers.get("connection") == "close")
        assert closes == [False, elects]


@virtual
async def test_1_2_a_repeated_filter_reserves_nothing_twice() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    before = (stage.ledger.snapshot.charged, stage.gang(A).nodes)
    answers = [await stage.filter(pods[0]) for _ in range(5)]
    assert answers == [kept(stage.planned(pods[0]))] * 5
    assert (stage.ledger.snapshot.charged, stage.gang(A).nodes) == before


@virtual
async def test_3_a_pod_deleted_after_its_filter_is_not_brought_back_by_the_next_call() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    await stage.filter(pods[0])
    stage.ledger.step(PodGone(pods[0].uid))
    assert await stage.filter(pods[0]) == refused(Reason.POD_GONE)
    assert await stage.bind(pods[0], "n1") == Reason.POD_GONE.text
    assert pods[0].uid not in stage.ledger.snapshot.pods


@virtual
async def test_3_a_pod_is_not_brought_back_by_a_call_before_the_step_that_takes_it_out() -> None:
    """In simulation seed 116540 the watch reported a pod's creation and deletion in one batch."""
    stage = Scheduler()
    pods = stage.submit(A)
    stage.ledger.queue(PodGone(pods[0].uid))
    assert await stage.filter(pods[0]) == refused(Reason.POD_GONE)
    stage.ledger.step()
    assert pods[0].uid not in stage.ledger.snapshot.pods


@virtual
async def test_3_a_pod_deleted_before_our_start_is_not_brought_back_by_a_late_call() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    stage.ledger.step(PodGone(pods[0].uid))
    stage.ledger._gone.clear()  # a process that has just started does not know which pods are gone
    stage.ledger.listed(frozenset(pod.uid for pod in pods[1:]), 7)
    assert await stage.filter(pods[0]) == refused(Reason.POD_GONE)
    assert pods[0].uid not in stage.ledger.snapshot.pods


@virtual
async def test_4_a_pod_recreated_under_its_name_is_another_pod() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    where = stage.planned(pods[0])
    new = replace(pods[0], uid="uid-new", since=pods[0].since + 5)
    stage.ledger.step(PodGone(pods[0].uid), PodSeen(new))
    assert await stage.bind(pods[0], where) == Reason.POD_GONE.text, "the bind of the old one comes late"
    assert await stage.schedule(new, *pods[1:]) == ["", "", ""]
    assert {uid for _, uid, _, _ in stage.api.bindings} == {"uid-new", pods[1].uid, pods[2].uid}


@virtual
async def test_5_6_a_bound_pod_that_is_asked_about_again_gets_its_own_node_only() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    assert await stage.schedule(*pods) == ["", "", ""]
    where = stage.ledger.snapshot.pods[pods[0].uid].node or stage.planned(pods[0])
    other = next(name for name in ("n1", "n2") if name != where)
    assert await stage.filter(pods[0]) == kept(where)
    assert await stage.filter(pods[0], other) == refused(Reason.NODE_NOT_OFFERED, other)
    stage.api.answers["a-ps-0"] = Refused(409, "Conflict", "already assigned")
    stage.api.shows(pods[0], where)
    assert await stage.bind(pods[0], where) == ""
    assert await stage.bind(pods[0], other) == Reason.PLAN_CHANGED.text


@virtual
async def test_8_9_an_answer_never_says_bound_when_it_is_not() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    stage.api.answers |= {"a-ps-0": Unknown("504"), "a-worker-0": Refused(403, "Forbidden", "no")}
    assert await stage.schedule(*pods) == [UNKNOWN_OUTCOME, f"{Reason.BIND_FAILED.text}: Forbidden: no", ""]


@virtual
async def test_10_a_member_that_never_comes_ends_the_wait_of_all_in_the_window() -> None:
    stage = Scheduler(window_seconds=8.0)
    pods = stage.submit(A)
    ticking = asyncio.create_task(stage.ledger.tick(3600))
    started = stage.ledger.clock.now()
    assert await stage.schedule(*pods[:2]) == [Reason.BARRIER_TIMEOUT.text] * 2
    assert stage.ledger.clock.now() == pytest.approx(started + 8, abs=0.1)
    assert (stage.api.bindings, stage.barrier.held) == ([], 0)
    ticking.cancel()


@virtual
async def test_13_16_17_all_pods_of_a_node_count_until_they_are_gone_or_ended() -> None:
    stage = Scheduler("n1")
    big = job("big").workers(1, cpu=8)
    going = replace(guest("other", "n1", cpu=5), terminating=True)
    stage.ledger.step(PodSeen(going))
    (member,) = stage.submit(big)
    assert (await stage.filter(member, "n1"))["NodeNames"] == []
    stage.ledger.step(PodSeen(replace(going, phase=Phase.SUCCEEDED, version=2)))
    assert await stage.filter(member, "n1") == kept("n1")


@virtual
async def test_18_a_worker_that_has_ended_is_not_missing() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    await stage.schedule(*pods)
    stage.ledger.step(*(PodSeen(replace(p, node="n1", phase=Phase.RUNNING, version=2)) for p in pods))
    stage.ledger.step(PodSeen(replace(pods[1], node="n1", phase=Phase.SUCCEEDED, version=3)))
    assert stage.gang(A).state is State.RUNNING


@virtual
async def test_19_a_node_deleted_between_filter_and_bind_is_refused() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    where = (await stage.filter(pods[0]))["NodeNames"][0]
    stage.ledger.step(NodeGone(where))
    assert await stage.bind(pods[0], where) == Reason.PLAN_CHANGED.text
    assert stage.api.bindings == []


@virtual
async def test_20_a_node_cordoned_between_filter_and_bind_is_refused() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    where = (await stage.filter(pods[0]))["NodeNames"][0]
    stage.ledger.step(NodeSeen(node(where, unschedulable=True, version=2)))
    assert await stage.bind(pods[0], where) == Reason.PLAN_CHANGED.text


@virtual
async def test_21_22_a_planned_node_that_is_not_offered_is_replanned_within_the_call() -> None:
    stage = Scheduler("n1", "n2", "n3")
    pods = stage.submit(A)
    planned = stage.planned(pods[0])
    others = [name for name in ("n1", "n2", "n3") if name != planned]
    answer = await stage.filter(pods[0], *others)
    assert answer == kept(stage.planned(pods[0]))
    assert answer["NodeNames"][0] in others
    assert {stage.planned(member) for member in pods} == set(answer["NodeNames"]), "the gang went there together"


@virtual
async def test_22_where_no_planned_node_is_ever_offered_the_refusal_is_stable() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    for _ in range(3):
        answer = await stage.filter(pods[0], "n8", "n9")
        assert (answer["NodeNames"], set(answer["FailedAndUnresolvableNodes"])) == ([], {"n8"})
    assert len(set(answer["FailedAndUnresolvableNodes"].values())) == 1


@virtual
async def test_23_the_question_about_the_nominated_node_alone_does_not_spoil_the_plan() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    planned = stage.planned(pods[0])
    other = next(name for name in ("n1", "n2") if name != planned)
    nominated = body_of(pods[0], nominatedNodeName=other)
    assert await stage.filter(pods[0], other, item=nominated) == refused(Reason.NODE_NOT_OFFERED, other)
    assert stage.planned(pods[0]) == planned
    assert await stage.filter(pods[0], item=nominated) == kept(planned)


@virtual
async def test_23_but_where_the_nominated_node_is_all_there_is_the_gang_goes_there() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    other = next(name for name in ("n1", "n2") if name != stage.planned(pods[0]))
    nominated = body_of(pods[0], nominatedNodeName=other)
    assert (await stage.filter(pods[0], other, item=nominated))["NodeNames"] == []
    assert await stage.filter(pods[0], other, item=nominated) == kept(other)


@virtual
async def test_22_one_node_that_is_not_nominated_is_an_offer_like_any_other() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    other = next(name for name in ("n1", "n2") if name != stage.planned(pods[0]))
    assert await stage.filter(pods[0], other, item=body_of(pods[0], nominatedNodeName=None)) == kept(other)


@virtual
async def test_24_filter_and_prioritize_never_call_the_api() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    for member in pods:
        await stage.filter(member)
        await stage.prioritize(member, "n1", "n2")
    await stage.filter(pod("stranger"), item=body_of(pod("stranger")))
    assert (stage.api.reads, stage.api.bindings) == (0, [])


@virtual
async def test_25_a_worker_beyond_what_the_job_was_given_is_refused_as_such() -> None:
    stage = Scheduler("n1")
    elastic = job("a").ps(1).workers(1, 9, asked=9, cpu=3)
    pods = stage.submit(elastic)
    given = stage.gang(elastic).workers
    assert 1 <= given < 9
    assert await stage.filter(pods[-1], "n1") == refused(Reason.SURPLUS, "n1")
    assert await stage.filter(pods[given], "n1") == kept("n1")


@virtual
async def test_26_a_hundred_refusals_of_varied_gangs_give_one_text_per_reason() -> None:
    stage = Scheduler("n1")
    waiting = [job(f"big{index}").ps(1).workers(2 + index % 7, cpu=4) for index in range(100)]
    pods = stage.submit(*waiting)
    firsts = [next(p for p in pods if p.job_uid == one.made.uid) for one in waiting]
    texts: dict[str, set[str]] = {}
    for _ in range(2):
        for member in firsts:
            answer = await stage.filter(member, "n1")
            if not answer["NodeNames"]:
                texts.setdefault(stage.observed[-1][1], set()).update(answer["FailedAndUnresolvableNodes"].values())
    assert len(texts) >= 2
    assert all(found == {Reason(code).text} for code, found in texts.items())


WAITS: dict[str, tuple[Any, Reason]] = {
    "suspended": (A.with_(suspended=True), Reason.SUSPENDED),
    "malformed": (A.with_(invalid="spec.x: 1 is not allowed"), Reason.INVALID),
    "finished": (A.with_(finished=True), Reason.FINISHED),
    "too large": (job("a").ps(1).workers(2, cpu=11), Reason.TOO_LARGE),
    "unsupported": (job("a").ps(1, unsupported=("resourceClaims",)).workers(2), Reason.UNSUPPORTED),
    "more than the barrier's settings admit": (job("a").ps(1).workers(500), Reason.WINDOW_TOO_SHORT),
}


@pytest.mark.parametrize(("one", "reason"), WAITS.values(), ids=WAITS.keys())
@virtual
async def test_why_a_gang_waits(one: Any, reason: Reason) -> None:
    stage = Scheduler()
    pods = stage.submit(one)
    assert await stage.filter(pods[0]) == refused(reason)
    assert stage.observed == [("filter", reason.value)]


@virtual
async def test_a_pod_that_filter_sees_before_the_watch_completes_its_gang() -> None:
    stage = Scheduler()
    made = A.with_(uid="team/job-a").done()
    pods = members(made)
    stage.ledger.step(JobSeen(made), *(PodSeen(p) for p in pods[:-1]))
    assert await stage.filter(pods[0]) == refused(Reason.WAITING_FOR_PODS)
    assert await stage.filter(pods[-1]) == kept(stage.planned(pods[-1]))
    assert violations(stage.ledger.snapshot) == []


@virtual
async def test_a_body_takes_no_room_by_saying_that_its_pod_is_on_a_node() -> None:
    stage = Scheduler()
    item = body_of(members(A.done())[0])
    item["spec"]["nodeName"] = "n1"
    before = stage.ledger.snapshot
    assert await stage.filter(pod("x"), item=item) == refused(Reason.UNKNOWN_JOB)
    assert (stage.ledger.snapshot.charged, stage.ledger.snapshot.pods) == (before.charged, before.pods)


@virtual
async def test_a_body_does_not_take_the_place_of_a_known_job() -> None:
    """A pod without an owner becomes a job under the pod's uid, which the sender of the body chooses."""
    stage = Scheduler()
    stage.submit(job("a", uid="team/own").ps(1).workers(2))
    (known,) = stage.ledger.snapshot.jobs.values()
    await stage.post("filter", args(body_of(pod("x", uid="own", requests=res(1)))))
    assert list(stage.ledger.snapshot.jobs.values()) == [known]


@virtual
async def test_facts_that_may_complete_the_gang_are_applied_before_the_answer() -> None:
    stage = Scheduler()
    made = A.done()
    pods = members(made)
    stage.ledger.step(JobSeen(made), PodSeen(pods[0]))
    stage.ledger.post(*(PodSeen(p) for p in pods[1:]))
    assert (await stage.filter(pods[0]))["NodeNames"] == [stage.planned(pods[0])]


@virtual
async def test_other_facts_do_not_hold_the_answer_up() -> None:
    """A thousand refused pods are filtered one by one, and each refusal arrives as an event."""
    stage = Scheduler()
    mine, other = (job(name).ps(1).workers(2, cpu=50).done() for name in ("mine", "other"))
    pods = members(mine)
    stage.ledger.step(*(JobSeen(j) for j in (mine, other)), *(PodSeen(p) for p in (*pods, *members(other))))
    seen = stage.ledger.snapshot.generation
    stage.ledger.post(*(PodSeen(replace(p, version=2, refused=True)) for p in (*pods, *members(other))))
    assert await stage.filter(pods[0]) == refused(Reason.TOO_LARGE)
    assert (stage.ledger.snapshot.generation, stage.ledger.dirty) == (seen, True)


@virtual
async def test_a_pod_without_an_owner_is_a_gang_of_one() -> None:
    stage = Scheduler()
    solo = pod("solo", requests=res(1, 1))
    answer = await stage.filter(solo)
    assert len(answer["NodeNames"]) == 1
    assert await stage.bind(solo, answer["NodeNames"][0]) == ""


@virtual
async def test_a_pod_of_an_unknown_job_waits() -> None:
    assert await Scheduler().filter(members(A.done())[0]) == refused(Reason.UNKNOWN_JOB)


@virtual
async def test_before_every_list_is_in_nothing_is_answered_but_that() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    stage.ledger.snapshot = replace(stage.ledger.snapshot, synced=False)
    assert await stage.filter(pods[0]) == refused(Reason.NOT_SYNCED)


# -- The tests below are about whole node objects, nulls, and pods that did not opt in. ------------


@virtual
async def test_whole_nodes_are_answered_with_whole_nodes() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    planned = stage.planned(pods[0])
    nodes = [{"metadata": {"name": name}, "status": {"future": None}} for name in ("n1", "n2")]
    answer = await stage.post("filter", args(body_of(pods[0]), None, {"items": nodes}))
    assert (answer["NodeNames"], answer["Nodes"]["items"]) == (
        None,
        [n for n in nodes if n["metadata"] == {"name": planned}],
    )


NULLS: dict[str, Mapping[str, Any]] = {
    "labels and owners null": {"metadata": {"labels": None, "ownerReferences": None, "annotations": None}},
    "status null": {"status": None},
    "containers null": {"spec": {"containers": None, "initContainers": None, "affinity": None, "volumes": None}},
    "keys of the future": {"metadata": {"fromTheFuture": {"a": [None]}}, "spec": {"x": 1}, "also": []},
}


@pytest.mark.parametrize("changes", NULLS.values(), ids=NULLS.keys())
@virtual
async def test_28_null_and_unknown_keys_are_tolerated(changes: Mapping[str, Any]) -> None:
    item = body_of(pod("solo", requests=res(1, 1)))
    for key, value in changes.items():
        item[key] = {**item.get(key, {}), **value} if isinstance(value, dict) else value
    assert len((await Scheduler().filter(pod("solo"), item=item))["NodeNames"]) == 1


@pytest.mark.parametrize("scheduler", ["default-scheduler", "", None])
@virtual
async def test_29_who_did_not_opt_in_passes_every_verb(scheduler: Any) -> None:
    stage = Scheduler()
    stage.submit(A)
    other = pod("other")
    item = body_of(other, scheduler)
    before = stage.ledger.snapshot
    assert await stage.filter(other, "n9", "n1", item=item) == kept("n9", "n1")
    scores = await stage.post("prioritize", args(item, ("n9", "n1")))
    assert scores == [{"Host": "n9", "Score": 0}, {"Host": "n1", "Score": 0}]
    assert stage.ledger.snapshot is before
    stage.ledger.step(PodSeen(other))
    assert await stage.bind(other, "n9") == ""
    assert stage.api.bindings == [("other", "uid-other", "n9", {})]


@virtual
async def test_29_their_bind_finds_the_pod_that_the_watch_has_not_shown() -> None:
    stage = Scheduler()
    other = pod("other")
    stage.api.shows(other)
    assert await stage.bind(other, "n1") == ""
    assert stage.api.reads == 1


PLAIN_BINDS: dict[str, tuple[Any, str, str]] = {
    "refused": (Refused(403, "Forbidden", "no such right"), "", f"{Reason.BIND_FAILED.text}: no such right"),
    "lost": (Unknown("timed out"), "", UNKNOWN_OUTCOME),
    "bound there already": (Refused(409, "Conflict", "assigned"), "n1", ""),
    "bound elsewhere already": (Refused(409, "Conflict", "assigned"), "n2", f"{Reason.BIND_FAILED.text}: assigned"),
    "a fault of the client": (RuntimeError("bug"), "", INTERNAL_ERROR),
}


@pytest.mark.parametrize(("outcome", "shown", "want"), PLAIN_BINDS.values(), ids=PLAIN_BINDS.keys())
@virtual
async def test_29_their_binds_are_answered_truly(outcome: Any, shown: str, want: str) -> None:
    stage = Scheduler()
    other = pod("other")
    stage.ledger.step(PodSeen(other))
    stage.api.answers["other"] = outcome
    stage.api.shows(other, shown)
    assert await stage.bind(other, "n1") == want


# -- The tests below are about the verb bind. ----------------------------------------------------


@virtual
async def test_a_gang_goes_from_filter_to_bound() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    assert await stage.schedule(*pods) == ["", "", ""]
    await asyncio.sleep(0.1)
    assert stage.gang(A).state is State.RUNNING
    assert stage.observed == [("filter", "")] * 3 + [("bind", "")] * 3


WRONG_BINDS: dict[str, tuple[dict[str, str], str]] = {
    "another uid": ({"PodUID": "uid-older"}, Reason.POD_GONE.text),
    "another name": ({"PodName": "b-ps-0"}, Reason.POD_GONE.text),
    "another namespace": ({"PodNamespace": "team-b"}, Reason.POD_GONE.text),
    "another node": ({"Node": "n9"}, Reason.PLAN_CHANGED.text),
    "no node": ({"Node": ""}, "kohort: kube-scheduler's call is malformed: Node: missing"),
    "no uid": ({"PodUID": ""}, "kohort: kube-scheduler's call is malformed: PodUID: missing"),
}


@pytest.mark.parametrize(("changes", "want"), WRONG_BINDS.values(), ids=WRONG_BINDS.keys())
@virtual
async def test_a_bind_that_is_not_of_this_pod_is_refused(changes: dict[str, str], want: str) -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    assert await stage.bind(pods[0], stage.planned(pods[0]), **changes) == want
    assert (stage.api.bindings, stage.barrier.held) == ([], 0)


@virtual
async def test_a_pod_that_cannot_be_looked_up_is_not_said_to_be_gone() -> None:
    stage = Scheduler()
    stage.api.unreadable = UNREACHABLE
    assert await stage.bind(pod("late"), "n1") == UNREADABLE


@virtual
async def test_a_pod_that_ends_while_it_is_looked_up_is_not_brought_back() -> None:
    stage = Scheduler()
    late = pod("late")
    stage.api.shows(late)
    stage.api.read = lambda: void(stage.ledger.step(PodGone(late.uid)))
    assert await stage.bind(late, "n1") == Reason.POD_GONE.text
    assert late.uid not in stage.ledger.snapshot.pods


def void(_: object) -> None:
    return None


@virtual
async def test_7_a_scheduler_that_hangs_up_is_noticed() -> None:
    stage = Scheduler()
    pods = stage.submit(A)
    where = stage.planned(pods[0])
    body = {"PodName": pods[0].name, "PodNamespace": "team", "PodUID": pods[0].uid, "Node": where}
    messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Json:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(3)
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    calling = asyncio.create_task(stage.verbs.bind(request))
    await asyncio.sleep(1)
    assert stage.barrier.held == 1
    await calling
    await asyncio.sleep(0.1)  # time for the other bind calls, if they hang up as well
    assert (stage.barrier.held, dict(stage.gang(A).held)) == (0, {})


# -- The tests below are about the verb prioritize, and the setting `answer: ranked`. ----------------


@virtual
async def test_scores_are_whole_and_prefer_the_plan_and_the_company() -> None:
    stage = Scheduler("n1", "n2", "n3")
    wide = job("a").ps(1, cpu=1).workers(4, cpu=4)
    pods = stage.submit(wide)
    planned = stage.planned(pods[0])
    scores = await stage.prioritize(pods[0], "n1", "n2", "n3", "n9")
    assert (scores[planned], scores["n9"]) == (10, 0)
    assert all(scores[name] < 10 for name in scores if name != planned)
    assert any(scores[name] > 0 for name in scores if name != planned)


@virtual
async def test_prioritize_of_a_pod_that_nobody_knows_is_all_zeros() -> None:
    assert await Scheduler().prioritize(pod("stranger"), "n1", "n2") == {"n1": 0, "n2": 0}


@virtual
async def test_ranked_keeps_the_nodes_where_the_plan_still_holds_and_follows_the_choice() -> None:
    stage = Scheduler("n1", "n2", "n3", ranked=True)
    stage.ledger.step(PodSeen(guest("full", "n3", cpu=10)))
    pods = stage.submit(A)
    planned = stage.planned(pods[0])
    answer = await stage.filter(pods[0], "n1", "n2", "n3", "n9")
    assert answer["NodeNames"] == ["n1", "n2"]
    chosen = next(name for name in ("n1", "n2") if name != planned)
    binding = asyncio.create_task(stage.bind(pods[0], chosen))
    await asyncio.sleep(0.1)
    assert (stage.planned(pods[0]), stage.barrier.held) == (chosen, 1)
    rest = await asyncio.gather(*(stage.bind(member, stage.planned(member)) for member in pods[1:]))
    assert [await binding, *rest] == ["", "", ""]
    assert ("a-ps-0", chosen) in [(name, where) for name, _, where, _ in stage.api.bindings]
    assert violations(stage.ledger.snapshot) == []


@virtual
async def test_ranked_does_not_follow_where_there_is_no_room() -> None:
    stage = Scheduler("n1", "n2", ranked=True)
    pods = stage.submit(A)
    other = next(name for name in ("n1", "n2") if name != stage.planned(pods[0]))
    stage.ledger.step(PodSeen(guest("late", other, cpu=10)))
    assert await stage.bind(pods[0], other) == Reason.PLAN_CHANGED.text


# -- The tests below are about the verb preempt. -----------------------------------------------------


def victims(**by_node: Sequence[str]) -> Json:
    meta = {name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1} for name, uids in by_node.items()}
    return {"Pod": body_of(pod("vip"), "default-scheduler"), "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}


async def spared(stage: Scheduler, body: Json) -> dict[str, list[str]]:
    answer = await stage.post("preempt", body)
    assert set(answer) == {"NodeNameToMetaVictims"}
    assert all(found["NumPDBViolations"] == 1 for found in answer["NodeNameToMetaVictims"].values())
    return {name: [p["UID"] for p in found["Pods"]] for name, found in answer["NodeNameToMetaVictims"].items()}


async def running(stage: Scheduler, one: Any) -> list[Pod]:
    pods = stage.submit(one)
    assert set(await stage.schedule(*pods)) == {""}
    stage.ledger.step()
    return pods


@virtual
async def test_30_preempt_spares_gangs_and_nobody_else() -> None:
    stage = Scheduler()
    pods = await running(stage, A)
    stage.ledger.step(PodSeen(guest("other", "n2")))
    body = victims(n1=[pods[1].uid], n2=["uid-other"], n3=["uid-unknown"])
    assert await spared(stage, body) == {"n2": ["uid-other"], "n3": ["uid-unknown"]}


@virtual
async def test_30_a_whole_gang_may_go() -> None:
    stage = Scheduler()
    pods = await running(stage, A)
    assert await spared(stage, victims(n1=[p.uid for p in pods])) == {"n1": [p.uid for p in pods]}


@virtual
async def test_30_surplus_workers_may_go() -> None:
    stage = Scheduler()
    pods = await running(stage, job("a").ps(1).workers(1, 2, asked=2))
    assert await spared(stage, victims(n1=[pods[2].uid])) == {"n1": [pods[2].uid]}


@virtual
async def test_30_a_candidate_without_victims_is_not_handed_back() -> None:
    stage = Scheduler()
    assert await spared(stage, victims(n1=[], n2=["uid-x"])) == {"n2": ["uid-x"]}


@virtual
async def test_30_whole_victims_are_answered_by_uid() -> None:
    body = victims() | {"NodeNameToVictims": {"n1": {"Pods": [body_of(pod("x"))], "NumPDBViolations": 1}, "n2": None}}
    assert await spared(Scheduler(), body) == {"n1": ["uid-x"]}


# -- The tests below are about malformed calls, and errors in the extender's own code. ---------------

GOOD = args(body_of(pod("p")))
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"<html>",
    "cut short": json.dumps(GOOD).encode()[:-9],
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "text": b'"filter"',
    "an empty object": b"{}",
    "the pod null": json.dumps(args(None)).encode(),
    "the pod a list": json.dumps(args([])).encode(),
    "metadata null": json.dumps(args({"metadata": None})).encode(),
    "no uid": json.dumps(args({"metadata": {"name": "a", "namespace": "b"}})).encode(),
    "a uid that is a number": json.dumps(args({"metadata": {"name": "a", "namespace": "b", "uid": 1}})).encode(),
    "names of numbers": json.dumps(GOOD | {"NodeNames": [1]}).encode(),
    "names null inside": json.dumps(GOOD | {"NodeNames": ["n1", None]}).encode(),
    "names as a mapping": json.dumps(GOOD | {"NodeNames": {}}).encode(),
    "victims as a list": json.dumps(victims() | {"NodeNameToMetaVictims": []}).encode(),
    "nested too deeply": b'{"Pod":' + b"[" * 50_000,
    "nested, closed": b'{"Pod":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "NaN": b'{"Pod": NaN, "NodeNames": ["n1"]}',
    "infinity": b'{"Pod": null, "NodeNames": [Infinity]}',
    "a key twice": b'{"Pod": null, "Pod": ' + json.dumps(body_of(pod("p"))).encode() + b', "NodeNames": []}',
    "a lone surrogate": json.dumps(args(body_of(pod("\ud800")))).encode(),
    "not UTF-8": json.dumps(GOOD).encode().replace(b"uid-p", b"uid-\xff"),
    "an integer of 5,000 digits": b'{"Pod": 1' + b"0" * 5000 + b"}",
    "two values": json.dumps(GOOD).encode() + b"{}",
}


# Unknown keys are ignored, so these bodies are malformed only for the verbs that have such a field.
ONLY = {"names": ("filter", "prioritize"), "victims": ("preempt",)}
BAD = {f"{verb}: {name}": (verb, body) for name, body in MALFORMED.items() for verb in ONLY.get(name.split()[0], VERBS)}


@pytest.mark.parametrize(("verb", "body"), BAD.values(), ids=BAD.keys())
@virtual
async def test_28_malformed_bodies_are_answered_with_a_reason_and_disturb_nothing(verb: str, body: bytes) -> None:
    stage = Scheduler()
    stage.submit(A)
    before = stage.ledger.snapshot
    answer = await stage.post(verb, body)
    if isinstance(answer, dict) and "Error" in answer:
        assert answer["Error"].startswith("kohort: kube-scheduler's call is malformed: ")
        assert len(answer["Error"]) < 400
    else:
        assert answer in ([], {"NodeNameToMetaVictims": {}})
    assert stage.observed == [(verb, "RequestError")]
    assert stage.ledger.snapshot is before


@pytest.mark.parametrize("beyond", [{"spec": {"schedulerName": "kohort", "x": "\udfff"}}, {"status": {"x": "DEEP"}}])
@virtual
async def test_28_what_is_malformed_deep_inside_the_pod_is_refused_too(beyond: Json) -> None:
    text = json.dumps(args(body_of(pod("p")) | beyond)).replace('"DEEP"', "[" * 90 + "]" * 90)
    answer = await Scheduler().post("filter", text.encode())
    assert answer["Error"].startswith("kohort: kube-scheduler's call is malformed: ")


HUGE = b'{"Pod": "' + b"x" * BODY_LIMIT + b'"}'


@pytest.mark.parametrize("verb", VERBS)
@virtual
async def test_28_a_body_beyond_the_limit_is_refused_in_the_verbs_own_form(verb: str) -> None:
    assert await Scheduler().post(verb, HUGE) == json.loads(refusal(verb, TOO_LONG))


def test_a_body_beyond_the_limit_is_413_elsewhere() -> None:
    assert too_long("/v1/jobs")[0] == 413


FAULTS: dict[str, tuple[str, Any, Any]] = {
    "filter": ("filter", GOOD, {"Error": INTERNAL_ERROR}),
    "prioritize": ("prioritize", GOOD, []),
    "bind": (
        "bind", {"PodName": "p", "PodNamespace": "team", "PodUID": "u", "Node": "n1"}, {"Error": INTERNAL_ERROR}),
    "preempt": ("preempt", victims(n1=["u"]), {"NodeNameToMetaVictims": {}}),
}  # fmt: skip


class Broken:
    """A snapshot or an API that raises an error at each access."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(("verb", "body", "want"), FAULTS.values(), ids=FAULTS.keys())
@virtual
async def test_a_fault_of_ours_is_an_error_a_log_line_and_a_count(
    verb: str, body: Any, want: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Scheduler()
    stage.ledger.snapshot = Broken()  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        answer = await stage.post(verb, body)
    assert (answer if isinstance(answer, list) else {key: answer[key] for key in want}) == want
    assert stage.observed == [(verb, "InternalError")]
    assert "a bug" in caplog.text


@virtual
async def test_27_nothing_waits_in_filter() -> None:
    stage = Scheduler()
    pods = stage.submit(*(job(f"j{index}").ps(1).workers(2) for index in range(30)))
    started = stage.ledger.clock.now()
    for member in pods:
        await stage.filter(member)
    assert stage.ledger.clock.now() == started


@virtual
async def test_other_paths_are_the_others_and_verbs_are_asked_by_post_only() -> None:
    stage = Scheduler()
    assert (await stage.http.post("/scheduler/v1/release")).status_code == 404
    answer = await stage.http.get("/scheduler/v1/filter")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert stage.observed == []
