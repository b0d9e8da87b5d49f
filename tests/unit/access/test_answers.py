"""The listener for people shows nothing of a namespace that the caller may not read, on any route."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.routing import Route

from extender.access.guard import RULES, Rule
from extender.access.redaction import COMES_FIRST, OTHER_JOB, Redaction
from extender.access.visibility import EVERYTHING, Visibility
from extender.routes import table
from policy.cluster.events import JobGone, PodSeen
from policy.cluster.reasons import Reason
from tests.builders import guest
from tests.unit.access.scenes import HIDDEN, OURS, Cluster, Server, client, cluster, drawn, here, job

MANIFEST = {
    "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"namespace": OURS, "name": "new"},
    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {
        "schedulerName": "kohort", "containers": [{"name": "t", "resources": {"requests": {"cpu": "2"}}}],
    }}}}},
}  # fmt: skip
Ask = tuple[str, str, Any]
ASKED: dict[str, list[Ask]] = {
    "/v1/jobs": [("GET", "/v1/jobs", None), ("GET", "/v1/jobs?limit=1", None)],
    "/v1/jobs/{namespace}/{name}": [("GET", "/v1/jobs/{job}", None)],
    "/v1/queue": [("GET", "/v1/queue", None), ("GET", "/v1/queue?expected=true", None)],
    "/v1/nodes": [("GET", "/v1/nodes", None)],
    "/v1/plans": [("GET", "/v1/plans", None)],
    "/v1/desired": [("GET", "/v1/desired", None)],
    "/v1/decisions": [("GET", "/v1/decisions", None), ("GET", "/v1/decisions?since=3&limit=2", None)],
    "/v1/explain/{namespace}/{name}": [("GET", f"/v1/explain/{{job}}{more}", None) for more in ("", "?unblock=true")],
    "/v1/what-if": [
        ("POST", "/v1/what-if", {"job": MANIFEST}), ("POST", "/v1/what-if", {"remove_nodes": ["n0"]}),
        ("POST", "/v1/what-if", {"policy": "fifo-pod"}), ("POST", "/v1/what-if", {"cordon": ["nowhere"]}),
    ],
    "/v1/stream": [],  # test_stream.py tests the stream, because its answer does not end
    "/": [("GET", "/", None)],
    "/parts": [("GET", "/parts", None)],
    "/jobs/{namespace}/{name}": [("GET", f"/jobs/{{job}}{more}", None) for more in ("", "?unblock=true")],
    "/jobs/{namespace}/{name}/parts": [("GET", "/jobs/{job}/parts", None)],
    "/v1/comparison": [("GET", "/v1/comparison?policy=drs", None)],
    "/comparison": [("GET", "/comparison", None)],
    "/comparison/{policy}": [("GET", "/comparison/drs", None)],
    "/comparison/{policy}/parts": [("GET", "/comparison/drs/parts", None)],
    "/assets/{stamp}/{name}": [("GET", "/assets/0/kohort.css", None)],
    "/openapi.json": [("GET", "/openapi.json", None)],
}  # fmt: skip


def test_every_route_says_how_it_is_kept_from_telling_too_much() -> None:
    live = cluster().live
    plain = [route for route in live.rest().router.routes if isinstance(route, Route)]
    assert len(live.rest().router.routes) == len(plain) + 1, "there are routes beside the page's and table.router's"
    every = {route.path for route in (*plain, *table.router(live.questions).routes) if isinstance(route, Route)}
    assert every == RULES.keys(), "a new route needs a row in RULES"
    assert every == ASKED.keys(), "and questions here"


async def told(asking: httpx.AsyncClient, path: str, jobs: list[str]) -> list[httpx.Response]:
    """Ask each request that ASKED has for the route, for each job if the URL names one; return all answers."""
    found = []
    for method, url, body in ASKED[path]:
        for key in jobs if "{job}" in url else [""]:
            found.append(await asking.request(method, url.replace("{job}", key), json=body))
    return found


def ours(made: Cluster) -> list[str]:
    """Return the keys of at most two of our jobs: one that is admitted and one that waits, if there are such jobs."""
    mine = [one for one in made.snapshot.jobs.values() if one.namespace == OURS]
    by_state = {made.snapshot.gang(one.uid).admitted: one.key for one in mine}
    return list(by_state.values())


SEEDS = 11
POLICIES = ("kod2", "drs", "dragon", "fifo-pod", "drf+specon", "oasis")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_answer_names_what_is_in_a_namespace_that_the_caller_may_not_read(seed: int) -> None:
    made, server = drawn(seed, POLICIES[seed % len(POLICIES)]), Server()
    mine = ours(made)
    async with client(made, server) as ann:
        for path, rule in RULES.items():
            for answer in await told(ann, path, mine):
                assert answer.status_code in ((403,) if rule is Rule.WHOLE else (200, 404, 422)), answer.text
                assert "canary" not in answer.text, f"{answer.request.url}: {answer.text}"


@pytest.mark.timeout(240)
async def test_what_is_left_out_was_there_to_be_told() -> None:
    """On loopback, unredacted answers of these routes name hidden jobs, so the test of the redaction can fail."""
    naming = set()
    for seed in (0, 1, 2):
        made = drawn(seed, POLICIES[seed])
        async with here(made) as asking:
            for path in ASKED:
                naming |= {path for answer in await told(asking, path, ours(made)) if "canary" in answer.text}
    lists = {"/v1/jobs", "/v1/queue", "/v1/nodes", "/v1/plans", "/v1/decisions"}
    assert naming >= lists | {
        "/v1/explain/{namespace}/{name}",
        "/v1/what-if",
        "/",
        "/parts",
        "/jobs/{namespace}/{name}",
    }


async def test_who_may_read_everything_is_told_what_loopback_tells() -> None:
    made, server = drawn(3), Server()
    every = [one.key for one in made.snapshot.jobs.values()][-2:]
    async with client(made, server, "root") as root, here(made) as asking:
        for path in ASKED.keys() - {"/", "/parts", "/jobs/{namespace}/{name}", "/comparison/{policy}"}:
            seen, plain = await told(root, path, every), await told(asking, path, every)
            assert [one.status_code for one in seen] == [one.status_code for one in plain]
            assert [one.text for one in seen] == [one.text for one in plain], path


async def test_entries_and_counts_are_those_of_the_namespaces_that_may_be_read() -> None:
    made = cluster().nodes("n1", "n2")
    made.start(job("canary-big", HIDDEN).ps(1).workers(3, cpu=4, memory=1).with_(utility=99.0))
    made.submit(job("canary-waits", HIDDEN).ps(1).workers(9, cpu=2, memory=1).with_(utility=50.0))
    made.submit(job("mine").ps(1).workers(2, cpu=4, memory=1))
    made.submit(job("small").workers(1, cpu=0.5, memory=1))
    made.bind(made.snapshot.jobs[f"{OURS}/u-small"])
    made.do(PodSeen(guest("canary-pod", "n1", cpu=0.1)))
    async with client(made, Server()) as ann:
        jobs = (await ann.get("/v1/jobs?limit=1")).json()
        assert ([one["name"] for one in jobs["jobs"]], jobs["remaining"]) == (["mine"], 1)
        queue = (await ann.get("/v1/queue")).json()
        assert [(one["name"], one["position"]) for one in queue["jobs"]] == [("mine", 2)], "its place among all"
        explained = (await ann.get(f"/v1/explain/{OURS}/mine")).json()
        assert explained["ahead"] == [{"job": OTHER_JOB, "why": COMES_FIRST}], "its weight is its own affair"
        nodes = (await ann.get("/v1/nodes")).json()["nodes"]
        assert {guest["job"] for node in nodes for guest in node["members"]} == {f"{OURS}/small"}
        assert {node["other_pods"] for node in nodes} == {0}
        assert sum(node["free"].get("cpu", {"exact": 0})["exact"] for node in nodes) < 10_000, "room is what it is"


async def test_what_counts_everybodys_jobs_is_for_those_who_see_them() -> None:
    made = drawn(0)
    await made.live.page.history.sample()
    for token, seen in (("ann", False), ("root", True)):
        async with client(made, Server(), token) as asking:
            page, warnings = (await asking.get("/")).text, (await asking.get("/v1/queue")).json()["warnings"]
        assert ("Jobs over the last hours" in page, "Utilisation over the last hours" in page) == (seen, True)
        assert warnings
        assert all(one.endswith("ask an administrator of Kohort to look at it") for one in warnings) is not seen


def test_the_figures_of_the_job_that_somebody_was_shrunk_for_stay_with_it() -> None:
    told = {"workers": "4 of 2-8", "for": f"{HIDDEN}/canary", "it needs": "8 cpu", "its weight": "3.1"}
    redaction = Redaction(Visibility(namespaces=frozenset({OURS})))
    assert redaction.inputs(told) == {"workers": "4 of 2-8", "for": OTHER_JOB}
    ours = told | {"for": f"{OURS}/mine"}
    assert (redaction.inputs(ours), Redaction(EVERYTHING).inputs(told)) == (ours, told)


async def test_a_job_that_is_gone_is_told_of_to_its_own_namespace_alone() -> None:
    made = cluster().nodes("n1")
    for one in (job("mine").workers(1), job("canary", HIDDEN).workers(1)):
        made.start(one)
    gone = [made.snapshot.jobs[uid] for uid in (f"{OURS}/u-mine", f"{HIDDEN}/u-canary")]
    for each in gone:
        made.end(each)
    made.do(*(JobGone(each.uid) for each in gone))
    async with client(made, Server(), "root") as root:
        every = (await root.get("/v1/decisions")).json()["decisions"]
    server = Server()
    server.rights["ann"] |= {OURS}
    made.submit(job("next").workers(1))
    async with client(made, server) as ann:
        mine = (await ann.get("/v1/decisions")).json()["decisions"]
    admitted = [one for one in every if one["action"] == "Admit"]
    assert len(admitted) == 2
    assert len([one for one in mine if one["action"] == "Admit" and one["sequence"] <= every[-1]["sequence"]]) == 1


async def test_a_reason_names_nobody_out_of_sight() -> None:
    made = cluster(kod2={"gate": "strict", "backfill": False}).nodes("n1")
    made.start(job("canary-runs", HIDDEN).workers(2, cpu=4, memory=1))
    made.submit(job("canary-head", HIDDEN).workers(2, cpu=4, memory=1).with_(utility=99.0))
    made.pass_time(1)
    made.submit(job("mine").workers(1, cpu=1, memory=1).with_(arrival=made.now))
    async with client(made, Server()) as ann:
        waits = (await ann.get(f"/v1/jobs/{OURS}/mine")).json()["waits"]
        page = (await ann.get(f"/jobs/{OURS}/mine")).text
    assert waits["reason"] == Reason.BEHIND.value
    assert (waits["behind"], waits["detail"]) == (OTHER_JOB, f"behind {OTHER_JOB}")
    assert OTHER_JOB in page
    assert "canary" not in page


async def test_a_what_if_about_another_namespace_is_refused_and_one_about_a_new_own_one_is_not() -> None:
    made, server = drawn(5), Server()
    body = {"job": MANIFEST | {"metadata": {"namespace": HIDDEN, "name": "x"}}}
    fresh = {"job": MANIFEST | {"metadata": {"namespace": "fresh", "name": "x"}}}
    async with client(made, server) as ann:
        refused = await ann.post("/v1/what-if", json=body)
        assert (refused.status_code, refused.json()["status"]) == (403, 403)
        assert f"ann may not list jobs.kohort.dev in namespace {HIDDEN}" in refused.json()["detail"]
        shape = {"workers": 1, "requests": {"cpu": "1"}, "namespace": HIDDEN}
        for other in (fresh, {"shape": shape}):
            assert (await ann.post("/v1/what-if", json=other)).status_code == 403
        server.rights["ann"].add("fresh")
        made.live.clock.time += 31  # type: ignore[attr-defined]
        answer = await ann.post("/v1/what-if", json=fresh)
        assert (answer.status_code, [one["name"] for one in answer.json()["jobs"] if one["namespace"] == "fresh"]) == (
            200, ["x"],
        )  # fmt: skip
