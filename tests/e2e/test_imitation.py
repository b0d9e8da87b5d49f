"""Tests that the laboratory's imitation of API server and kube-scheduler behaves as the real ones of version 1.37.

Each test runs on both; a behaviour that only one of them shows is an error in the imitation.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.imitation import (
    HTTP_TIMEOUT,
    NODE_NAMES,
    PLAIN,
    PREEMPTING,
    FilterAnswer,
    ImitatedSide,
    Json,
    embedded_side,
    eventually,
    real_side,
    refuse,
)

pytestmark = pytest.mark.full

REST = 0.5  # After so many seconds without a call, kube-scheduler's own patch of the pod causes no further try.
# After so many seconds without a call no try follows, because kube-scheduler's first two back-offs are shorter.
QUIET = 2.5
Behaviour = Callable[[ImitatedSide], None]


@pytest.fixture(scope="module", params=["embedded", "real"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImitatedSide]:
    if request.param == "embedded":
        with embedded_side() as side:
            yield side
    else:
        with real_side(tmp_path_factory.mktemp("imitation")) as side:
            yield side


@pytest.fixture
def side(both: ImitatedSide) -> Iterator[ImitatedSide]:
    yield both
    both.clean()


def refused(side: ImitatedSide, name: str = "refused") -> int:
    """Let the stub refuse a new pod, wait until kube-scheduler stops trying it, and return the number of tries.

    There are at least two tries, because kube-scheduler's own patch of the pod's condition makes it try again; late
    events on a busy machine may add more.
    """
    side.stub.filters[name] = refuse
    side.create(name)
    eventually(lambda: len(side.stub.of(name)) >= 2, True)
    eventually(lambda: time.monotonic() - side.stub.of(name)[-1].at > REST, True)
    return len(side.stub.of(name))


def slowly(side: ImitatedSide, *, before: float = 0.0, after: float = 0.0) -> Callable[[Json], str]:
    """Return an answer for bind calls that makes the binding, and waits some seconds before and after it."""

    def bind(args: Json) -> str:
        time.sleep(before)
        answer = side.bind_as_asked(args)
        time.sleep(after)
        return answer

    return bind


def only(node: str) -> FilterAnswer:
    return lambda names: {"NodeNames": [name for name in names if name == node]}


def intervals(side: ImitatedSide, pod: str, verb: str) -> list[float]:
    times = [call.at for call in side.stub.of(pod, verb)]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def backs_off(side: ImitatedSide, pod: str, verb: str) -> None:
    """Check that kube-scheduler retries the pod after back-offs of 1 s and 2 s; its queue adds up to a second."""
    eventually(lambda: len(side.stub.of(pod, verb)) >= 3, True)
    first, second = intervals(side, pod, verb)[:2]
    assert 0.9 <= first <= 2.6, first
    assert 1.9 <= second <= 3.6, second


# -- In the cases below, the extender refuses a pod. ---------------------------------------------


def constant_refusal_is_asked_twice_then_quiet(side: ImitatedSide) -> None:
    assert refused(side) == 2
    time.sleep(QUIET)
    assert len(side.stub.of("refused")) == 2
    status, reason, message = side.scheduled("refused")
    assert (status, reason) == ("False", "Unschedulable")
    assert message.startswith("0/3 nodes are available: 3 the gang waits.")


def one_named_node_carries_the_reason_for_all(side: ImitatedSide) -> None:
    side.stub.filters["refused"] = lambda names: {"NodeNames": [], "FailedAndUnresolvableNodes": {names[0]: "no room"}}
    side.create("refused")
    eventually(lambda: len(side.stub.of("refused")), 2)
    time.sleep(QUIET)
    assert len(side.stub.of("refused")) == 2
    assert side.scheduled("refused")[2].startswith("0/3 nodes are available: 1 no room.")
    side.annotate("refused", "wake")
    eventually(lambda: len(side.stub.of("refused")), 3, limit=2)


def varying_refusal_spins(side: ImitatedSide) -> None:
    count = itertools.count()
    side.stub.filters["spins"] = lambda names: {"FailedNodes": dict.fromkeys(names, f"{next(count)} of 8 are here")}
    side.create("spins")
    eventually(lambda: len(side.stub.of("spins")) > 12, True, limit=4)


def annotation_wakes_a_refused_pod_once(side: ImitatedSide) -> None:
    before = refused(side)
    time.sleep(1)  # The same refusal a second later must not change the pod's condition.
    side.annotate("refused", "wake")
    eventually(lambda: len(side.stub.of("refused")), before + 1, limit=2)
    time.sleep(QUIET)
    assert len(side.stub.of("refused")) == before + 1


def another_pending_pod_wakes_nobody(side: ImitatedSide) -> None:
    before = refused(side)
    refused(side, "other")
    side.delete("other")
    time.sleep(QUIET)
    assert len(side.stub.of("refused")) == before


def another_bound_pod_wakes(side: ImitatedSide) -> None:
    before = refused(side)
    side.create("bound")
    eventually(lambda: len(side.stub.of("refused")) > before, True, limit=3)


def a_deleted_bound_pod_wakes(side: ImitatedSide) -> None:
    side.create("bound")
    eventually(lambda: bool(side.node_of("bound")), True)
    before = refused(side)
    side.delete("bound")
    eventually(lambda: len(side.stub.of("refused")) > before, True, limit=3)


def a_nodes_annotation_wakes(side: ImitatedSide) -> None:
    before = refused(side)
    note = {"metadata": {"annotations": {"test.kohort.dev/note": str(time.monotonic())}}}
    assert side.patch("/api/v1/nodes/node-0", note).is_success
    eventually(lambda: len(side.stub.of("refused")), before + 1, limit=2)


def an_empty_answer_refuses_every_node(side: ImitatedSide) -> None:
    side.stub.filters["nowhere"] = lambda names: {}
    side.create("nowhere")
    eventually(lambda: side.scheduled("nowhere")[:2], ("False", "Unschedulable"))
    assert not side.stub.of("nowhere", "bind")


def keys_are_read_in_any_case(side: ImitatedSide) -> None:
    side.stub.filters["lower"] = lambda names: {"nodenames": ["node-1"], "failednodes": {}, "error": ""}
    side.create("lower")
    eventually(lambda: side.node_of("lower"), "node-1")


# -- In the cases below, a call of the extender ends with an error. ------------------------------


def filter_error_backs_off_and_nothing_wakes_it(side: ImitatedSide) -> None:
    side.stub.filters["faulty"] = lambda names: {"NodeNames": names, "Error": "not today"}
    side.create("faulty")
    eventually(lambda: len(side.stub.of("faulty")), 1)
    time.sleep(0.2)
    side.annotate("faulty", "wake")
    time.sleep(0.3)
    assert len(side.stub.of("faulty")) == 1
    backs_off(side, "faulty", "filter")
    assert side.scheduled("faulty")[1] == "SchedulerError"


def another_status_than_200_is_an_error(side: ImitatedSide) -> None:
    side.stub.filters["faulty"] = lambda names: (201, {"NodeNames": names})
    side.create("faulty")
    eventually(lambda: side.scheduled("faulty")[1], "SchedulerError")
    backs_off(side, "faulty", "filter")


def an_unknown_node_name_is_an_error(side: ImitatedSide) -> None:
    side.stub.filters["strange"] = lambda names: {"NodeNames": ["node-0", "no-such-node"]}
    side.create("strange")
    eventually(lambda: side.scheduled("strange")[1], "SchedulerError")
    assert not side.stub.of("strange", "bind")


def bind_error_backs_off(side: ImitatedSide) -> None:
    side.stub.binds["unbound"] = lambda args: "the gang is not complete"
    side.create("unbound")
    backs_off(side, "unbound", "bind")
    assert side.scheduled("unbound")[1] == "SchedulerError"
    assert side.node_of("unbound") == ""


def a_bind_error_wakes_refused_pods(side: ImitatedSide) -> None:
    before = refused(side)
    side.stub.binds["unbound"] = lambda args: "no"
    side.create("unbound")
    eventually(lambda: len(side.stub.of("refused")) > before, True, limit=3)


# -- The cases below are about scheduling gates and nominations. ---------------------------------


def gated_pod_costs_no_call_and_ungated_is_asked_at_once(side: ImitatedSide) -> None:
    side.create("gated", gated=True)
    assert side.scheduled("gated")[:2] == ("False", "SchedulingGated")
    time.sleep(1.5)
    assert side.stub.of("gated") == []
    side.ungate("gated")
    ungated = time.monotonic()
    eventually(lambda: len(side.stub.of("gated")), 1, limit=2)
    assert side.stub.of("gated")[0].at - ungated < 1
    eventually(lambda: bool(side.node_of("gated")), True)


def nominated_node_is_tried_first_and_alone(side: ImitatedSide) -> None:
    side.create("nominated", gated=True)
    side.nominate("nominated", "node-2")
    side.ungate("nominated")
    eventually(lambda: side.node_of("nominated"), "node-2")
    assert [call.nodes for call in side.stub.of("nominated")] == [("node-2",)]
    assert side.stub.of("nominated", "prioritize") == []
    assert "nominatedNodeName" not in side.pod("nominated")["status"]


def failed_nomination_is_asked_again_in_the_same_cycle(side: ImitatedSide) -> None:
    side.stub.filters["nominated"] = lambda names: refuse(names) if len(names) == 1 else {"NodeNames": ["node-0"]}
    side.create("nominated", gated=True)
    side.nominate("nominated", "node-2")
    side.ungate("nominated")
    eventually(lambda: side.node_of("nominated"), "node-0")
    first, second = side.stub.of("nominated")
    assert (first.nodes, sorted(second.nodes)) == (("node-2",), NODE_NAMES)
    assert second.at - first.at < 0.5


def a_refusal_clears_the_nomination_only_with_preemption(side: ImitatedSide) -> None:
    for name, scheduler in (("keeps", PLAIN), ("loses", PREEMPTING)):
        side.stub.filters[name] = refuse
        side.create(name, gated=True, scheduler=scheduler)
        side.nominate(name, "node-1")
        side.ungate(name)
    eventually(lambda: all(len(side.stub.of(name)) >= 2 for name in ("keeps", "loses")), True)
    eventually(lambda: side.pod("loses")["status"].get("nominatedNodeName"), None)
    assert side.pod("keeps")["status"].get("nominatedNodeName") == "node-1"


def a_gated_nominated_pod_keeps_its_room(side: ImitatedSide) -> None:
    side.create("holder", cpu="8", gated=True)
    side.nominate("holder", "node-0")
    time.sleep(0.5)
    side.create("rival", cpu="5")
    eventually(lambda: len(side.stub.of("rival")) >= 1, True)
    assert sorted(side.stub.of("rival")[0].nodes) == ["node-1", "node-2"]


def a_nomination_that_ends_wakes_whom_it_held_off(side: ImitatedSide) -> None:
    for name in NODE_NAMES:
        side.create(f"holder-{name}", cpu="8", gated=True)
        side.nominate(f"holder-{name}", name)
    time.sleep(0.5)
    side.create("rival", cpu="5")
    eventually(lambda: side.scheduled("rival")[2].startswith("0/3 nodes are available: 3 Insufficient cpu."), True)
    time.sleep(QUIET)
    assert side.stub.of("rival") == []
    side.nominate("holder-node-1", None)
    eventually(lambda: side.node_of("rival"), "node-1")


# -- In the cases below, the answer to filter has one node or several. ---------------------------


def one_node_in_the_answer_skips_prioritize(side: ImitatedSide) -> None:
    side.stub.filters["single"] = only("node-1")
    side.create("single")
    eventually(lambda: bool(side.node_of("single")), True)
    assert side.stub.of("single", "prioritize") == []
    side.create("several")
    eventually(lambda: bool(side.node_of("several")), True)
    assert [sorted(call.nodes) for call in side.stub.of("several", "prioritize")] == [NODE_NAMES]


def what_plugins_refuse_is_not_offered_and_only_room_wakes_it(side: ImitatedSide) -> None:
    for name in NODE_NAMES:
        side.stub.filters[f"hog-{name}"] = only(name)
        side.create(f"hog-{name}", cpu="9")
    eventually(lambda: all(side.node_of(f"hog-{name}") for name in NODE_NAMES), True)
    side.create("big", cpu="5")
    eventually(lambda: side.scheduled("big")[2].startswith("0/3 nodes are available: 3 Insufficient cpu."), True)
    side.annotate("big", "wake")
    time.sleep(1)
    assert side.stub.of("big") == []
    side.delete("hog-node-1")
    eventually(lambda: side.node_of("big"), "node-1")
    assert [call.nodes for call in side.stub.of("big")] == [("node-1",)]


# -- The cases below are about bind calls. -------------------------------------------------------


def binds_do_not_hold_up_the_loop(side: ImitatedSide) -> None:
    for name in ("slow-1", "slow-2", "slow-3"):
        side.stub.binds[name] = slowly(side, before=1.2)
        side.create(name)
    eventually(lambda: all(side.node_of(name) for name in ("slow-1", "slow-2", "slow-3")), True)
    times = [side.stub.of(name, "bind")[0].at for name in ("slow-1", "slow-2", "slow-3")]
    assert max(times) - min(times) < 1


def a_pod_being_bound_counts_on_its_node(side: ImitatedSide) -> None:
    side.stub.filters["first"] = lambda names: {"NodeNames": ["node-0"]}
    side.stub.binds["first"] = slowly(side, before=1)
    side.create("first", cpu="8")
    eventually(lambda: len(side.stub.of("first", "bind")), 1)
    side.create("second", cpu="5")
    eventually(lambda: len(side.stub.of("second")), 1)
    assert sorted(side.stub.of("second")[0].nodes) == ["node-1", "node-2"]


def the_bind_of_a_deleted_pod_is_404_and_not_tried_again(side: ImitatedSide) -> None:
    statuses: list[int] = []

    def delete_then_bind(args: Json) -> str:
        side.delete("gone")
        answer = side.bind("gone", args["Node"], args["PodUID"])
        statuses.append(answer.status_code)
        return str(answer.json()["message"])

    side.stub.binds["gone"] = delete_then_bind
    side.create("gone")
    eventually(lambda: len(statuses), 1)
    time.sleep(QUIET)
    assert statuses == [404]
    assert len(side.stub.of("gone")) == 1


def bound_but_the_answer_came_too_late(side: ImitatedSide) -> None:
    side.stub.binds["late"] = slowly(side, after=HTTP_TIMEOUT + 1)
    side.create("late")
    eventually(lambda: side.scheduled("late")[:2], ("False", "SchedulerError"))
    assert side.node_of("late")
    time.sleep(QUIET)
    assert len(side.stub.of("late")) == 1


def an_ok_that_bound_nothing_leaves_the_pod_stuck(side: ImitatedSide) -> None:
    side.stub.binds["lied"] = lambda args: ""
    side.create("lied")
    eventually(lambda: len(side.stub.of("lied", "bind")), 1)
    side.annotate("lied", "wake")
    time.sleep(QUIET)
    assert len(side.stub.of("lied")) == 1
    assert side.node_of("lied") == ""


SCHEDULER: list[Behaviour] = [
    constant_refusal_is_asked_twice_then_quiet,
    one_named_node_carries_the_reason_for_all,
    varying_refusal_spins,
    annotation_wakes_a_refused_pod_once,
    another_pending_pod_wakes_nobody,
    another_bound_pod_wakes,
    a_deleted_bound_pod_wakes,
    a_nodes_annotation_wakes,
    an_empty_answer_refuses_every_node,
    keys_are_read_in_any_case,
    filter_error_backs_off_and_nothing_wakes_it,
    another_status_than_200_is_an_error,
    an_unknown_node_name_is_an_error,
    bind_error_backs_off,
    a_bind_error_wakes_refused_pods,
    gated_pod_costs_no_call_and_ungated_is_asked_at_once,
    nominated_node_is_tried_first_and_alone,
    failed_nomination_is_asked_again_in_the_same_cycle,
    a_refusal_clears_the_nomination_only_with_preemption,
    a_gated_nominated_pod_keeps_its_room,
    a_nomination_that_ends_wakes_whom_it_held_off,
    one_node_in_the_answer_skips_prioritize,
    what_plugins_refuse_is_not_offered_and_only_room_wakes_it,
    binds_do_not_hold_up_the_loop,
    a_pod_being_bound_counts_on_its_node,
    the_bind_of_a_deleted_pod_is_404_and_not_tried_again,
    bound_but_the_answer_came_too_late,
    an_ok_that_bound_nothing_leaves_the_pod_stuck,
]


@pytest.mark.parametrize("behaviour", SCHEDULER, ids=lambda behaviour: behaviour.__name__)
def test_scheduler(side: ImitatedSide, behaviour: Behaviour) -> None:
    behaviour(side)


# -- The cases below are about what the API server does with bindings and patches. ---------------


def told(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("reason", "")


def a_binding_is_made_once_also_to_the_same_node(side: ImitatedSide) -> None:
    side.create("twice", scheduler="nobody")
    assert side.bind("twice", "node-1").status_code == 201
    assert told(side.bind("twice", "node-1")) == (409, "Conflict")
    assert told(side.bind("twice", "node-2")) == (409, "Conflict")


def a_binding_of_another_uid_is_refused(side: ImitatedSide) -> None:
    side.create("other-uid", scheduler="nobody")
    assert told(side.bind("other-uid", "node-1", "00000000-0000-4000-8000-000000000000")) == (409, "Conflict")
    assert side.node_of("other-uid") == ""


def a_binding_of_a_gated_pod_is_refused(side: ImitatedSide) -> None:
    side.create("gated-bind", scheduler="nobody", gated=True)
    assert told(side.bind("gated-bind", "node-1")) == (409, "Conflict")


def a_binding_does_not_ask_whether_the_node_exists(side: ImitatedSide) -> None:
    side.create("lost", scheduler="nobody")
    assert side.bind("lost", "no-such-node").status_code == 201
    assert side.node_of("lost") == "no-such-node"


def a_binding_merges_annotations_and_clears_the_nomination(side: ImitatedSide) -> None:
    uid = side.create("merged", scheduler="nobody")["metadata"]["uid"]
    side.annotate("merged", "kept")
    side.nominate("merged", "node-2")
    assert side.bind("merged", "node-1", uid, plan="p1").status_code == 201
    found = side.pod("merged")
    assert found["metadata"]["annotations"] == {"test": "kept", "plan": "p1"}
    assert "nominatedNodeName" not in found["status"]
    assert side.scheduled("merged")[0] == "True"


def a_merge_patch_with_an_old_version_conflicts(side: ImitatedSide) -> None:
    version = side.create("old-version", scheduler="nobody")["metadata"]["resourceVersion"]
    side.annotate("old-version", "newer")
    change = {"metadata": {"resourceVersion": version, "annotations": {"test": "late"}}}
    assert told(side.patch_pod("old-version", change)) == (409, "Conflict")
    assert side.pod("old-version")["metadata"]["annotations"] == {"test": "newer"}


def a_merge_patch_with_another_uid_is_invalid(side: ImitatedSide) -> None:
    side.create("patched-uid", scheduler="nobody")
    change = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "annotations": {"test": "late"}}}
    assert told(side.patch_pod("patched-uid", change)) == (422, "Invalid")


def a_json_patch_whose_test_fails_is_422(side: ImitatedSide) -> None:
    side.create("tested", scheduler="nobody", gated=True)
    change = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "another"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    assert side.patch_pod("tested", change, "json").status_code == 422
    assert len(side.pod("tested")["spec"]["schedulingGates"]) == 1


def a_gate_cannot_be_added(side: ImitatedSide) -> None:
    side.create("late-gate", scheduler="nobody")
    change = {"spec": {"schedulingGates": [{"name": "late.kohort.dev/gate"}]}}
    assert told(side.patch_pod("late-gate", change)) == (422, "Invalid")


def status_changes_only_through_its_subresource(side: ImitatedSide) -> None:
    side.create("status", scheduler="nobody")
    assert side.patch_pod("status", {"status": {"nominatedNodeName": "node-1"}}).is_success
    assert "nominatedNodeName" not in side.pod("status")["status"]


def a_deletion_of_another_uid_conflicts(side: ImitatedSide) -> None:
    side.create("deleted-uid", scheduler="nobody")
    assert told(side.delete("deleted-uid", uid="00000000-0000-4000-8000-000000000000")) == (409, "Conflict")
    assert side.delete("deleted-uid", uid=side.pod("deleted-uid")["metadata"]["uid"]).status_code == 200
    assert told(side.delete("deleted-uid")) == (404, "NotFound")


def a_paged_list_is_one_consistent_read(side: ImitatedSide) -> None:
    for index in range(3):
        side.create(f"pod-{index}", scheduler="nobody")
    pods = "/api/v1/namespaces/default/pods"
    page = side.http.get(pods, params={"limit": "2"}).json()
    side.delete("pod-2")
    token = page["metadata"]["continue"]
    rest = side.http.get(pods, params={"limit": "2", "continue": token}).json()
    assert [item["metadata"]["name"] for item in page["items"] + rest["items"]] == ["pod-0", "pod-1", "pod-2"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


def a_watch_resumes_and_ends_with_a_bookmark(side: ImitatedSide) -> None:
    """The second change comes late, because the real API server sends no bookmark without an event (cacher.go)."""
    version = side.create("watched", scheduler="nobody")["metadata"]["resourceVersion"]
    side.annotate("watched", "changed")
    threading.Timer(1, side.annotate, ("watched", "changed again")).start()
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "5", "allowWatchBookmarks": "true"}
    lines = side.http.get("/api/v1/pods", params=query).text.splitlines()
    events = [json.loads(line) for line in lines]
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["MODIFIED", "MODIFIED", "BOOKMARK"]
    assert set(kinds[2:]) == {"BOOKMARK"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == events[1]["object"]["metadata"]["resourceVersion"]


API_SERVER: list[Behaviour] = [
    a_binding_is_made_once_also_to_the_same_node,
    a_binding_of_another_uid_is_refused,
    a_binding_of_a_gated_pod_is_refused,
    a_binding_does_not_ask_whether_the_node_exists,
    a_binding_merges_annotations_and_clears_the_nomination,
    a_merge_patch_with_an_old_version_conflicts,
    a_merge_patch_with_another_uid_is_invalid,
    a_json_patch_whose_test_fails_is_422,
    a_gate_cannot_be_added,
    status_changes_only_through_its_subresource,
    a_deletion_of_another_uid_conflicts,
    a_paged_list_is_one_consistent_read,
    a_watch_resumes_and_ends_with_a_bookmark,
]


@pytest.mark.parametrize("behaviour", API_SERVER, ids=lambda behaviour: behaviour.__name__)
def test_api_server(side: ImitatedSide, behaviour: Behaviour) -> None:
    behaviour(side)
