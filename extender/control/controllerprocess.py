"""Runs the controller as a process of its own, beside the extender: ``kohort controller``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import httpx

from extender.clock import Clock
from extender.config.settings import Settings
from extender.control.controller import Controller
from extender.control.extenderrest import ExtenderError, Fetch, Post
from extender.http.headers import CLIENT_HEADER, CONTROLLER
from extender.http.limits import Limits, probe_limits
from extender.http.server import Endpoint
from extender.http.server import serve as serve_endpoints
from extender.kube.client import KubeApi
from extender.kube.connection.kubectloptions import KubectlOptions
from extender.kube.connection.resolve import resolve
from extender.leading.lease import Lease
from extender.observe.health import probes


def http_fetch(client: httpx.AsyncClient) -> Fetch:
    """Return a function that reads from the extender's REST interface and raises `ExtenderError` on any failure."""

    async def fetch(path: str, query: Mapping[str, str], seconds: float) -> bytes:
        try:
            answer = await client.get(path, params=dict(query), timeout=seconds, headers={CLIENT_HEADER: CONTROLLER})
        except httpx.HTTPError as error:
            raise ExtenderError(f"{type(error).__name__} at {client.base_url}: {error}") from error
        if answer.status_code != httpx.codes.OK:
            raise ExtenderError(
                f"the extender at {client.base_url} answers with status {answer.status_code}: {answer.text[:200]}"
            )
        return answer.content

    return fetch


def http_post(client: httpx.AsyncClient) -> Post:
    """Return a function that posts to the extender's REST interface and raises `ExtenderError` on any failure."""
    headers = {CLIENT_HEADER: CONTROLLER, "Content-Type": "application/json"}

    async def post(path: str, body: bytes, seconds: float) -> None:
        try:
            answer = await client.post(path, content=body, timeout=seconds, headers=headers)
        except httpx.HTTPError as error:
            raise ExtenderError(f"{type(error).__name__} at {client.base_url}: {error}") from error
        if not answer.is_success:
            raise ExtenderError(
                f"the extender at {client.base_url} answers with status {answer.status_code}: {answer.text[:200]}"
            )

    return post


LIMITS: Final = probe_limits(Limits())


async def serve(settings: Settings) -> None:
    """Run the controller until SIGTERM. Raises OSError where the health port is taken, or the error that made one of
    its tasks fail.
    """
    clock, chance = Clock(), random.Random()
    connection = resolve(KubectlOptions(kubeconfig=settings.kubeconfig))
    deadline = settings.barrier.api_deadline_seconds
    async with (
        KubeApi(connection, deadline=deadline, clock=clock, chance=chance) as api,
        httpx.AsyncClient(base_url=settings.controller.service_url, trust_env=False) as client,
    ):
        lease = Lease(api, settings.lease, clock)
        controller = Controller(api, http_fetch(client), http_post(client), settings, clock, lease, chance=chance)
        await _serve(controller, lease, settings)


async def _serve(controller: Controller, lease: Lease, settings: Settings) -> None:
    app, own = probes(controller.readiness, controller.metrics.registry), settings.controller
    health = Endpoint(app, own.health_host, own.health_port, LIMITS)
    running = asyncio.create_task(_run(controller, lease))
    stop = asyncio.Event()
    running.add_done_callback(lambda _: stop.set())
    try:
        await serve_endpoints([health], stop=stop)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error


async def _run(controller: Controller, lease: Lease) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(lease.run(controller.led))
        tasks.create_task(controller.run())
