"""Nodes on which members fail, as people see them and as they are read and written: REST, the command line, explain,
metrics, Events, the annotation.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from rich.console import Console

from extender.cli import tables
from extender.config.settings import Settings
from extender.control import eventreasons
from extender.control.callkinds import MarkNode
from extender.control.calls import calls, key, perform
from extender.kube.api import CONFIGMAPS, NODES, Done, Ref
from extender.kube.jobkinds import FAILURES, FORGIVE
from extender.kube.translate import Translator
from extender.observe.snapshotmetrics import snapshot_metrics
from extender.present.clusterviews import nodes_view
from extender.present.decisionviews import decision_view
from extender.present.views.cluster import NodesView
from extender.present.views.orders import DesiredView
from extender.state.codec import plain, value_of
from extender.state.journal import Entry
from extender.state.rules import rules_of
from policy.answers.change import Kind
from policy.answers.changes import candidates
from policy.answers.explain import explain
from policy.answers.unblock import unblock
from policy.cluster.actions import Effect, NodeFailed, NodeForgiven
from policy.cluster.events import NodeSeen, WritesRefused
from policy.cluster.failures import Failure
from policy.cluster.orders import NodeOrder
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.snapshot import Rules, Snapshot
from tests.builders import START, World, job, node
from tests.unasked import Unasked

HOUR = 3600.0
UNTIL = "1970-01-12 14:46:40 UTC"
AVOIDED = f"avoided until {UNTIL} because members of different jobs have failed there"


def world(nodes: int = 10, bad: int = 2) -> World:
    """Return a cluster in which two jobs have failed on the first ``bad`` nodes, and one more on the next node."""
    made = World(snapshot=Snapshot(rules=Rules(half_life_seconds=HOUR)))
    made.nodes(*(node(f"n{index}") for index in range(nodes)))
    found = {f"n{index}": (Failure("team/x", START), Failure("team/y", START)) for index in range(bad)}
    made.snapshot = replace(made.snapshot, failures={**found, f"n{bad}": (Failure("team/x", START - 60),)})
    made.pass_time(0)
    return made


def printed(shown: Any) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as found:
        console.print(shown)
    return found.get()


def test_the_nodes_in_rest_have_their_failures() -> None:
    first, second, third, fourth, *_ = nodes_view(world().snapshot)
    assert (first.failures, first.last_failure_at, first.avoided_until, first.barred) == (2, START, START + HOUR, True)
    assert (second.avoided_until, second.barred) == (START + HOUR, False)
    assert (third.failures, third.last_failure_at, third.avoided_until) == (1, START - 60, None)
    assert (fourth.failures, fourth.last_failure_at, fourth.avoided_until, fourth.barred) == (0, None, None, False)


def test_the_table_of_nodes_says_until_when() -> None:
    rows = printed(tables.nodes(NodesView(at=START, generation=1, nodes=nodes_view(world().snapshot)))).splitlines()
    assert "FAILURES" in rows[0]
    assert f"2 jobs, avoided until {UNTIL}" in rows[1]
    assert f"2 jobs, used last until {UNTIL}" in rows[2]
    assert "1 job " in rows[3]
    assert "until" not in rows[3]


def test_explain_says_of_each_node_that_it_is_avoided_and_until_when() -> None:
    made = world(bad=1)
    made.submit(job("a").workers(10, cpu=6, memory=1))
    assert made.reason("a") == "NodesClosed"
    told = explain(made.snapshot, "job-a", made.policy, made.now)
    assert told is not None
    (barred,) = [one for one in told.nodes if one.node == "n0"]
    assert (barred.refused, barred.avoided) == (AVOIDED, AVOIDED)
    assert told.waits is not None
    assert told.waits.detail == f"n0 is {AVOIDED}"


def test_explain_says_that_a_node_is_used_last() -> None:
    made = world(9, bad=1)
    made.submit(job("a").workers(10, cpu=6, memory=1))
    told = explain(made.snapshot, "job-a", made.policy, made.now)
    assert told is not None
    (last,) = [one for one in told.nodes if one.node == "n0"]
    where = f"avoided where others have room, until {UNTIL} because members of different jobs have failed there"
    assert (last.refused, last.avoided) == ("", where)


def test_explain_names_the_node_to_forgive() -> None:
    made = world(bad=1)
    waits = job("a").workers(10, cpu=6, memory=1).done()
    made.submit(waits)
    kinds = [one.kind for some in candidates(made.snapshot, waits, made.policy, made.now) for one in some]
    assert kinds.count(Kind.FORGIVE) == 1
    changes = [one.text for one in unblock(made.snapshot, "job-a", made.policy, made.now) if one.kind is Kind.FORGIVE]
    assert changes == ["forgive node n0 the failures there (annotation kohort.dev/forgive: true)"]


def test_the_metrics_count_nodes_and_failures() -> None:
    made = world()
    found = {one.name: one for one in snapshot_metrics(made.snapshot, made.policy, made.now)}
    avoided = {sample.labels["used"]: sample.value for sample in found["kohort_avoided_nodes"].samples}
    assert avoided == {"not": 1.0, "last": 1.0}
    assert [sample.value for sample in found["kohort_node_failures"].samples] == [5.0]


def said(effect: Effect) -> str:
    return decision_view(Entry(1, START, 1, (), effect)).text


def test_a_record_says_what_follows_from_the_failure() -> None:
    until = START + HOUR
    first = "a member has failed on node n0 while the others lived on"
    assert said(NodeFailed("job-a", "n0", 1, 0.0, False)) == (
        f"{first}: one more such failure, of another job, and the node is avoided"
    )
    assert said(NodeFailed("job-a", "n0", 2, until, True)) == (
        f"{first}, as members of 1 other job did: nothing is placed there until {UNTIL}"
    )
    assert said(NodeFailed("job-a", "n0", 3, until, False)) == (
        f"{first}, as members of 2 other jobs did: it is used only where no other node has room, until {UNTIL}"
    )
    assert said(NodeForgiven("n0", True)) == (
        "node n0 is no longer avoided: an administrator has forgiven its failures"
    )
    assert said(NodeForgiven("n0", False)) == "node n0 is no longer avoided: its failures are long enough ago"
    assert eventreasons.OF_ACTIONS["NodeFailed"].type == "Warning"


def test_the_journal_keeps_failures_and_records() -> None:
    for value in (NodeFailed("job-a", "n0", 2, START, True), NodeForgiven("n0", False), Failure("x", START)):
        assert value_of(plain(value)) == value


# -- What is read and written. -----------------------------------------------------------------------


def test_the_annotations_of_a_node_are_read() -> None:
    item = {"metadata": {"name": "n0", "uid": "u", "annotations": {FAILURES: "text", FORGIVE: "true"}}}
    (event,) = Translator("kohort").events(NODES, {"type": "ADDED", "object": item})
    assert isinstance(event, NodeSeen)
    assert (event.node.failures, event.node.forgiven) == ("text", True)
    for value in ("yes", "false", ""):
        item["metadata"]["annotations"] = {FORGIVE: value}
        (event,) = Translator("kohort").events(NODES, {"type": "ADDED", "object": item})
        assert isinstance(event, NodeSeen)
        assert not event.node.forgiven


class Patched(Unasked):
    """An API that keeps each patch."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    async def patch(self, ref: Ref, patch: Any, **more: Any) -> Any:
        self.made.append((ref, patch, more))
        return Done({})


def write(order: NodeOrder) -> tuple[Any, ...]:
    api: Any = Patched()
    (call,) = calls(DesiredView(instance="i", generation=1, gate=None, mark=(order,)))
    assert key(call) == ("MarkNode", "u")
    asyncio.run(perform(api, call, Ref(CONFIGMAPS, "kohort-system", "kohort-gate")))
    (made,) = api.made
    return tuple(made)


def test_the_controller_writes_with_uid_and_version() -> None:
    ref, patch, more = write(NodeOrder("u", "n0", 7, "text"))
    assert (ref.resource, ref.name) == (NODES, "n0")
    assert patch == {"metadata": {"annotations": {FAILURES: "text"}}}
    assert more == {"uid": "u", "resource_version": "7"}


def test_the_controller_removes_both_annotations_of_a_forgiven_node() -> None:
    _, patch, _ = write(NodeOrder("u", "n0", 7, "", forgiven=True))
    assert patch == {"metadata": {"annotations": {FAILURES: None, FORGIVE: None}}}


def test_a_refused_write_names_the_node() -> None:
    made = world()
    made.do(WritesRefused((RefusedWrite(MarkNode.__name__, "uid-n0", "forbidden", True),)))
    (refused,) = made.snapshot.refused_writes[""]
    assert refused.text == "the API server refused to annotate node n0: forbidden"


def test_the_settings_become_rules_only_if_they_are_on() -> None:
    assert rules_of(Settings()).half_life_seconds == 0.0
    assert not Settings().nodes.avoid_failing
    on = rules_of(Settings(nodes={"avoid_failing": True, "half_life_seconds": 60, "watch_seconds": 5}))
    assert (on.half_life_seconds, on.watch_seconds) == (60.0, 5.0)
