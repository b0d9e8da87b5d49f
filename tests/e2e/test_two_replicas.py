"""Tests of two replicas of kube-scheduler, extender and controller: the leader dies or hangs amid decisions."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import nodes_of, pods, summary
from tests.e2e.background import Background
from tests.e2e.gangs import LEASE, forget_lease, is_leading, own_namespace, submit, window
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import at_rest, never, until

pytestmark = pytest.mark.full

Json = dict[str, Any]
CORES = 10
LEADER = "kohort.dev/leader"
SHORT = {"leaseDuration": "9s", "renewDeadline": "7s", "retryPeriod": "1s"}
ACTING = 20.0  # The other replica must write within so many seconds after the fault.
FAULTS = {"killed": signal.SIGKILL, "paused": signal.SIGSTOP}


@dataclass(slots=True)
class Pair:
    """Two replicas of Kohort, by host name."""

    plane: ControlPlane
    replicas: dict[str, Kohort]

    def leader(self) -> str:
        """Return the name of the replica that leads, or "" while none or both say that they lead."""
        leading = [name for name, kohort in self.replicas.items() if is_leading(kohort)]
        return leading[0] if len(leading) == 1 else ""

    def strike(self, name: str, fault: signal.Signals) -> None:
        """Kill or suspend all three processes of the replica, as when its node dies or hangs."""
        for part in self._parts(name):
            part.kill(fault)

    def wake(self, name: str) -> None:
        for part in self._parts(name):
            part.resume()

    def mend(self, name: str) -> None:
        """Wait until the replica's kube-scheduler has ended for lack of its Lease, and restart all ended processes."""
        until(lambda: not self.replicas[name].scheduler.alive, f"the end of {name}'s kube-scheduler")
        for part in self._parts(name):
            if not part.alive:
                part.restart()
        self.replicas[name].wait_ready()

    def revive(self, name: str) -> None:
        """Restart dead processes of the replica, continue suspended ones, and wait until it is ready."""
        for part in self._parts(name):
            part.resume() if part.alive else part.restart()
        self.replicas[name].wait_ready()

    def _parts(self, name: str) -> tuple[Any, ...]:
        kohort = self.replicas[name]
        return kohort.scheduler, kohort.extender, kohort.controller

    def stop(self) -> None:
        for kohort in self.replicas.values():
            kohort.stop()


def start_pair(plane: ControlPlane, name: str, election: Json) -> Pair:
    forget_lease(plane)
    settings = window(4) | {
        "kod2": {"cooldown_seconds": 1},
        "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4},
    }
    scheduler = {"leaderElection": election}
    replicas = {
        host: start_kohort(plane, settings, scheduler, f"{name}-{host}", hostname=host) for host in ("first", "second")
    }
    return Pair(plane, replicas)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("replicas"), controller_manager=True) as started:
        yield started


@pytest.fixture(scope="module")
def started(plane: ControlPlane) -> Iterator[Pair]:
    pair = start_pair(plane, "pair", SHORT)
    yield pair
    pair.stop()


@pytest.fixture
def pair(started: Pair) -> Pair:
    """Return both replicas running, even after a test that left one dead or suspended."""
    for name in started.replicas:
        started.revive(name)
    return started


@dataclass(slots=True)
class Replicas(Background):
    """A thread that records, by job name, the sequence of worker replicas in the jobs of a namespace."""

    plane: ControlPlane
    namespace: str
    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> None:
        while not self.stopped.is_set():
            path = f"/apis/kubeflow.org/v1/namespaces/{self.namespace}/tfjobs"
            for item in self.plane.api.get(path)["items"]:
                seen = self.counts[item["metadata"]["name"]]
                asked = item["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]
                if not seen or seen[-1] != asked:
                    seen.append(asked)
            time.sleep(0.05)


def whole(plane: ControlPlane, job: TFJob) -> bool:
    return len(nodes_of(plane, job.namespace, job.name)) >= job.ps + (job.least or job.workers)


def wrote(plane: ControlPlane, space: str, leader: str) -> bool:
    """Tell whether a pod or job of the namespace has an annotation that names ``leader`` as the writer."""
    jobs = plane.api.get(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs")["items"]
    return any(one["metadata"].get("annotations", {}).get(LEADER) == leader for one in (*pods(plane, space), *jobs))


def turns(counts: list[int]) -> int:
    """Return how often a sequence of numbers changes between rising and falling."""
    steps = [later > earlier for earlier, later in pairwise(counts)]
    return sum(1 for one, other in pairwise(steps) if one is not other)


def overfull(plane: ControlPlane) -> dict[str, int]:
    taken: dict[str, int] = defaultdict(int)
    for pod in plane.api.get("/api/v1/pods")["items"]:
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            taken[pod["spec"]["nodeName"]] += 1  # Each pod requests one core.
    return {node: count for node, count in taken.items() if count > CORES}


def state(plane: ControlPlane, space: str) -> Json:
    """Return the pods' nodes by UID and the jobs' worker replicas by name, which a former leader must not change."""
    jobs = plane.api.get(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs")["items"]
    return {
        "pods": {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods(plane, space)},
        "jobs": {job["metadata"]["name"]: job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] for job in jobs},
    }


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Seconds from the fault until the other kube-scheduler has the Lease, its extender leads, and it has written."""

    leased: float
    leading: float
    acted: float

    def __str__(self) -> str:
        ours = f"{self.leading - self.leased:.2f} until Kohort led, {self.acted - self.leading:.2f} until it acted"
        return f"{self.acted:.1f} s ({self.leased:.2f} until kube-scheduler had the Lease, {ours})"


def follow(pair: Pair, space: str, new: str, limit: float) -> TakeOver:
    """Wait until replica ``new`` has taken over and written; return how long each stage took."""
    struck, wall, leading = time.monotonic(), time.time(), 0.0
    while not wrote(pair.plane, space, new):
        passed = time.monotonic() - struck
        assert passed < limit, f"{new} has not acted within {limit} s"
        if not leading and is_leading(pair.replicas[new]):
            leading = passed
        time.sleep(0.02)
    acted = time.monotonic() - struck
    taken = datetime.fromisoformat(pair.plane.api.get(LEASE)["spec"]["acquireTime"]).timestamp()
    return TakeOver(taken - wall, leading or acted, acted)


def fail_over(pair: Pair, space: str, fault: signal.Signals, acting: float, after: float) -> TakeOver:
    """Fill the cluster with elastic jobs, submit four heavier gangs, and strike the leader ``after`` seconds later.

    Wait until the other replica has bound every job whole, check the outcome, and return how long the take-over took.
    """
    plane = pair.plane
    with ClusterObserver(plane, space) as watch, Replicas(plane, space) as replicas:
        light = [submit(plane, TFJob(space, f"light-{n}", workers=2, least=2, most=13)) for n in range(2)]
        until(lambda: sum(1 for _ in nodes_of(plane, space)) >= 3 * CORES - 2, "the cluster full")
        old = until_led(pair)
        heavy = [submit(plane, TFJob(space, f"heavy-{n}", workers=4, utility="50")) for n in range(4)]
        time.sleep(after)
        (new,) = pair.replicas.keys() - {old}
        pair.strike(old, fault)
        took = follow(pair, space, new, acting)
        until(lambda: all(whole(plane, job) for job in (*light, *heavy)), "every job whole")
        if fault is signal.SIGSTOP:
            undisturbed(pair, space, old)
        pair.mend(old)
        verify(plane, watch, replicas, light, heavy, acting)
    return took


def until_led(pair: Pair) -> str:
    until(pair.leader, "one leader")
    return pair.leader()


def undisturbed(pair: Pair, space: str, old: str) -> None:
    """Continue the suspended former leader, and check for 5 s that it neither binds, nor resizes, nor deletes."""
    settled = at_rest(lambda: state(pair.plane, space))
    pair.wake(old)
    never(lambda: state(pair.plane, space) != settled, "a change by the old leader", 5)


def verify(
    plane: ControlPlane,
    watch: ClusterObserver,
    replicas: Replicas,
    light: list[TFJob],
    heavy: list[TFJob],
    acting: float,
) -> None:
    assert overfull(plane) == {}
    for job in heavy:
        deleted = {role: watch.deleted(job.name, role) for role in ("worker", "ps")}
        assert deleted == {"worker": 0, "ps": 0}, f"{job.name} was started twice"
        assert watch.partial_seconds(job.name, 5) <= acting + 5
        assert set(replicas.counts[job.name]) == {4}
    for job in light:
        counts = replicas.counts[job.name]
        assert watch.deleted(job.name, "ps") == 0
        assert set(counts) <= set(range(2, 14))
        # The job grew, shrank for the heavier jobs, and grew again if there was room.
        assert turns(counts) <= 2, counts


@pytest.mark.parametrize("fault", FAULTS)
def test_the_other_replica_takes_over_in_the_middle(pair: Pair, space: str, fault: str) -> None:
    took = fail_over(pair, space, FAULTS[fault], ACTING, after=0.5)
    print(f"{fault}: the other replica acted after {took}")


def test_the_follower_knows_what_the_leader_knows(pair: Pair, space: str) -> None:
    jobs = [submit(pair.plane, TFJob(space, f"gang-{n}", workers=3)) for n in range(3)]
    until(lambda: all(whole(pair.plane, job) for job in jobs), "every job whole")
    first, second = pair.replicas.values()
    until(lambda: summary(first, space) == summary(second, space) != {}, "the same in both")
    holder = pair.plane.api.get(LEASE)["spec"]["holderIdentity"]
    assert holder.startswith(f"{pair.leader()}_")


@pytest.mark.soak
@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("fault", FAULTS)
def test_by_the_shipped_lease_times_the_other_one_acts_within_twenty_seconds(
    plane: ControlPlane, space: str, fault: str
) -> None:
    """The other replica acts within 20 s with the default lease times.

    The Lease lasts 15 s, and kube-scheduler tries to take it every 1 to 2.2 s, so it has it after at most 19.4 s.
    """
    pair = start_pair(plane, f"soak-{fault}", {})
    try:
        for number in range(5):
            with own_namespace(plane, f"{space}-{number}") as name:
                took = fail_over(pair, name, FAULTS[fault], ACTING, after=0.2 + 0.2 * number)
            print(f"{fault}: the other replica acted after {took}")
            until(pair.leader, "one leader")
    finally:
        pair.stop()
