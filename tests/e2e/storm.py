"""A storm on the real control plane: jobs arrive, parts are killed at critical moments, the API server has faults."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import httpx

from tests.controlplane import ControlPlane
from tests.controlplane.faultproxy import Fault
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import JOB
from tests.e2e.gangs import ROLE, forget_lease, submit
from tests.e2e.observer import ClusterObserver, Sighting
from tests.e2e.tfjobs import TFJOBS, TFJob

Json = dict[str, Any]
Part = Literal["extender", "controller", "scheduler"]
Middle = Literal["gang", "resize"]
PARTS: Final[tuple[Part, ...]] = ("extender", "controller", "scheduler")
MIDDLES: Final[tuple[Middle, ...]] = ("gang", "resize")
WORKER_CORES: Final = "2"
PATIENCE: Final = 20.0  # The killer waits so many seconds for a critical moment.
# The extender must be ready within so many seconds, although its requests meet faults and lists time out.
READY_LIMIT: Final = 150.0
WRITES = {"create", "patch", "delete"}
FAULTS: Final = (
    Fault("drop-after", 0.05, WRITES),
    Fault("drop-before", 0.05, WRITES),
    Fault("too-many-requests", 0.03, seconds=1),
    Fault("conflict", 0.03, {"create", "patch"}, {"pods/binding", "tfjobs", "pods"}),
    Fault("error", 0.03),
    Fault("unavailable", 0.03),
    Fault("truncated", 0.03, {"get", "list", *WRITES}),
    Fault("delay", 0.05, seconds=0.3),
    Fault("cut", 0.01),
    Fault("gone", 0.005),
)


@dataclass(slots=True)
class Arrivals:
    """A thread that submits random jobs, elastic and rigid, light and heavy, so that ``unfinished`` of them exist.

    It deletes ended jobs, because with hundreds of them the operator creates pods minutes late. ``ends`` has by job
    name how the job ended according to the operator.
    """

    plane: ControlPlane
    namespace: str
    chance: random.Random
    unfinished: int
    jobs: list[TFJob] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that submits jobs."""
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop submitting jobs. Raises AssertionError if the thread has failed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)
        assert not self.problem, self.problem

    def _run(self) -> None:
        try:
            for number in itertools.count():
                while len(self.jobs) - self._clear() >= self.unfinished:
                    if self._stop.wait(0.2):
                        return
                self.jobs.append(submit(self.plane, self._job(number)))
                if self._stop.wait(self.chance.uniform(0.1, 0.6)):
                    return
        except Exception as error:  # `stop` raises it, because an error in a thread would go unnoticed.
            self.problem = repr(error)

    def _clear(self) -> int:
        """Delete the jobs that have ended; return how many jobs have ended since the start."""
        for end, names in by_end(self.plane, self.namespace).items():
            for name in set(names) - self.ends.keys() if end else ():
                self.ends[name] = end
                self.plane.api.delete(f"{TFJOBS.format(namespace=self.namespace)}/{name}")
        return len(self.ends)

    def _job(self, number: int) -> TFJob:
        seconds = round(self.chance.uniform(4, 10), 1)
        name = f"job-{number}"
        if number % 4 == 3:
            workers = self.chance.randint(2, 6)
            return TFJob(self.namespace, name, workers=workers, worker_cpu=WORKER_CORES, run_seconds=seconds)
        least = self.chance.randint(1, 3)
        most = least + self.chance.randint(2, 9)
        utility = self.chance.choice(("", "", "20", "100"))
        return TFJob(
            self.namespace, name, workers=self.chance.randint(least, most), least=least, most=most, utility=utility,
            worker_cpu=WORKER_CORES, run_seconds=seconds,
        )  # fmt: skip


def by_end(plane: ControlPlane, namespace: str) -> dict[str, list[str]]:
    """Return the names of the jobs that the operator reports as "Succeeded" or "Failed", and of all others under ""."""
    ends: dict[str, list[str]] = {"Succeeded": [], "Failed": [], "": []}
    for job in plane.api.get(TFJOBS.format(namespace=namespace))["items"]:
        told = {c["type"] for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"}
        end = next((end for end in ("Succeeded", "Failed") if end in told), "")
        ends[end].append(job["metadata"]["name"])
    return ends


class Middles:
    """Detects critical moments: "gang" when a new gang is half bound, "resize" when a running job lacks workers."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self._whole: set[str] = set()

    def now(self) -> set[Middle]:
        """Return the critical moments that the API server shows now."""
        jobs = self._plane.api.get(TFJOBS.format(namespace=self._namespace))["items"]
        bound: Counter[str] = Counter()
        for pod in self._plane.api.get(f"/api/v1/namespaces/{self._namespace}/pods")["items"]:
            if pod["spec"].get("nodeName") and pod["metadata"].get("labels", {}).get(ROLE):
                bound[pod["metadata"]["labels"][JOB]] += 1
        seen: set[Middle] = set()
        for job in jobs:
            name = job["metadata"]["name"]
            want = sum(role["replicas"] for role in job["spec"]["tfReplicaSpecs"].values())
            if job.get("status", {}).get("completionTime"):
                continue
            if bound[name] == want:
                self._whole.add(name)
            elif bound[name]:
                seen.add("resize" if name in self._whole else "gang")
        return seen

    def wait(self, wanted: Middle, seconds: float) -> str:
        """Wait for the critical moment and return it; after ``seconds`` return another one that is there now, or ""."""
        deadline = time.monotonic() + seconds
        while wanted not in (seen := self.now()):
            if time.monotonic() > deadline:
                return next(iter(seen), "")
        return wanted


@dataclass(slots=True)
class Killer:
    """Kills Kohort's processes with SIGKILL and restarts them; ``kills`` counts by process and critical moment."""

    plane: ControlPlane
    kohort: Kohort
    middles: Middles
    kills: Counter[tuple[Part, str]] = field(default_factory=Counter)
    ready_seconds: list[float] = field(default_factory=list)

    def rage(self, kills: int, rounds: int, chance: random.Random) -> None:
        """Kill until each process has died ``kills`` times at each critical moment, or ``rounds`` are over.

        A round kills each process once for each moment at which it still lacks kills. The first rounds kill even if
        the moment does not come; later rounds kill only at the moment itself, because with a kill every few seconds
        there is hardly a resize.
        """
        for number in range(rounds):
            for part, middle in chance.sample(lacking := self.lacking(kills), len(lacking)):
                if number < kills or self.middles.wait(middle, PATIENCE) == middle:
                    self.kill(part, middle)
                time.sleep(chance.uniform(0.0, 0.5))

    def lacking(self, kills: int) -> list[tuple[Part, Middle]]:
        """Return each (process, critical moment) that has had fewer than ``kills`` kills."""
        return [(part, middle) for part in PARTS for middle in MIDDLES if self.kills[part, middle] < kills]

    def kill(self, part: Part, wanted: Middle) -> None:
        """Kill and restart the process at that critical moment, or five seconds later if the moment does not come."""
        found = self.middles.wait(wanted, 5)
        assert not (ended := self.ended_by_themselves()), f"ended by themselves: {ended}"
        process = getattr(self.kohort, part)
        process.crash()
        began = time.monotonic()
        if part == "scheduler":
            forget_lease(self.plane)
        process.start()
        if part == "extender":
            self.kohort.wait_ready(READY_LIMIT)
            self.ready_seconds.append(time.monotonic() - began)
        self.kills[part, found] += 1

    def ended_by_themselves(self) -> list[str]:
        """Return the processes that have ended without being killed, which no fault of the API server excuses."""
        return [part for part in PARTS if not getattr(self.kohort, part).alive]


def view(kohort: Kohort, namespace: str) -> Json:
    """Return the nodes and the namespace's jobs as REST shows them, without times."""
    jobs = [job["name"] for job in kohort.get("/v1/jobs")["jobs"] if job["namespace"] == namespace]
    details = [kohort.get(f"/v1/jobs/{namespace}/{name}") for name in jobs]
    # The time of the last resize, which is shown for the cool-down, is not kept over a restart.
    skipped = {"waited_seconds", "scaled_at", "admitted_at"}
    return {
        "jobs": {job["name"]: {key: value for key, value in job.items() if key not in skipped} for job in details},
        "nodes": {node["name"]: node for node in kohort.get("/v1/nodes")["nodes"]},
    }


def differences(one: Json, other: Json, at: str = "") -> list[str]:
    """Return a message with path and both values for each place at which two views differ."""
    found = []
    for key in sorted(one.keys() | other.keys()):
        left, right = one.get(key), other.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            found += differences(left, right, f"{at}/{key}")
        elif left != right:
            found.append(f"{at}/{key}: {left!r} and {right!r}")
    return found


def overcommitted(sightings: Iterable[Sighting], cores: Mapping[tuple[str, str], int], capacity: int) -> list[str]:
    """Return a message for each moment at which a node's unended pods requested more than ``capacity`` cores.

    ``cores`` has the cores of a pod by (job, role).
    """
    where: dict[str, tuple[str, int]] = {}
    used: Counter[str] = Counter()
    found = []
    for seen in sightings:
        node, size = where.pop(seen.uid, ("", 0))
        used[node] -= size
        if seen.node and not seen.gone and seen.phase not in ("Succeeded", "Failed"):
            where[seen.uid] = (seen.node, cores[seen.job, seen.role])
            used[seen.node] += cores[seen.job, seen.role]
            if used[seen.node] > capacity:
                found.append(f"{seen.node}: {used[seen.node]} of {capacity} with {seen.job} {seen.role}-{seen.index}")
    return found


def left_behind(plane: ControlPlane, namespace: str) -> list[str]:
    """Return the names of pods that still exist unended although their job has ended; the operator must delete them."""
    standing = set(by_end(plane, namespace)[""])
    items = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [
        pod["metadata"]["name"]
        for pod in items
        if pod["metadata"].get("labels", {}).get(JOB) not in standing
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def is_whole(observer: ClusterObserver, job: TFJob) -> bool:
    """Tell whether no member, or at least the minimum of the job, is bound now."""
    bound = len(observer.bound_now(job.name))
    return bound == 0 or bound >= job.ps + (job.least or job.workers)


def knows(kohort: Kohort, namespace: str) -> set[str]:
    """Return the names of the namespace's jobs that Kohort's REST lists."""
    try:
        return {job["name"] for job in kohort.get("/v1/jobs")["jobs"] if job["namespace"] == namespace}
    except httpx.HTTPError:
        return set()
