"""Run ``kohort demo``: KOD2's ten jobs on two embedded clusters, one with Kohort, one with the default scheduler.

Kohort's own code runs unchanged: watches and writes go through its own HTTP client, the extender answers the verbs over
HTTP, and the controller reads from REST. Only the cluster is simulated in memory, and time is virtual: it stands still
while any task has work to do. Both runs therefore have the same result on every machine, however fast or busy it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from extender import app as service
from extender.clock import Clock
from extender.config.sections import ServerSettings
from extender.config.settings import Settings
from extender.control.controller import Controller
from extender.control.controllerprocess import http_fetch, http_post
from extender.http.server import AddressError, listen, serve
from extender.kube.client import KubeApi
from extender.kube.connection.kubectloptions import KubectlOptions
from extender.kube.connection.resolve import resolve
from extender.leading.lease import EVERYBODY
from lab.demo import view
from lab.embedded.config import SchedulerConfig, config_for
from lab.embedded.embeddedcluster import LOOPBACK, EmbeddedCluster, running, served
from lab.embedded.observer import RunObserver
from lab.embedded.paced import paced
from lab.sim.report import RunResult
from lab.sim.traces import kod2, rigid

SPEED: Final = 75.0
SEED: Final = 6
# the run ends after this many seconds of cluster time; an unfinished job counts as if it ended then
HORIZON: Final = 3600.0
SEEDS: Final = (
    "Other jobs: --seed K. Of the seeds 0 to 9, 2 and 6 (the default) bring the default scheduler to a standstill; "
    "with the others it finishes later than Kohort."
)
OURS, PLAIN = "kod2", "fifo-pod"


def run(
    json_file: Path | None = None, *, speed: float = SPEED, seed: int = SEED, live: bool = True, port: int | None = None
) -> None:
    """Run the demo, show it, and print the table at the end. Kohort's REST is served on ``port`` meanwhile.

    json_file: also write the table to this file. speed: the most seconds of cluster time per real second. live: show a
    live view instead of progress lines. port: 0 for any free port; None for the default port of the command line, or
    any free port if that one is taken. Raises OSError, before the run begins, if ``json_file`` cannot be written, and
    AddressError (an OSError) if ``port`` is taken.
    """
    if json_file is not None:
        with json_file.open("a"):
            pass
    found = _usual_port() if port is None else port
    listen(LOOPBACK, found).close()
    try:
        with _quiet():
            results = asyncio.run(_run(speed, seed, live, found))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if json_file is not None:
        rows = {"policies": [result.to_dict() for result in results]}
        json_file.write_text(json.dumps(rows, indent=2) + "\n")


def _usual_port() -> int:
    """Return the default port of the settings, or 0 (any free port) if another process uses it."""
    usual = ServerSettings().port
    try:
        listen(LOOPBACK, usual).close()
    except AddressError as taken:
        view.console().print(f"{taken}: Kohort uses another free port", soft_wrap=True)
        return 0
    return usual


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log output, which would disturb the live view; failures still show in the demo's figures."""
    log, nobody = logging.getLogger("extender"), logging.NullHandler()
    told, log.propagate = log.propagate, False
    log.addHandler(nobody)
    try:
        yield
    finally:
        log.propagate = told
        log.removeHandler(nobody)


async def _run(speed: float, seed: int, wants_live: bool, port: int) -> list[RunResult]:
    async with AsyncExitStack() as stack:
        starts = (partial(kohort_side, seed=seed, port=port), partial(plain_side, seed=seed))
        entered = [await stack.enter_async_context(paced(speed, start)) for start in starts]
        _end_on_signals()
        sides = [replace(side, ask=ask) for side, ask in entered]
        view.console().print(f"Ask Kohort meanwhile: export KOHORT_CLI_SERVER={sides[0].url}", soft_wrap=True)
        await view.follow(sides, speed, live=wants_live)
        endings = [await side.ask(side.observer.ending) for side in sides]
    view.print_table(endings, HORIZON)
    view.console().print(SEEDS, soft_wrap=True)
    return [ending.result for ending in endings]


def _end_on_signals() -> None:
    """Cancel the current task on Ctrl-C and on SIGTERM, so that the demo shuts down cleanly."""
    if this := asyncio.current_task():
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(RuntimeError, ValueError):  # outside the main thread no signal handler can be set
                asyncio.get_running_loop().add_signal_handler(number, this.cancel)


# -- The functions below run the two clusters. -------------------------------------------------------


@asynccontextmanager
async def plain_side(clock: Clock, seed: int) -> AsyncIterator[view.DemoSide]:
    """Run the jobs with the default scheduler: each job asks for all its replicas, and each pod is placed alone."""
    cluster = EmbeddedCluster(rigid(kod2(seed)), clock, seed)
    scheduler = cluster.scheduler(SchedulerConfig())
    observer = RunObserver(PLAIN, cluster, clock, HORIZON)
    async with running(cluster.run, scheduler.run, observer.run):
        yield view.DemoSide(observer)


@asynccontextmanager
async def kohort_side(clock: Clock, seed: int, port: int = 0) -> AsyncIterator[view.DemoSide]:
    """Run the jobs with Kohort on a second cluster: API server, extender, controller and scheduling loop use HTTP."""
    cluster = EmbeddedCluster(kod2(seed), clock, seed)
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        settings = settings_for(port)
        connection = resolve(KubectlOptions(kubeconfig=await stack.enter_async_context(served(cluster.server))))
        deadline = settings.barrier.api_deadline_seconds
        api = await stack.enter_async_context(KubeApi(connection, deadline=deadline, clock=clock, chance=chance))
        live = service.Live(settings, api, clock, chance)
        url = await stack.enter_async_context(_serving(live))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
        controller = Controller(api, http_fetch(client), http_post(client), settings, clock, live.lease, chance=chance)
        scheduler = cluster.scheduler(config_for(url, settings))
        await stack.enter_async_context(running(live.run, controller.run, scheduler.run, cluster.run))
        while not (live.synced and scheduler.ready):
            await clock.sleep(1)
        observer = RunObserver(OURS, cluster, clock, HORIZON)
        await stack.enter_async_context(running(observer.run))
        yield view.DemoSide(observer, live, url)


def settings_for(port: int = 0) -> Settings:
    """Return the default settings, except for the leader's identity, the REST port and the resync interval."""
    return Settings.model_validate(
        {
            # The controller's long poll must be shorter than the time that a stopping server gives to open requests.
            "controller": {"interval_seconds": 4.0},
            "lease": {"identity": EVERYBODY},
            "server": {"port": port, "health_port": 0},
        }
    )


@asynccontextmanager
async def _serving(live: service.Live) -> AsyncIterator[str]:
    """Serve the verbs and REST on a free port, and yield the URL of the server."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    verbs = service.endpoints(live)[0]
    async with running(lambda: serve([verbs], lambda bound: ready.set_result(bound[0][1]))):
        yield f"http://{LOOPBACK}:{await ready}"
        # the connections are closed first, because a listener that stops waits for its open connections
        await live.close_connections()
