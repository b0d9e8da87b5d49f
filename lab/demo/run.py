"""``kohort demo``: KOD2's ten jobs on two embedded clusters, one under Kohort, one under the default scheduler alone.

Everything of Kohort is the real thing: watches and writes through its own client over HTTP, ledger, verbs over HTTP,
controller over REST. Only the cluster is made of memory, and time is virtual: it stands still while anybody works, so
that both sides end the same way on every machine, however fast or busy that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from extender import app as service
from extender.clock import Clock
from extender.config.sections import ServerSettings
from extender.config.settings import Settings
from extender.control.controller import Controller
from extender.control.controllerprocess import http_fetch, http_tell
from extender.http.server import AddressError, listen, serve
from extender.kube.client import KubeApi
from extender.kube.connection.given import Given
from extender.kube.connection.resolve import resolve
from extender.kubescheduler.wire import VERBS_PATH
from extender.leading.lease import EVERYBODY
from lab.demo import view
from lab.embedded.cluster import LOOPBACK, Cluster, served
from lab.embedded.config import ExtenderConfig, ProfileConfig, SchedulerConfig
from lab.embedded.observer import Observer
from lab.embedded.paced import paced
from lab.sim.report import Result
from lab.sim.traces import kod2, rigid

SPEED: Final = 75.0
SEED: Final = 6
HORIZON: Final = 3600.0  # seconds of the clusters' time; a job that has not finished by then counts until then
SEEDS: Final = (
    "Other jobs: --seed K. Of the seeds 0 to 9, 2 and 6 (the default) leave the default scheduler at a standstill; "
    "with the others it finishes, later than Kohort."
)
OURS, PLAIN = "kod2", "fifo-pod"


Part = Callable[[], Coroutine[Any, Any, None]]


def run(
    json_file: Path | None = None, *, speed: float = SPEED, seed: int = SEED, live: bool = True, port: int | None = None
) -> None:
    """Run the demo, show it and print the table; meanwhile Kohort's REST is on ``port``, 0 for any free one.

    None: the port where the command line looks, and any free one where that is taken. Raises OSError, and at once,
    where ``json_file`` cannot be written; of its kinds AddressError where ``port`` is taken.
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
    """Return the settings' own port, or 0 where another process has it."""
    usual = ServerSettings().port
    try:
        listen(LOOPBACK, usual).close()
    except AddressError as taken:
        view.console().print(f"{taken}: Kohort answers at another one", soft_wrap=True)
        return 0
    return usual


@contextmanager
def _quiet() -> Iterator[None]:
    """A terminal shows one thing at a time; what went wrong is in the figures."""
    log, nobody = logging.getLogger("extender"), logging.NullHandler()
    told, log.propagate = log.propagate, False
    log.addHandler(nobody)
    try:
        yield
    finally:
        log.propagate = told
        log.removeHandler(nobody)


async def _run(speed: float, seed: int, wants_live: bool, port: int) -> list[Result]:
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
    """Let Ctrl-C and SIGTERM end the demo in good order."""
    this = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(number, this.cancel if this else lambda: None)


# -- the two sides -------------------------------------------------------------------------------


@asynccontextmanager
async def plain_side(clock: Clock, seed: int) -> AsyncIterator[view.Side]:
    """The same jobs as plain Kubernetes runs them: all replicas asked for, each pod placed alone."""
    cluster = Cluster(rigid(kod2(seed)), clock, seed)
    scheduler = cluster.scheduler(SchedulerConfig())
    observer = Observer(PLAIN, cluster, clock, HORIZON)
    async with _running(cluster.run, scheduler.run, observer.run):
        yield view.Side(observer)


@asynccontextmanager
async def kohort_side(clock: Clock, seed: int, port: int = 0) -> AsyncIterator[view.Side]:
    """Kohort on a cluster of its own: API server, service, controller and scheduler loop, all over HTTP."""
    cluster = Cluster(kod2(seed), clock, seed)
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        settings = settings_for(port)
        connection = resolve(Given(kubeconfig=await stack.enter_async_context(served(cluster.server))))
        deadline = settings.barrier.api_deadline_seconds
        api = await stack.enter_async_context(KubeApi(connection, deadline=deadline, clock=clock, chance=chance))
        live = service.Live(settings, api, clock, chance)
        url = await stack.enter_async_context(_serving(live))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
        controller = Controller(api, http_fetch(client), http_tell(client), settings, clock, live.lease, chance=chance)
        scheduler = cluster.scheduler(scheduler_config(url, settings))
        await stack.enter_async_context(_running(live.run, controller.run, scheduler.run, cluster.run))
        while not (live.synced and scheduler.ready):
            await clock.sleep(1)
        observer = Observer(OURS, cluster, clock, HORIZON)
        await stack.enter_async_context(_running(observer.run))
        yield view.Side(observer, live, url)


def settings_for(port: int = 0) -> Settings:
    """The default settings, but for who leads, where REST is, and how often is looked where nothing is new."""
    return Settings.model_validate(
        {
            # Less than what the server gives a request that is open at the end.
            "controller": {"interval_seconds": 4.0},
            "lease": {"identity": EVERYBODY},
            "server": {"port": port, "health_port": 0},
        }
    )


BIND_TIMEOUT = 5.0  # seconds; of manifests/base/scheduler-config.yaml


def scheduler_config(url: str, settings: Settings) -> SchedulerConfig:
    """The KubeSchedulerConfiguration of the manifests, in the embedded scheduler's words."""
    extender = ExtenderConfig(
        url=f"{url}{VERBS_PATH}",
        filter_verb="filter",
        prioritize_verb="prioritize",
        bind_verb="bind",
        weight=20,
        timeout=settings.barrier.http_timeout_seconds,
    )
    return SchedulerConfig(
        profiles={settings.scheduler_name: ProfileConfig(percentage=100, preemption=False, bind_timeout=BIND_TIMEOUT)},
        extenders=(extender,),
        initial_backoff=settings.scheduler.pod_initial_backoff_seconds,
        max_backoff=settings.scheduler.pod_max_backoff_seconds,
    )


@asynccontextmanager
async def _serving(live: service.Live) -> AsyncIterator[str]:
    """Serve the verbs and REST on a free port; yields the URL."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    verbs = service.endpoints(live)[0]
    async with _running(lambda: serve([verbs], lambda bound: ready.set_result(bound[0][1]))):
        yield f"http://{LOOPBACK}:{await ready}"
        await live.close_connections()  # or the listener waits for them in vain


@asynccontextmanager
async def _running(*parts: Part) -> AsyncIterator[None]:
    """Run all parts for as long as the context lasts; one that fails ends it with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part()) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
