"""Probes and metrics: what makes a process unready, what only warns, and what is counted."""

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.clock import Clock
from extender.kube.api import JOBSETS, PODS, Resource
from extender.observe.controllermetrics import ControllerMetrics
from extender.observe.health import Check, Heartbeat, Readiness, extender_readiness, probes
from extender.observe.metrics import Metrics, health_app
from extender.state.journal import Journal, ways
from extender.state.ledger import Ledger
from policy.cluster.actions import Admit, Effect, Released, Resize, ShrinkStalled, Stalled
from policy.cluster.events import BindHeld, JobGone, JobSeen, NodeSeen, PodSeen, Synced
from policy.cluster.gang import Gang, State
from policy.cluster.job import Job, Role, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Pod
from policy.cluster.reasons import Reason
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems import make_policy
from tests.stage import virtual

ALERTS = Path(__file__).parents[2] / "manifests" / "components" / "monitoring" / "alerts.yaml"
ONE = Resources({"cpu": 1000})
LONE = Job("team/u", "team", "j", "TFJob", 0.0, (Role("worker", 1, ONE),), 1, 1)
MEMBER = Pod("p", "team", "j-worker-0", ONE, job_uid="team/u", slot=Slot("worker", 0), opted_in=True)
GATED = Pod("g", "team", "k-worker-0", opted_in=True, gated=True)
OTHERS = Pod("o", "x", "of-another-scheduler", gated=True)


class HandClock(Clock):
    time = 100.0
    ahead = 0.0

    def now(self) -> float:
        return self.time + self.ahead

    def monotonic(self) -> float:
        return self.time


@dataclass
class Watch:
    resource: Resource = PODS
    synced: bool = True
    last_seen: float = 100.0
    restarts: int = 0
    forbidden: bool = False


@dataclass
class Part:
    """A stand-in for the barrier and the lease."""

    held: int = 0
    leads: bool = True

    def leading(self) -> bool:
        return self.leads


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


async def get(app: object, path: str) -> tuple[int, str]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kohort") as client:  # type: ignore[arg-type]
        answer = await client.get(path)
    return answer.status_code, answer.text


# -- The tests below are about the checks of the endpoint /readyz. -------------------------------

READY = Snapshot(synced=True)
STATES = {
    "all is well": (READY, Watch(), True, None),
    "a follower is ready": (READY, Watch(), False, None),
    "a list is missing": (
        READY, Watch(synced=False), True, "[-]synced waiting for the API server's first list of pods",
    ),
    "not rebuilt": (Snapshot(), Watch(), True, "[-]rebuilt the ledger is not rebuilt from the API server's lists yet"),
    "a watch is silent": (
        READY, Watch(last_seen=39.0), True,
        "[-]watches the API server has sent nothing about pods (61 s); it is asked again",
    ),
    "a watch that was never there is not stalled": (
        READY, Watch(last_seen=0.0, synced=False), True, "[-]synced waiting for the API server's first list of pods",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("snapshot", "watch", "leads", "failing"), STATES.values(), ids=STATES.keys())
def test_the_extender_is_ready_when_its_facts_are_whole_and_fresh(
    snapshot: Snapshot, watch: Watch, leads: bool, failing: str | None, clock: HandClock
) -> None:
    found = extender_readiness(snapshot, [watch], leads, Heartbeat(clock), clock)
    assert [check.line for check in found.checks if check.fatal and not check.ok] == ([failing] if failing else [])
    assert found.ready is (failing is None)


def test_a_kind_that_may_not_be_read_is_a_warning_that_names_it(clock: HandClock) -> None:
    watches = [Watch(), Watch(JOBSETS, forbidden=True)]
    heartbeat = Heartbeat(clock)
    heartbeat.beat()
    found = extender_readiness(READY, watches, True, heartbeat, clock)
    assert found.ready
    assert ["may not read jobsets.jobset.x-k8s.io: " in one for one in found.warnings] == [True]


def test_a_dead_controller_warns_with_the_number_of_gated_pods_and_keeps_the_extender_ready(clock: HandClock) -> None:
    heartbeat, snapshot = Heartbeat(clock), Snapshot(synced=True, pods={"g": GATED, "o": OTHERS})
    heartbeat.beat()
    clock.time += 10
    assert extender_readiness(snapshot, [], True, heartbeat, clock).warnings == ()
    clock.time += 1
    found = extender_readiness(snapshot, [], True, heartbeat, clock)
    assert found.ready
    assert found.warnings == (
        "controller: not heard from for 11 s: gated pods stay gated (1 now), and no pod is woken and no job "
        "resized; see its log",
    )


def test_a_clock_that_was_set_anew_is_a_warning(clock: HandClock) -> None:
    metrics, ledger, _ = live(clock)
    assert not any(one.startswith("clock: ") for one in metrics.readiness().warnings)
    clock.ahead = -3600.0
    assert clock.now() - ledger.now() == -3600.0
    (told,) = (one for one in metrics.readiness().warnings if one.startswith("clock: "))
    assert "set back by 3600 s since the start" in told
    assert value(metrics, "kohort_clock_ahead_seconds") == -3600.0
    again, _, _ = live(clock)
    assert value(again, "kohort_clock_ahead_seconds") == 0.0  # a restarted process has forgotten the jump of the clock


def test_a_controller_that_never_came_is_given_time_and_then_missed(clock: HandClock) -> None:
    heartbeat = Heartbeat(clock)
    assert extender_readiness(READY, [], True, heartbeat, clock).warnings == ()
    clock.time += 11
    assert "never heard from" in extender_readiness(READY, [], True, heartbeat, clock).warnings[0]


GOOD, BAD, ODD = Check("a", True), Check("b", False, "is broken"), Check("c", False, "is odd", fatal=False)
PROBES = {
    "ready": ((GOOD,), "/readyz", 200, "ok\n"),
    "ready, every check": ((GOOD,), "/readyz?verbose", 200, "[+]a ok\nok\n"),
    "a warning is shown unasked": ((GOOD, ODD), "/readyz", 200, "[!]c is odd\nok\n"),
    "a failure shows everything": ((GOOD, BAD), "/readyz", 503, "[+]a ok\n[-]b is broken\nnot ready\n"),
    "one good check": ((GOOD, BAD), "/readyz/a", 200, "[+]a ok\nok\n"),
    "one bad check": ((GOOD, BAD), "/readyz/b", 503, "[-]b is broken\nnot ready\n"),
    "one that warns": ((ODD,), "/readyz/c", 200, "[!]c is odd\nok\n"),
    "no such check": ((GOOD, BAD), "/readyz/x", 404, "no check of that name; allowed: a, b\n"),
    "alive whatever is broken": ((BAD,), "/livez", 200, "ok\n"),
}


@pytest.mark.parametrize(("checks", "path", "status", "text"), PROBES.values(), ids=PROBES.keys())
async def test_probes(checks: tuple[Check, ...], path: str, status: int, text: str) -> None:
    app = probes(lambda: Readiness(checks), Metrics().registry)
    assert await get(app, path) == (status, text)


# -- The tests below are about the metrics. ------------------------------------------------------


def value(metrics: Metrics | ControllerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_calls_are_counted_by_verb_and_refusals_by_reason() -> None:
    metrics = Metrics()
    metrics.observe_verb("filter", 0.004, "")
    metrics.observe_verb("filter", 0.3, Reason.NO_ROOM.value)
    metrics.observe_verb("filter", 0.3, "RequestError")
    for result in ("granted", "refused", "error"):
        assert value(metrics, "kohort_verb_requests_total", verb="filter", result=result) == 1
    assert value(metrics, "kohort_verb_refusals_total", verb="filter", reason="WaitingForRoom") == 1
    assert value(metrics, "kohort_verb_duration_seconds_bucket", verb="filter", le="0.005") == 1


def test_decisions_are_counted_by_action_direction_and_reason() -> None:
    metrics = Metrics()
    shrunk, grown, paused = Resize("j", 2, on_behalf_of="k"), Resize("j", 3), Resize("j", 0)
    effects: list[Effect] = [Admit("j", 4, {}), shrunk, grown, paused, Released("j", "p", Reason.BIND_FAILED)]
    effects += [Stalled("j", 4, 2, given_back=back) for back in (False, False, True)]
    effects += [ShrinkStalled("j", 2, 1, on_behalf_of="k")]
    effects += [Admit("set", 0, {}), Resize("set", 0, NODE)]
    metrics.observe_step(0.0, [], effects, Snapshot())
    metrics.observe_binding("refused")
    assert value(metrics, "kohort_decisions_total", action="Resize") == 4
    assert value(metrics, "kohort_gangs_admitted_total") == 2
    for direction, cause in (("in", "rival"), ("out", "room"), ("in", "pause"), ("none", "repair")):
        assert value(metrics, "kohort_resizes_total", direction=direction, cause=cause) == 1
    assert value(metrics, "kohort_gangs_released_total", reason="BindFailed") == 1
    assert value(metrics, "kohort_bindings_total", outcome="refused") == 1
    assert value(metrics, "kohort_stalled_growths_total", outcome="awaited") == 2
    assert value(metrics, "kohort_stalled_growths_total", outcome="given-back") == 1
    assert value(metrics, "kohort_stalled_shrinks_total") == 1


NODE = {Slot("worker", 2): "n1"}
RUNS = Snapshot(gangs={"j": Gang("j", State.RUNNING, workers=3)})
WAYS: dict[str, tuple[Snapshot | None, list[Effect], list[str]]] = {
    "fewer": (RUNS, [Resize("j", 2)], ["in"]),
    "more, for which no nodes are given: its user has raised a bound": (RUNS, [Resize("j", 4)], ["out"]),
    "as many, elsewhere": (RUNS, [Resize("j", 3, NODE)], [""]),
    "twice in one step": (RUNS, [Resize("j", 5), Resize("j", 4)], ["out", "in"]),
    "admitted in this step": (RUNS, [Admit("k", 4, {}), Resize("k", 2)], ["", "in"]),
    "found in this step, no nodes are given": (None, [Resize("j", 2)], ["in"]),
    "found in this step, nodes are given": (RUNS, [Resize("k", 3, NODE)], ["out"]),
}  # fmt: skip


@pytest.mark.parametrize(("before", "effects", "want"), WAYS.values(), ids=WAYS.keys())
def test_which_way_a_resize_goes(before: Snapshot | None, effects: list[Effect], want: list[str]) -> None:
    assert list(ways(effects, before)) == want


def live(clock: HandClock) -> tuple[Metrics, Ledger, Part]:
    metrics, part = Metrics(), Part()
    ledger = Ledger(make_policy("kod2"), Rules(), clock, Journal())
    ledger.record_with(metrics.observe_step)
    metrics.watch(ledger, [Watch(last_seen=97.0, restarts=2)], part, part)
    return metrics, ledger, part


def test_the_time_from_admission_to_bound_is_measured(clock: HandClock) -> None:
    metrics, ledger, _ = live(clock)
    ledger.step(NodeSeen(Node("n1", Resources({"cpu": 4000}))), JobSeen(LONE), PodSeen(MEMBER), Synced())
    clock.time += 1.5
    ledger.step(BindHeld("p", "n1"))
    clock.time += 1.5
    bound = Pod("p", "team", "j-worker-0", ONE, "n1", job_uid="team/u", slot=MEMBER.slot, opted_in=True, version=1)
    ledger.step(PodSeen(bound))
    assert value(metrics, "kohort_gang_admission_to_bound_seconds_sum") == 3.0
    assert value(metrics, "kohort_gangs", state="running") == 1


def test_a_job_that_goes_before_it_is_bound_is_forgotten(clock: HandClock) -> None:
    metrics, ledger, _ = live(clock)
    ledger.step(NodeSeen(Node("n1", Resources({"cpu": 4000}))), JobSeen(LONE), PodSeen(MEMBER), Synced())
    ledger.step(JobGone(LONE.uid))
    assert len(metrics._passage) == 0
    assert value(metrics, "kohort_gang_admission_to_bound_seconds_count") == 0


def test_the_state_is_read_when_prometheus_asks(clock: HandClock) -> None:
    metrics, ledger, part = live(clock)
    ledger.step(NodeSeen(Node("n1", ONE)), JobSeen(LONE), PodSeen(GATED), Synced())
    part.held, part.leads = 7, False
    clock.time += 30
    names = {
        "kohort_barrier_held_binds": 7, "kohort_leader": 0, "kohort_gated_pods": 1, "kohort_nodes": 1,
        "kohort_controller_last_heard_seconds": 30, "kohort_log_lines_dropped_total": 0,
    }  # fmt: skip
    assert {name: value(metrics, name) for name in names} == names
    assert value(metrics, "kohort_watch_last_seen_seconds", resource="pods", version="v1") == 33
    assert value(metrics, "kohort_watch_restarts_total", resource="pods", version="v1") == 2
    assert value(metrics, "kohort_watch_forbidden", resource="pods", version="v1") == 0
    assert value(metrics, "kohort_gangs", state="waiting") == 1
    assert value(metrics, "kohort_queue_jobs", reason="WaitingForPods") == 1


def test_a_suspended_job_is_not_counted_as_waiting(clock: HandClock) -> None:
    metrics, ledger, _ = live(clock)
    ledger.step(JobSeen(replace(LONE, suspended=True)), Synced())
    counts = {state: value(metrics, "kohort_gangs", state=state) for state in ("waiting", "suspended")}
    assert counts == {"waiting": 0, "suspended": 1}


async def test_a_malformed_job_is_counted_and_no_name_of_a_user_becomes_a_label(clock: HandClock) -> None:
    metrics, ledger, _ = live(clock)
    ledger.step(JobSeen(Job("s/u", "secret-team", "secret-job", "TFJob", 0.0, (), invalid="bad")), Synced())
    status, text = await get(health_app(metrics), "/metrics")
    assert status == 200
    assert "kohort_invalid_jobs 1.0" in text
    assert value(metrics, "kohort_gangs", state="waiting") == 0
    assert "secret" not in text


class Counting(Collector):
    """A collector that counts how often it is read, and notes the threads that read it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.threads: list[int] = []
        registry.register(self)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        self.threads.append(threading.get_ident())
        yield GaugeMetricFamily("counted", "How often.", value=len(self.threads))


@virtual
async def test_metrics_are_made_beside_the_loop_and_once_a_second_however_many_ask() -> None:
    registry = CollectorRegistry()
    counting, app = Counting(registry), probes(lambda: Readiness(()), registry)
    answers = await asyncio.gather(*(get(app, "/metrics") for _ in range(20)))
    assert {text.splitlines()[-1] for _, text in answers} == {"counted 1.0"}
    assert threading.get_ident() not in counting.threads
    await asyncio.sleep(1.1)
    assert (await get(app, "/metrics"))[1].splitlines()[-1] == "counted 2.0"
    assert len(counting.threads) == 2


def test_what_alerts_count_is_there_before_it_is_counted() -> None:
    """Prometheus counts increases from a series' first sample, so a series that begins with a burst
    shows no increase.
    """
    counted = re.findall(r"increase\(\(?(\w+)(?:{([^}]*)})?", ALERTS.read_text())
    assert len(counted) >= 3
    there = {(sample.name, *sample.labels.values()) for one in Metrics().registry.collect() for sample in one.samples}
    for name, chosen in counted:
        values = {got for series, *values in there if series == name for got in values}
        assert values, f"{name} has no series in a fresh process"
        assert set(re.findall(r'\w+="([^"]*)"', chosen)) <= values, f"{name}{{{chosen}}} comes later"
    verbs = {labels[0] for name, *labels in there if name == "kohort_verb_requests_total" and "error" in labels}
    assert verbs == {"filter", "prioritize", "bind", "preempt"}


def test_every_process_has_metrics_of_its_own() -> None:
    one, other = Metrics(), Metrics()
    one.observe_verb("bind", 1.0, "")
    assert value(other, "kohort_verb_requests_total", verb="bind", result="granted") == 0
    assert value(ControllerMetrics(), "kohort_leader") == 0
