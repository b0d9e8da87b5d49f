"""``barrier.commit: first`` on a real control plane: the first bind call of any member binds an eligible gang whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import job_view, metric, nodes_of, pods, refusal
from tests.e2e.gangs import LOOKED_AT, create_pod, fresh_kohort, is_gated, lone_pod, submit, wait_gated, window
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import at_rest, until

Json = dict[str, Any]
CORES = 40
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield three nodes of forty cores."""
    shape = NodeShape(count=3, cpu=str(CORES), memory="256Gi", gpu=0)
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("first"), controller_manager=True) as started:
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    settings = window(8)
    settings["barrier"]["commit"] = "first"
    with fresh_kohort(plane, settings, "first") as started:
        yield started


@dataclass(slots=True)
class ConditionObserver(ClusterObserver):
    """An observer that also notes when a bound pod is shown with PodScheduled=False.

    wrong: the pods that are shown so now, with the time when this began. longest: the longest time for each pod for
    which it was shown so, in seconds, by the pod's name.
    """

    wrong: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    def _note(self, pod: Json, *, gone: bool) -> None:
        ClusterObserver._note(self, pod, gone=gone)
        name, now = pod["metadata"]["name"], time.monotonic()
        if pod["spec"].get("nodeName") and refusal(pod) and not gone:
            self.wrong.setdefault(name, now)
        elif name in self.wrong:
            self.longest[name] = max(self.longest.get(name, 0.0), now - self.wrong.pop(name))

    def told(self) -> str:
        """Return in words how many pods had the condition while they were bound, and for how long at most."""
        longest = max(self.longest.values(), default=0.0)
        return f"{len(self.longest)} bound pods had PodScheduled=False, for at most {longest:.3f} s"


def bind_steps(kohort: Kohort, job: TFJob) -> list[int]:
    """Return for each binding that was sent for the job the number of the step that sent it."""
    told = kohort.get("/v1/decisions")["decisions"]
    mine = (one for one in told if (one["job"] or {}).get("namespace") == job.namespace and one["action"] == "Bind")
    return [one["generation"] for one in mine if one["job"]["name"] == job.name]


def bind_calls(kohort: Kohort) -> float:
    """Return how many bind calls kube-scheduler has made so far."""
    return metric(kohort.health, "kohort_verb_requests_total", verb="bind")


def events_of(plane: ControlPlane, space: str, reason: str) -> dict[str, int]:
    """Return how many Events with that reason each pod of the namespace has, by the pod's name."""
    found: dict[str, int] = {}
    for event in plane.api.get(EVENTS.format(space))["items"]:
        if event["reason"] == reason:
            name = event["regarding"]["name"]
            found[name] = found.get(name, 0) + 1
    return found


def check_bound(plane: ControlPlane, space: str, job: TFJob, watch: ConditionObserver) -> None:
    """Check that each member is bound, has the right condition, and has an Event that says so."""
    members = {pod["metadata"]["name"] for pod in pods(plane, space, job.name)}
    assert len(members) == job.ps + job.workers

    def wrong() -> list[str]:
        return [pod["metadata"]["name"] for pod in pods(plane, space, job.name) if refusal(pod)]

    # kube-scheduler may write it late and again, and the controller sets it right every two seconds.
    until(lambda: not at_rest(wrong), "PodScheduled set right on every bound pod", seen=wrong)
    until(
        lambda: members <= events_of(plane, space, "Scheduled").keys(),
        "an Event Scheduled on each",
        seen=lambda: sorted(members - events_of(plane, space, "Scheduled").keys()),
    )
    twice = [name for name, count in events_of(plane, space, "Scheduled").items() if count > 1]
    failed = sum(events_of(plane, space, "FailedScheduling").values())
    print(f"{job.name}: {watch.told()}; FailedScheduling on {failed}; Scheduled twice on {twice}")
    assert not twice


@pytest.mark.parametrize("members", [9, pytest.param(100, marks=pytest.mark.full)])
def test_the_first_bind_call_binds_all(plane: ControlPlane, kohort: Kohort, space: str, members: int) -> None:
    cpu = "1" if members < CORES else "100m"
    before = bind_calls(kohort)
    with ConditionObserver(plane, space) as watch:
        job = submit(plane, TFJob(space, "gang", workers=members - 1, worker_cpu=cpu, ps_cpu=cpu))
        until(lambda: len(watch.bound_now(job.name)) == members, "all bound")
        steps = bind_steps(kohort, job)
        assert (len(steps), len(set(steps))) == (members, 1)
        check_bound(plane, space, job, watch)
    print(f"{bind_calls(kohort) - before:g} bind calls for {members} members")
    assert watch.cross_node_pairs([job.name]) == 0


def filled(plane: ControlPlane, space: str) -> None:
    """Fill every node with a pod that did not opt in."""
    for number in range(3):
        create_pod(plane, space, lone_pod(f"guest-{number}", str(CORES), "nobody", nodeName=f"node-{number}"))


def leave(plane: ControlPlane, space: str, number: int) -> None:
    """Remove the pod that fills this node."""
    plane.api.delete(f"/api/v1/namespaces/{space}/pods/guest-{number}?gracePeriodSeconds=0")


def test_members_that_were_refused_are_bound_in_one_step(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """kube-scheduler tries all of them again when the room becomes free, but none needs a bind call of its own."""
    filled(plane, space)
    with ConditionObserver(plane, space) as watch:
        job = submit(plane, TFJob(space, "gang", workers=8))
        until(lambda: sum(bool(refusal(pod)) for pod in pods(plane, space, job.name)) == 9, "all refused")
        before = bind_calls(kohort)
        leave(plane, space, 1)
        until(lambda: len(watch.bound_now(job.name)) == 9, "all bound")
        assert set(nodes_of(plane, space, job.name).values()) == {"node-1"}
        assert len(set(bind_steps(kohort, job))) == 1
        check_bound(plane, space, job, watch)
    print(f"{bind_calls(kohort) - before:g} bind calls for 9 members")


def test_a_gang_behind_the_gate_is_bound_when_the_gate_has_gone(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """A gated pod cannot be bound, so no binding is sent before every member has lost its gate."""
    whole = str(CORES)
    with ConditionObserver(plane, space) as watch:
        holder = submit(plane, TFJob(space, "holder", workers=2, worker_cpu=whole, ps_cpu=whole))
        until(lambda: len(watch.bound_now(holder.name)) == 3, "every node full")
        submit(plane, TFJob(space, "earlier", workers=1, worker_cpu=whole, ps_cpu=whole))
        wait_gated(plane, space)
        job = submit(plane, TFJob(space, "gang", workers=8))
        until(lambda: sum(map(is_gated, pods(plane, space, job.name))) == 9, "all gated")
        plane.api.delete(holder.path)
        until(lambda: len(watch.bound_now(job.name)) == 9, "all bound")
        assert len(set(bind_steps(kohort, job))) == 1
        check_bound(plane, space, job, watch)


def test_a_gang_at_which_a_plugin_would_look_passes_the_barrier(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    before = bind_calls(kohort)
    with ConditionObserver(plane, space) as watch:
        job = submit(plane, TFJob(space, "gang", workers=8, extra=LOOKED_AT))
        until(lambda: len(watch.bound_now(job.name)) == 9, "all bound")
        # A call counts when it is answered, and the watch may show its binding before.
        assert at_rest(lambda: bind_calls(kohort) - before) == 9
        check_bound(plane, space, job, watch)
        assert not watch.longest
    until(lambda: job_view(kohort, job).get("state") == "running", "known as running")
