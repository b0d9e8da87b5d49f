"""Made-up clusters for tests of the page: events for a real ledger, whose page the real listener serves."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fastapi import FastAPI

from extender.clock import Clock
from extender.comparison.comparisons import Comparisons
from extender.config.settings import Settings
from extender.http.server import Endpoint, serve
from extender.observe.health import Check, Heartbeat, Readiness
from extender.page.loadhistory import History, LoadSample, Pricer
from extender.page.routes import Page
from extender.routes import rest, table
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from extender.state.record import Recorder
from policy.cluster.events import Event, JobSeen, NodeSeen, PodSeen, Synced
from policy.cluster.job import PS, WORKER, Job, Slot
from policy.cluster.node import Node
from policy.cluster.pod import Phase, Pod
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems.base import Policy
from policy.systems.kod2 import Kod2
from tests import builders

T = TypeVar("T")
CORES = 10
GPUS = 8
# Waiting jobs in the scenes arrived hours ago; if they counted as starving, no new job could start before them.
PATIENT = Kod2(starve_limit=1e6)


def nodes(count: int, chance: random.Random) -> list[Node]:
    """Return nodes of ten cores and eight GPUs; of 100 nodes or more, 2 % are cordoned and 0.5 % are not ready."""
    made = []
    for at in range(count):
        shape = builders.res(CORES, 64, pods=110) + builders.res(**{"nvidia.com/gpu": GPUS})
        one = Node(f"node-{at:04}", shape, uid=f"uid-{at}", version=1)
        if count >= 100 and chance.random() < 0.02:
            one = replace(one, unschedulable=True)
        elif count >= 100 and chance.random() < 0.005:
            one = replace(one, ready=False)
        made.append(one)
    return made


TEAMS = ("vision", "speech", "ranking", "search", "research")
MODELS = ("resnet", "bert", "wide-deep", "mnist", "gpt", "inception", "dlrm", "whisper")


def a_job(name: str, chance: random.Random, now: float, *, least: int = 1, most: int = 8, asked: int = 2) -> Job:
    """Return a TFJob of one ps and ``asked`` workers, each with a GPU."""
    made = (
        builders.job(name).ps(1, cpu=1, memory=4)
        .workers(least, most, asked, cpu=1, memory=6, **{"nvidia.com/gpu": 1})
        .with_(namespace=chance.choice(TEAMS), arrival=now - chance.uniform(30, 20_000))
    )  # fmt: skip
    return replace(made.done(), uid=f"uid-job-{name}")


def small_job(name: str, scene: Scene) -> Job:
    made = builders.job(name).ps(1, cpu=0.1, memory=0.1).workers(1, 1, cpu=0.1, memory=0.1)
    return replace(made.done(), uid=f"uid-{name}", arrival=scene.ledger.now())


def too_large(name: str, workers: int, scene: Scene) -> Job:
    """Return a job whose workers fit on no node; the more workers, the heavier the job."""
    made = builders.job(name).ps(1, cpu=1).workers(workers, workers, cpu=CORES + 1).done()
    return replace(made, uid=f"uid-{name}", arrival=scene.ledger.now())


def submitted(job: Job) -> list[Event]:
    pods = [replace(pod, uid=f"{job.uid}-{pod.slot}") for pod in builders.members(job)]
    return [JobSeen(job), *(PodSeen(pod) for pod in pods)]


def bound(job: Job, slot: Slot, node: str) -> Pod:
    """Return the pod of that slot, running on that node."""
    made = builders.pod(f"{job.name}-{slot}", job, slot, node=node, phase=Phase.RUNNING)
    return replace(made, namespace=job.namespace, uid=f"{job.uid}-{slot}")


def cluster(node_count: int, jobs: int, waiting: int, now: float, seed: int = 1) -> list[Event]:
    """Return the events for a cluster whose GPUs are all taken: running jobs, foreign pods, and waiting jobs.

    Most running jobs are on one node, and some are spread over several.
    """
    chance = random.Random(seed)
    there = nodes(node_count, chance)
    events: list[Event] = [NodeSeen(node) for node in there]
    room = {node.name: GPUS for node in there if node.usable}
    for at in range(jobs):
        least = chance.choice((2, 4, 4, 6))
        given = least + chance.choice((0, 0, 1, 3, 8))
        job = a_job(f"{chance.choice(MODELS)}-{at:03}", chance, now, least=least, most=given + 4, asked=given)
        placed = _place(job, given, room, chance)
        events += [JobSeen(job), *(PodSeen(bound(job, slot, node)) for slot, node in placed.items())]
    for node, free in room.items():
        if free:
            asks = builders.res(1, 1, pods=1) + builders.res(**{"nvidia.com/gpu": free})
            events.append(PodSeen(replace(builders.guest(f"notebook-{node}", node), requests=asks)))
    for at in range(waiting):
        wide = a_job(f"large-{at:03}", chance, now, least=8 + at % 30, most=60, asked=8 + at % 30)
        pods = [replace(pod, namespace=wide.namespace, uid=f"{wide.uid}-{pod.slot}") for pod in builders.members(wide)]
        events += [JobSeen(wide), *(PodSeen(pod) for pod in pods)]
    return [*events, Synced()]


def _place(job: Job, workers: int, room: dict[str, int], chance: random.Random) -> dict[Slot, str]:
    """Return a node for each slot, if possible the same for all; ``room`` has each node's free GPUs."""
    whole = [node for node, free in room.items() if free >= workers]
    spread = chance.random() < 0.12
    home = chance.choice(whole) if whole else max(room, key=lambda node: room[node])
    placed = {Slot(PS, 0): home}
    for index in range(workers):
        host = home if room[home] > 0 and not (spread and index % 2) else max(room, key=lambda node: room[node])
        room[host] -= 1
        placed[Slot(WORKER, index)] = host
    return placed


class Vitals:
    """Health checks that all pass, unless a test changes them."""

    def __init__(self, clock: Clock) -> None:
        self.controller: Heartbeat | None = Heartbeat(clock)
        self.checks: tuple[Check, ...] = tuple(
            Check(name, True) for name in ("synced", "rebuilt", "watches", "leading")
        )

    def readiness(self) -> Readiness:
        return Readiness(self.checks)


class Scene:
    """A ledger with the page and REST, assembled as in `extender.app`, on an event loop in a thread of its own."""

    def __init__(self, policy: object = None, pricer: Pricer | None = None, journal: Path | None = None) -> None:
        """Create the scene; ``journal`` is the folder in which every step is recorded."""
        self.clock = Clock()
        deciding: Policy = policy or Kod2()  # type: ignore[assignment]
        self.recorder = Recorder(journal, deciding, Snapshot(), 64 << 20, 4) if journal is not None else None
        record = self.recorder.write if self.recorder is not None else None
        self.ledger = Ledger(deciding, Rules(), self.clock, Journal(), record=record)
        self.settings = Settings.model_validate({"journal": {"folder": str(journal or "")}})
        self.vitals = Vitals(self.clock)
        self.history = History(self.ledger, pricer)
        comparisons = Comparisons(self.ledger, lambda: self.settings)
        self.rest = rest.Rest(self.ledger, lambda: self.settings, self.vitals, comparisons)
        self.page = Page(self.ledger, self.vitals, self.history, comparisons)
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)
        app.include_router(table.router(self.rest))
        app.router.routes.extend(self.page.routes())
        return app

    def do(self, *events: Event) -> float:
        """Step the ledger with these events; return when the step ended, in monotonic seconds."""
        return self.call(lambda: self._step(events))

    def _step(self, events: tuple[Event, ...]) -> float:
        self.ledger.step(*events)
        return self.clock.monotonic()

    def call(self, ask: Callable[[], T]) -> T:
        """Call the function on the event loop's thread, and return its result."""
        assert self._loop is not None

        async def asked() -> T:
            return ask()

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(60)

    def end_streams(self) -> None:
        """Close the streams of events to all pages, as the service does when it stops."""
        self.call(self.rest.streams.close)

    def past(self, hours: float = 8) -> None:
        """Fill the history of the cluster's load with invented samples of the last ``hours``."""
        chance, now = random.Random(4), self.ledger.now()
        level, waiting = 0.6, 20.0
        for back in range(int(hours * 180), 0, -1):
            level = min(0.99, max(0.3, level + chance.gauss(0, 0.012)))
            waiting = max(0.0, waiting + chance.gauss(0, 1.4))
            used = {"nvidia.com/gpu": level, "cpu": level * 0.8, "memory": level * 0.6}
            running = round(380 + 60 * level)
            self.history.append(LoadSample(now - back * 20, used, round(waiting), running, {}))

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve the page and REST on a free loopback port from a thread, and yield the URL."""
        ready, stop = threading.Event(), asyncio.Event()

        def up(bound_to: list[tuple[str, int]]) -> None:
            self.url = f"http://127.0.0.1:{bound_to[0][1]}/"
            ready.set()

        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            await serve([Endpoint(self.app(), "127.0.0.1", 0)], up, stop)

        thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        thread.start()
        assert ready.wait(60), "the scene is not served"
        try:
            yield self.url
        finally:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self.rest.streams.close)
            self._loop.call_soon_threadsafe(stop.set)
            thread.join(20)


def look() -> None:
    """Serve the page of a large made-up cluster until Ctrl-C: ``python -m tests.browser.scenes [nodes] [jobs]``."""
    import sys
    import time

    count, jobs = (int(text) for text in (sys.argv[1:3] or ("1000", "400")))
    scene = Scene()
    with scene.served() as url:
        scene.do(*cluster(count, jobs, jobs // 4, scene.ledger.now()))
        scene.past()
        print(url, Path(__file__).name)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    look()
