"""Calls extenders as kube-scheduler does, by HTTP or within the process, with its rules on which answers are valid."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from extender.clock import Clock
from extender.kube.api import Json
from lab.embedded.cache import PodInfo
from lab.embedded.config import ExtenderConfig

Send = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""A function that posts a body to a URL and returns the answer's status and body. Raises OSError if none comes."""


@asynccontextmanager
async def over_http() -> AsyncIterator[Send]:
    """Yield a function that sends a request to an extender over HTTP and returns its answer."""
    connector = aiohttp.TCPConnector(limit=0)  # there is no limit on concurrent binds, as in kube-scheduler
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(url: str, body: bytes) -> tuple[int, bytes]:
            try:
                async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                    return response.status, await response.read()
            except aiohttp.ClientError as error:
                raise OSError(f"{type(error).__name__}: {error}") from error

        yield send


class ExtenderError(Exception):
    """A call of an extender failed, or its answer is invalid or states an error."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer to filter: the names of the nodes that the pod may use, and for each refused node the reason.

    unresolvable: maps each node on which preemption cannot help to its reason. failed: maps each other refused node to
    its reason.
    """

    names: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class ExtenderClient:
    """A client for one configured extender."""

    def __init__(self, config: ExtenderConfig, send: Send, clock: Clock) -> None:
        self.config = config
        self._send = send
        self._clock = clock

    async def filter(self, pod: PodInfo, nodes: Mapping[str, Json]) -> Filtered:
        """Call filter: ask which of the nodes the pod may use.

        Raises ExtenderError, also if the answer names a node that was not offered.
        """
        answer = await self._call(self.config.filter_verb, self._args(pod, nodes))
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        names = _kept(answer) if not self.config.capable or answer.get("nodenames") is None else answer["nodenames"]
        if strange := [name for name in names if name not in nodes]:
            raise ExtenderError(f"extender {self.config.url} claims a filtered node {strange[0]} not in the input list")
        failed, unresolvable = answer.get("failednodes") or {}, answer.get("failedandunresolvablenodes") or {}
        return Filtered(tuple(names), failed, unresolvable)

    async def prioritize(self, pod: PodInfo, nodes: Mapping[str, Json]) -> Mapping[str, int]:
        """Call prioritize and return the score of each node; return no scores after a failure, like kube-scheduler."""
        try:
            answer = await self._post(self.config.prioritize_verb, self._args(pod, nodes))
            scores: dict[str, int] = {}
            for element in answer or ():
                host = {key.lower(): value for key, value in element.items()}
                if not isinstance(host["score"], int):
                    return {}
                scores[host["host"]] = scores.get(host["host"], 0) + host["score"]
            return scores
        except (ExtenderError, LookupError, AttributeError, TypeError):
            return {}

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Call bind, with which the extender binds the pod to the node. Raises ExtenderError."""
        args = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._call(self.config.bind_verb, args)
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))

    def _args(self, pod: PodInfo, nodes: Mapping[str, Json]) -> Json:
        item = _bare(pod.item)
        if self.config.capable:
            return {"Pod": item, "Nodes": None, "NodeNames": list(nodes)}
        return {"Pod": item, "Nodes": {"metadata": {}, "items": [_bare(n) for n in nodes.values()]}, "NodeNames": None}

    async def _call(self, verb: str, args: Json) -> Json:
        answer = await self._post(verb, args)
        if not isinstance(answer, dict):
            raise ExtenderError("the answer is no object")
        return {key.lower(): value for key, value in answer.items()}

    async def _post(self, verb: str, args: Json) -> Any:
        url, body = f"{self.config.url}/{verb}", msgspec.json.encode(args)
        try:
            async with self._clock.timeout(self.config.timeout):
                status, data = await self._send(url, body)
        except TimeoutError:
            raise ExtenderError("Client.Timeout exceeded while awaiting headers") from None
        except OSError as error:
            raise ExtenderError(str(error)) from None
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {self.config.url}, code {status}")
        try:
            return msgspec.json.decode(data)
        except msgspec.MsgspecError as error:
            raise ExtenderError(str(error)) from None


def _kept(answer: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the nodes in a filter answer that contains whole nodes; return no names if it contains no
    nodes.
    """
    items = (answer.get("nodes") or {}).get("items") or ()
    return [item["metadata"]["name"] for item in items]


def _bare(item: Json) -> Json:
    """Return the object as kube-scheduler's informers keep it: without kind, apiVersion and managedFields."""
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {"metadata": meta, **{key: item[key] for key in ("spec", "status") if key in item}}
