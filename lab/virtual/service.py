"""Kohort's extender and controller in one process: their code is the live one, but nothing goes over HTTP.

The verbs and REST are called as functions. The controller writes no Events, because nothing reads Events in a
simulation.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from extender.app import Live
from extender.clock import Clock
from extender.config.settings import Settings
from extender.control.controller import Controller
from extender.control.extenderrest import ExtenderError
from extender.http.headers import CONTROLLER
from extender.kube.api import Api
from extender.present.views.refused import RefusedWritesBody
from extender.routes.refused import take_in
from extender.routes.rest import Rest
from extender.routes.restparameters import DesiredParameters
from extender.routes.verbs import Verbs
from extender.state.rules import rules_of
from policy.cluster.snapshot import Rules, Snapshot
from policy.systems import POD_BY_POD
from policy.systems.base import Policy

DESIRED = "/v1/desired"


class InProcessService:
    """Runs the parts of ``kohort serve`` and ``kohort controller`` as one replica that always leads."""

    def __init__(self, settings: Settings, policy: Policy, api: Api, clock: Clock, chance: random.Random) -> None:
        self.live = Live(settings, api, clock, chance)
        self.live.ledger.policy = policy
        self.live.ledger.snapshot = Snapshot(rules=rules_under(policy, settings))
        lease = self.live.lease
        self._controller = Controller(api, self._fetch, self._post, settings, clock, lease, chance=chance)

    async def run(self) -> None:
        """Run the extender and the controller until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.live.run())
            tasks.create_task(self._controller.run())

    async def send(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Answer kube-scheduler's call of a verb; return the status and the body of the answer."""
        hung_up = asyncio.Event()
        answering = asyncio.create_task(call_verb(self.live.verbs, url.rpartition("/")[2], body, hung_up.wait))
        try:
            return 200, await asyncio.shield(answering)
        finally:
            hung_up.set()

    async def _fetch(self, path: str, query: Mapping[str, str], seconds: float) -> bytes:
        if path != DESIRED:
            raise ExtenderError(f"the simulated extender does not answer {path}; it answers {DESIRED} only")
        return await call_desired(self.live.questions, query)

    async def _post(self, path: str, body: bytes, seconds: float) -> None:
        take_in(self.live.ledger, RefusedWritesBody.model_validate_json(body))


def rules_under(policy: Policy, settings: Settings) -> Rules:
    """Return the rules of a service with these settings, but with this policy."""
    return replace(rules_of(settings), gangs=policy.base.name not in POD_BY_POD)


async def call_verb(verbs: Verbs, verb: str, body: bytes, hung_up: Callable[[], Awaitable[Any]]) -> bytes:
    """Call the handler of the verb as kube-scheduler would, and return the body of its answer.

    ``hung_up``: a function to await; it returns when the caller has given up, as if it had closed its connection.
    """
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if first:
            return first.pop()
        await hung_up()
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "path": f"/{verb}", "headers": []}, receive)
    answer = await getattr(verbs, verb)(request)
    return bytes(answer.body)


async def call_desired(rest: Rest, query: Mapping[str, str]) -> bytes:
    """Answer the controller's long poll for the desired state, and return the answer as JSON."""
    found = await rest.desired(DesiredParameters.model_validate(dict(query)), CONTROLLER)
    return found.model_dump_json().encode()
