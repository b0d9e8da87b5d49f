"""Simulate a faulty network: the connections of processes to the API server, and those of kube-scheduler and the
controller to the extender.

A request that has left its sender is carried out, even if the sender is killed. HTTP answers are interpreted as in
`extender.kube.client`: 5xx and silence are Unknown, and a 429 is retried until the deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from extender.kube.api import (
    LEASES,
    PODS,
    QUOTAS,
    ClusterError,
    Done,
    Json,
    Outcome,
    PatchKind,
    Ref,
    Refused,
    Resource,
    Unknown,
)
from extender.kube.jobkinds import LEADER
from lab.embedded.apiserver import ApiServer
from lab.embedded.embeddedapi import EmbeddedApi, require
from lab.embedded.objectstore import ExpiredError
from lab.virtual.clocks import loop_time, sleep
from policy.cluster.events import Event
from tests.simulation.clocks import ProcessClock
from tests.simulation.faults import ANY, AT_WRITES, DrawnFault, FaultSource, plain

if TYPE_CHECKING:
    from tests.simulation.processes import ExtenderProcess

PAGE: Final = 7
# After a pause of a process, its requests may still be from before the pause for this many seconds.
WAKING: Final = 0.1
READ_SECONDS: Final = 0.002  # A read without faults takes this many seconds.
DEADLINE: Final = 4.0
# The faults that can hit a write, by the verb of the write.
FAULTS: Final = {
    "bind": ("lost", "answer-lost", "conflict", "429", "500", "500-done", "forbidden", "slow", "lands-late"),
    "patch": ("lost", "answer-lost", "conflict", "429", "500"),
    "release": ("500", "lost", "answer-lost"),
    "renew": ("lost", "answer-lost", "500"),
}
Write = Callable[[], Awaitable[Outcome]]
T = TypeVar("T")


def error_500() -> ClusterError:
    """Return a new error each time, because an exception that is raised repeatedly keeps the frames of every run."""
    return ClusterError(500, "InternalError")


async def forever() -> None:
    """Never return."""
    await asyncio.get_running_loop().create_future()


class WriteWatcher:
    """The interface of an observer, which is called for each write to the API server and for each batch of facts that a
    process applies.
    """

    def holder(self) -> str | None:
        """Return the replica that the Lease names, or None if there is no Lease."""
        return None

    def sent(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Record that a process has begun a write."""

    def applied(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any], outcome: Outcome) -> None:
        """Record that the API server has answered a write."""

    def arrives(self, line: ApiLine, verb: str, ref: Ref, content: Mapping[str, Any]) -> None:
        """Check a write before the API server decides on it."""

    def taken(self, who: str, events: Sequence[Event]) -> None:
        """Record that a process has applied these facts to its ledger."""


Crash = Callable[[str, str], str]
"""A function of the process that writes and of the verb. It returns "kill-before-write", "kill-after-write" or
"kill-unanswered" if the process is to die at this write, else "".
"""


def nobody_dies(who: str, verb: str) -> str:
    """Return "", which means no crash: processes die only by faults that are drawn or listed."""
    return ""


class ApiLine:
    """One process's connection to the API server; it implements `Api`."""

    def __init__(
        self, who: str, server: ApiServer, clock: ProcessClock, faults: FaultSource, watcher: WriteWatcher,
        crash: Crash, die: Callable[[DrawnFault], None], replica: str = "",
    ) -> None:  # fmt: skip
        self.who = who
        self.replica = replica
        self.dead = False
        self.stalled = 0  # number of the process's watches that have stopped delivering events without an error
        self.stalled_until = 0.0
        # since when the process is not told of changes of pods; infinite while its watch of pods works
        self.blind_since = math.inf
        self.reaches_lease: Callable[[], bool] = lambda: True
        # whether the process was paused between the decision and the write of its last request
        self.woke_in_write = False
        self._server = server
        self._api = EmbeddedApi(server, clock)
        self._clock = clock
        self._faults = faults
        self._watcher = watcher
        self._crash = crash
        self._die = die
        self._chance = random.Random(f"latency {who} {replica} {faults.chance.random()}")
        self._travels: set[asyncio.Task[Outcome | None]] = set()

    async def _alive(self) -> None:
        await self._clock.awake()
        if self.dead:
            await forever()

    def _fault_at(self, *kinds: str, at: Sequence[str]) -> DrawnFault:
        """Return the fault that hits this process at a call; a false one if none does."""
        calls = [f"{self.who} of {self.replica}: {call}" for call in at]
        return self._faults.fault_at(calls, *kinds, chance=self._chance)

    def _latency(self) -> float:
        return self._chance.uniform(0.0005, 0.008)

    # -- The methods below read from the API server. ---------------------------------------------

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        require(resource)
        if resource == QUOTAS:
            async for page in self._undisturbed(self._api.list_pages(resource)):
                yield page
            return
        version, start = 0, 0
        while True:
            await self._alive()
            fault = self._fault_at("list-page-500", "list-page-410", "list-slow", at=[f"list {resource}{ANY}"])
            await sleep(fault.uniform("late", 0.5, 3.0) if fault.kind == "list-slow" else self._latency())
            if fault.kind == "list-page-500":
                raise error_500()
            if fault.kind == "list-page-410":
                raise ClusterError(410, "Expired")
            try:
                items, version, start = self._server.store.page(resource, PAGE, version, start)
            except ExpiredError:
                raise ClusterError(410, "Expired") from None
            if fault := self._fault_at("list-late", at=[f"page of {resource}{ANY}"]):
                await sleep(fault.uniform("late", 0.5, 3.0))
            await self._alive()
            yield items, str(version)
            if not start:
                return

    async def watch(
        self, resource: Resource, resource_version: str, timeout: float
    ) -> AsyncGenerator[list[Json], None]:
        if resource == QUOTAS:
            async for batch in self._undisturbed(self._api.watch(resource, resource_version, timeout)):
                yield batch
            return
        await self._alive()
        await sleep(self._latency())
        if fault := self._fault_at("watch-refused", at=[f"watch {resource}{ANY}"]):
            busy = fault.draw("busy", lambda chance: chance.random() < 0.5)
            raise ClusterError(429, "TooManyRequests", "", 1.0) if busy else error_500()
        if resource == PODS:
            self.blind_since = math.inf
        seen: list[Json] = []
        try:
            async with aclosing(self._api.watch(resource, resource_version, timeout)) as batches:
                async for found in batches:
                    events = list(found)
                    if events:
                        await sleep(self._latency())
                        async for batch in self._disturbed(resource, events, seen):
                            await self._alive()
                            yield batch
                    else:
                        await self._alive()
                        yield events
                    seen = (seen + events)[-12:]
        finally:
            self._blind(resource)

    def _blind(self, resource: Resource) -> None:
        """Note that the process is not told of changes of this kind of object from now on."""
        if resource == PODS:
            self.blind_since = min(self.blind_since, loop_time())

    async def _undisturbed(self, found: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield the API server's answers without faults; they use none of the seed's random numbers."""
        async with aclosing(found) as answers:
            async for answer in answers:
                await sleep(READ_SECONDS)
                await self._alive()
                yield answer

    async def _disturbed(
        self, resource: Resource, events: list[Json], seen: Sequence[Json]
    ) -> AsyncGenerator[list[Json], None]:
        """Yield the events as the faulty network delivers them: late, twice, in another order, only in part, or not at
        all.
        """
        fault = self._fault_at(
            "watch-stalled", "watch-410", "watch-tail-lost", "watch-closed", "watch-undecodable", "watch-late",
            "watch-duplicate", "watch-reordered", at=[event_name(event, resource) for event in events],
        )  # fmt: skip
        match fault.kind:
            case "watch-stalled":
                self.stalled += 1
                self._blind(resource)
                try:
                    await forever()
                finally:
                    self.stalled -= 1
                    self.stalled_until = loop_time()
            case "watch-410":
                self._blind(resource)
                yield [{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}]
                await forever()
            case "watch-tail-lost":
                yield events[: fault.chance.randrange(len(events))]
                raise ClusterError(0, "Disconnected")
            case "watch-closed":
                yield events
                raise ClusterError(0, "Disconnected")
            case "watch-undecodable":
                self._blind(resource)
                yield [{"type": "ERROR", "object": {"code": 200, "reason": "Undecodable"}}]
                await forever()
            case "watch-late":
                await sleep(fault.uniform("late", 0.2, 6.0))
                yield events
            case "watch-duplicate":
                # This is as after a connection that was resumed from an older version: all events are delivered again,
                # in order.
                yield events
                yield [*seen[fault.chance.randrange(len(seen) + 1) :], *events]
            case "watch-reordered":
                yield _swapped(events, fault.chance)
            case _:
                yield events

    async def get(self, ref: Ref) -> Json | None:
        if ref.resource == LEASES and not self.reaches_lease():
            raise error_500()
        await self._alive()
        fault = self._fault_at("get-500", "get-lost", at=[f"get {plain(ref.name)}"])
        await sleep(self._latency())
        if fault:
            await sleep(DEADLINE if fault.kind == "get-lost" else 0.0)
            await self._alive()
            raise ClusterError(0, "Timeout") if fault.kind == "get-lost" else error_500()
        found = await self._api.get(ref)
        await self._alive()
        return found

    # -- The methods below write to the API server. ----------------------------------------------

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        content = {"uid": uid, "node": node, "annotations": dict(annotations)}
        return await self._write(
            "bind", Ref(PODS, namespace, name), content, lambda: self._api.bind(namespace, name, uid, node, annotations)
        )

    async def patch(
        self,
        ref: Ref,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Outcome:
        if ref.resource == LEASES and isinstance(patch, Mapping):
            return await self.renew(ref, patch["spec"], resource_version)
        content = {"patch": patch, "uid": uid, "version": resource_version, "subresource": subresource}
        return await self._write(
            "patch",
            ref,
            content,
            lambda: self._api.patch(
                ref, patch, kind=kind, subresource=subresource, uid=uid, resource_version=resource_version
            ),
        )

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        return await self._write(
            "delete", Ref(PODS, namespace, name), {"uid": uid}, lambda: self._api.delete_pod(namespace, name, uid)
        )

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        return await self._write(
            "evict", Ref(PODS, namespace, name), {"uid": uid}, lambda: self._api.evict_pod(namespace, name, uid)
        )

    async def renew(self, ref: Ref, spec: Json, version: str) -> Outcome:
        """Write a Lease.

        A process that dies at this write is handled as one that dies between two writes.
        """
        content = {"spec": spec, "version": version}
        return await self._sent(
            "renew", ref, content, lambda: self._api.patch(ref, {"spec": spec}, resource_version=version), None
        )

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        await self._alive()
        await sleep(self._latency())
        return Done({})  # Events are not stored, because nothing reads them here

    @property
    def woke_now(self) -> bool:
        """Tell whether a pause of the process has ended so shortly ago that its requests may still be from before the
        pause.
        """
        return 0 <= loop_time() - self._clock.paused_until < WAKING

    async def _write(self, verb: str, ref: Ref, content: Mapping[str, Any], write: Write) -> Outcome:
        began = loop_time()
        await self._alive()
        self.woke_in_write = loop_time() > began
        crash = self._crash(self.who, verb)
        fault = self._fault_at(*AT_WRITES, at=[f"begins to {verb} {plain(ref.name)}"])
        crash = crash or fault.kind
        if crash == "kill-before-write":
            self._die(fault)
            await forever()
        self._watcher.sent(self, verb, ref, content)
        answer = await self._sent(verb, ref, content, write, fault if crash == "kill-unanswered" else None)
        if crash == "kill-after-write":
            # The process gets the answer and makes a step with it before it dies.
            asyncio.get_running_loop().call_later(0.03, self._die, fault)
        return answer

    async def _sent(
        self, verb: str, ref: Ref, content: Mapping[str, Any], write: Write, unanswered: DrawnFault | None
    ) -> Outcome:
        ends = loop_time() + DEADLINE
        while True:
            travel = asyncio.get_running_loop().create_task(self._travel(verb, ref, content, write))
            self._travels.add(travel)
            travel.add_done_callback(self._travels.discard)
            if unanswered is not None:
                await asyncio.wait([travel], timeout=1.0)
                self._die(unanswered)
                await forever()
            done, _ = await asyncio.wait([travel], timeout=max(0.0, ends - loop_time()))
            await self._alive()
            answer = travel.result() if done else None
            if answer is None:
                return Unknown(f"no answer within {DEADLINE:g} s")
            pause = self._chance.uniform(1.0, 1.5)
            if not (isinstance(answer, Refused) and answer.status == 429) or loop_time() + pause >= ends:
                return answer
            await sleep(pause)
            await self._alive()

    async def _travel(self, verb: str, ref: Ref, content: Mapping[str, Any], write: Write) -> Outcome | None:
        """Carry a request to the API server and its answer back; return None if no answer arrives."""
        what = "release" if _gives_room_up(verb, content) else verb
        drawn = self._fault_at(*(f"{what}-{kind}" for kind in FAULTS[what]), at=[f"{what} {plain(ref.name)}"])
        fault = drawn.kind.removeprefix(f"{what}-")
        slow = {"slow": (0.5, 3.9), "lands-late": (DEADLINE, DEADLINE + 2.5)}.get(fault)
        await sleep(drawn.uniform("late", *slow) if slow else self._latency())
        if slow and self.dead:
            await forever()  # The process was killed while the request was under way, so no answer can reach it.
        match fault:
            case "lost":
                await forever()
            case "conflict":
                return Refused(409, "Conflict", "the object has been modified")
            case "429":
                return Refused(429, "TooManyRequests", "")
            case "500":
                return Unknown("HTTP 500")
            case "forbidden":
                return Refused(403, "Forbidden", "an admission policy")
            case _:
                pass
        holder, leader = self._watcher.holder(), leader_of(content)
        if leader and holder not in (None, leader):
            return Refused(
                403, "Forbidden", "this replica of Kohort leads no more"
            )  # The server refuses the write as manifests/base/leader-policy.yaml does.
        self._watcher.arrives(self, verb, ref, content)
        outcome = await write()
        self._watcher.applied(self, verb, ref, content, outcome)
        if fault == "answer-lost":
            await forever()
        if fault == "500-done":
            return Unknown("HTTP 500")
        await sleep(self._latency())
        return outcome


def leader_of(content: Mapping[str, Any]) -> str:
    """Return the replica that the write names as its sender, or "" if it names none."""
    patch = content.get("patch")
    of_patch = patch.get("metadata", {}).get("annotations", {}) if isinstance(patch, Mapping) else {}
    return str({**of_patch, **content.get("annotations", {})}.get(LEADER, ""))


def event_name(event: Json, resource: Resource) -> str:
    """Return the name by which a kept scenario refers to an event of a watch."""
    return f"{event['type']} {resource} {plain(event['object'].get('metadata', {}).get('name', ''))}"


def _swapped(events: list[Json], chance: random.Random) -> list[Json]:
    """Return the events with two neighbours swapped, unless both are about the same object."""
    if len(events) < 2:
        return events
    at = chance.randrange(len(events) - 1)
    first, second = events[at : at + 2]
    names = [(e["object"].get("metadata", {}).get("namespace"), e["object"].get("metadata", {}).get("name"))
             for e in (first, second)]  # fmt: skip
    if names[0] == names[1] or "BOOKMARK" in (first["type"], second["type"]):
        return events
    return [*events[:at], second, first, *events[at + 2 :]]


# -- The classes and functions below carry kube-scheduler's calls to the extender. -----------------


class Wire:
    """kube-scheduler's connections to the extender that ``service`` returns."""

    def __init__(
        self, name: str, service: Callable[[], ExtenderProcess], faults: FaultSource, clock: ProcessClock
    ) -> None:
        self.dead = False
        self._name = name
        self._clock = clock
        self._service = service
        self._faults = faults
        self._chance = random.Random(f"wire {faults.chance.random()}")

    async def send(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Deliver the request and return the answer's status and body; the caller's time limit cancels it."""
        return 200, await self._carry(url.rsplit("/", 1)[-1], body)

    async def _carry(self, verb: str, body: bytes) -> bytes:
        await self._clock.awake()
        if self.dead:
            await forever()
        call = "bind-call" if verb == "bind" else "filter"
        answer_lost = "bind-call-answer-lost" if verb == "bind" else "filter-answer-lost"
        request_lost = "bind-call-lost" if verb == "bind" else "filter-request-lost"
        at = f"{self._name}: {verb} {asked_about(body)}"
        drawn = self._faults.fault_at(
            [at], request_lost, answer_lost, f"{call}-late", f"{call}-twice", chance=self._chance
        )
        fault = drawn.kind
        await sleep(self._chance.uniform(0.0002, 0.002))
        if fault == request_lost:
            if drawn.draw("silent", lambda chance: chance.random() < 0.5):
                await forever()
            raise ConnectionResetError("the server disconnected")
        extender = self._service()
        if not extender.listens:
            raise ConnectionRefusedError("connection refused")
        hung_up = asyncio.Event()
        delay = drawn.uniform("late", 3.0, 30.0) if fault == f"{call}-late" else 0.0
        serving = extender.serve(verb, body, hung_up, delay)
        if fault == f"{call}-twice":
            extender.serve(verb, body, asyncio.Event(), drawn.uniform("again", 0.0, 0.5))
        try:
            await asyncio.wait([serving])
            if serving.cancelled():
                raise ConnectionResetError("the server disconnected")
            await sleep(self._chance.uniform(0.0002, 0.002))
            if fault == answer_lost:
                await forever()
            await self._clock.awake()
            return serving.result()
        finally:
            if not serving.done():
                unseen = self._faults.fault_at([f"{at} hung up"], "hang-up-unseen", chance=self._chance)
                after = unseen.uniform("late", 0.5, 6.0) if unseen else 0.001
                asyncio.get_running_loop().call_later(after, hung_up.set)


def asked_about(body: bytes) -> str:
    """Return the name of the pod in the body of a verb's request."""
    asked = msgspec.json.decode(body)
    return plain(str(asked.get("PodName") or asked["Pod"]["metadata"]["name"]))


def _gives_room_up(verb: str, content: Mapping[str, Any]) -> bool:
    """Tell whether the write gives up a gang's room by removing its members, in the way that the kind of its job
    allows.
    """
    patch = content.get("patch")
    suspends = isinstance(patch, Mapping) and "suspend" in patch.get("spec", {}).get("runPolicy", {})
    return suspends or verb in ("delete", "evict")
