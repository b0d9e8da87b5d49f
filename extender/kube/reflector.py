"""Follows one resource until cancelled: lists it, then watches it from that version on, and delivers batches of events.

The list is a consistent read (no resourceVersion), in pages. A page is delivered before the next one is requested: the
objects of a large cluster are several times larger than what is kept of them. A list at resourceVersion 0 may come from
a stale API server, and a scheduler that starts on old pods gives their room away twice (kubernetes#59848); such a list
also ignores `limit`.

Watches are short (`watch_seconds`, drawn at random): the API server sends a bookmark two seconds before it ends one, so
a quiet resource keeps a fresh resourceVersion, and silence beyond `stall_seconds` means a dead connection. This module
knows versions and back-off; it must not know what the objects mean.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Final

from extender.clock import Clock
from extender.kube.api import Api, ClusterError, Json, Resource
from extender.kube.watchbatch import ReflectorTimes, WatchBatch

CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")
# After up to this many failures in a row the watch is resumed; after more, an error answer makes us list again.
RESUMES: Final = 5
_log = logging.getLogger(__name__)

Key = tuple[str, str]  # a key is the (namespace, name) of an object


class Reflector:
    """Lists and watches one resource; the public attributes are for readiness and metrics."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        clock: Clock,
        chance: random.Random,
        times: ReflectorTimes | None = None,
        optional: bool = False,
    ) -> None:
        """Prepare a reflector that does nothing until `run` is called.

        ``optional``: if the API server does not have the resource or does not let us read it, the resource counts as
        empty; a lacking right is logged. Objects that were read before the right was taken away stay known, because
        they still exist. ``chance``: the random source for pauses and for the lengths of watches.
        """
        self.resource = resource
        self.synced = False  # synced is true once a whole list was delivered, or the resource is known not to exist.
        # last_seen is the monotonic time at which the API server last answered for this resource.
        self.last_seen = clock.monotonic()
        self.restarts = 0  # restarts counts the watches and lists that have failed.
        self.dropped = 0  # dropped counts the list items and watch events that had no usable object.
        self.last_error = ""
        # forbidden is true if the resource is optional and the API server does not let us read it
        self.forbidden = False
        self._api = api
        self._clock = clock
        self._chance = chance
        self._times = times or ReflectorTimes()
        self._version = ""  # _version is the resourceVersion from which to watch; if it is empty, `run` lists first.
        self._known: dict[Key, str] = {}  # _known has the uid of every object that was delivered and not deleted.
        self._failures = 0
        self._optional = optional
        self._refused_since: float | None = None
        self._absent = False  # _absent is true while the resource does not exist or may not be read.
        self._asked = 0  # _asked counts the calls of `refresh`.
        self._read = 0  # _read is the value of `_asked` when the last whole list began.
        # _waiting is the time limit of the present wait for events of a watch.
        self._waiting: asyncio.Timeout | None = None

    @property
    def fresh(self) -> bool:
        """Tell whether the last whole list began after the last call of `refresh`.

        This is also true while the resource does not exist or may not be read.
        """
        return self._absent or self._read == self._asked

    def refresh(self) -> None:
        """Make `run` end its watch and list again at once.

        The connection of the watch may be dead without having been noticed yet.
        """
        self._asked += 1
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def run(self, deliver: Callable[[WatchBatch], None]) -> None:
        """Call ``deliver`` with each batch until cancelled.

        An exception from ``deliver`` ends the loop, because no event may be lost silently.
        """
        while True:
            try:
                while not self._version or not self.fresh:
                    await self._list(deliver)
                await self._watch(deliver)
            except ClusterError as error:
                await self._recover(error, deliver)

    async def _list(self, deliver: Callable[[WatchBatch], None]) -> None:
        """List the resource: deliver each page, then DELETED events for known objects that are no longer listed."""
        listed: dict[Key, str] = {}
        version, asked = "", self._asked
        async with aclosing(self._api.list_pages(self.resource)) as pages:
            async for items, version in pages:
                self.last_seen = self._clock.monotonic()
                if events := list(self._page(items, listed)):
                    deliver(WatchBatch(self.resource, "page", events, version))
        self._absent, self._read = False, asked
        self._end(listed, version, deliver)
        self._version = version

    def _page(self, items: Iterable[Json], listed: dict[Key, str]) -> Iterator[Json]:
        """Yield an event for each object of a page, and add the object's uid to ``listed``.

        The event is MODIFIED for an object that is known already, ADDED for a new one.
        """
        for item in items:
            if (ident := self._identify(item)) is None:
                continue
            key, uid = ident
            before = self._known.get(key)
            if before is not None and before != uid:
                yield _deleted(key, before)
            self._known[key] = listed[key] = uid
            yield {"type": "MODIFIED" if before == uid else "ADDED", "object": item}

    def _end(self, listed: dict[Key, str], version: str, deliver: Callable[[WatchBatch], None]) -> None:
        vanished = [_deleted(key, uid) for key, uid in self._known.items() if key not in listed]
        self._known = listed
        self.synced = True
        deliver(WatchBatch(self.resource, "end", vanished, version, frozenset(listed.values())))

    async def _watch(self, deliver: Callable[[WatchBatch], None]) -> None:
        """Follow a watch until it ends, fails or stalls; a watch that ends at once counts as a failure."""
        seconds = self._chance.uniform(*self._times.watch_seconds)
        started = self._clock.monotonic()
        async with aclosing(self._api.watch(self.resource, self._version, seconds)) as batches:
            # `_next` does not show a call of `refresh` if events arrive at the same time, so `fresh` is checked too.
            while self.fresh and (events := await self._next(batches)) is not None:
                self.last_seen = self._clock.monotonic()
                self._refused_since, self.forbidden = None, False
                self._take(events, deliver)
                if self.last_seen - started >= self._times.settled_seconds:
                    self._failures = 0
        if self.fresh and self._clock.monotonic() - started < self._times.settled_seconds:
            raise ClusterError(0, "Closed", "the API server ended the watch as soon as it had begun")

    async def _next(self, batches: AsyncIterator[list[Json]]) -> list[Json] | None:
        """Return the next list of events, or None at the end of the watch or when `refresh` was called.

        Raises ClusterError after `stall_seconds` without events.
        """
        try:
            async with self._clock.timeout(self._times.stall_seconds) as self._waiting:
                return await anext(batches, None)
        except TimeoutError:
            if not self.fresh:
                return None
            raise ClusterError(
                0, "Stalled", f"the API server has sent nothing for {self._times.stall_seconds:g} s"
            ) from None
        finally:
            self._waiting = None

    def _take(self, events: list[Json], deliver: Callable[[WatchBatch], None]) -> None:
        """Deliver the changes among the events of a watch.

        An ERROR event raises ClusterError, after the changes before it have been delivered.
        """
        changes: list[Json] = []
        failure: ClusterError | None = None
        for event in events:
            if event.get("type") == "ERROR":
                failure = _failure(event.get("object"))
                break
            if self._note(event):
                changes.append(event)
        if changes:
            deliver(WatchBatch(self.resource, "changes", changes, self._version))
        if failure:
            raise failure

    def _note(self, event: Json) -> bool:
        """Record the event's resourceVersion and the object's uid; tell whether the event is a change of an object.

        A BOOKMARK is no change, nor is an event without a usable object.
        """
        kind, item = event.get("type"), event.get("object")
        if version := _metadata(item).get("resourceVersion"):
            self._version = str(version)
        if kind == "BOOKMARK":
            return False
        ident = self._identify(item)
        if kind not in CHANGES or ident is None:
            return False
        key, uid = ident
        if kind == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = uid
        return True

    def _identify(self, item: object) -> tuple[Key, str] | None:
        """Return ((namespace, name), uid), or None for an object without a name."""
        meta = _metadata(item)
        if not (name := meta.get("name")):
            self.dropped += 1
            _log.warning("an object of %s was dropped, because it has no name", self.resource)
            return None
        return (str(meta.get("namespace") or ""), str(name)), str(meta.get("uid") or "")

    async def _recover(self, error: ClusterError, deliver: Callable[[WatchBatch], None]) -> None:
        """Decide whether to list again or to resume the watch after a failure, and wait before that."""
        # Nodes and pods are not optional, because each Kubernetes API has them.
        if error.status == 404 and self._optional:
            await self._await_resource(deliver)
            return
        self.restarts += 1
        self.last_error = str(error)
        if error.status == 403 and self._optional:
            await self._await_right(error, deliver)
            return
        if not _transient(error) or (error.status and self._failures >= RESUMES):
            self._version = ""
        _log.info("a list or watch of %s failed and is started again: %s", self.resource, error)
        await self._clock.sleep(max(self._backoff(), error.retry_after))

    async def _await_resource(self, deliver: Callable[[WatchBatch], None]) -> None:
        """Report a missing resource (its CRD is not installed, or was removed) as empty, and wait before a new try."""
        if self._known or not (self.synced and self.fresh):
            self._absent = True
            self._end({}, "", deliver)
        self._absent, self._version = True, ""
        self.last_seen = self._clock.monotonic()
        self._failures = 0
        self._refused_since, self.forbidden = None, False
        await self._clock.sleep(self._times.missing_seconds * self._chance.uniform(0.5, 1.0))

    async def _await_right(self, error: ClusterError, deliver: Callable[[WatchBatch], None]) -> None:
        """Wait before a new try to read a resource for which the API server answers 403.

        Once it has done so for `forbidden_seconds`, log the lacking right, and count the resource as synced without it.
        """
        now = self.last_seen = self._clock.monotonic()
        self._version = ""
        if self._refused_since is None:
            self._refused_since = now
        if not self.forbidden and now - self._refused_since >= self._times.forbidden_seconds:
            self.forbidden = True
            _log.warning(
                (
                    "%s may not be read and are left out; grant get, list and watch for them (ClusterRole in "
                    "manifests/base): %s"
                ),
                self.resource,
                error,
            )
            waited, self._absent = not (self.synced and self.fresh), True
            if waited:
                self._end(self._known, "", deliver)
        wait = self._times.missing_seconds * self._chance.uniform(0.5, 1.0) if self.forbidden else self._backoff()
        await self._clock.sleep(wait)

    def _backoff(self) -> float:
        """Return the back-off in seconds: exponential with full jitter, so that replicas do not retry all at once."""
        times = self._times
        longest = min(times.backoff_cap_seconds, times.backoff_seconds * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return self._chance.uniform(0.0, longest)


def _transient(error: ClusterError) -> bool:
    """Tell whether the watch can be resumed from the same resourceVersion after this failure.

    That is so after a lost connection, and after 429 and 5xx, because a new list would burden a busy server. After any
    other failure, above all 410 (our resourceVersion is too old), a new list is needed.
    """
    return error.status in (0, 429) or error.status >= 500


def _deleted(key: Key, uid: str) -> Json:
    """Return a DELETED event for an object, which has only its namespace, name and uid."""
    namespace, name = key
    return {"type": "DELETED", "object": {"metadata": {"namespace": namespace, "name": name, "uid": uid}}}


def _metadata(item: object) -> Json:
    meta = item.get("metadata") if isinstance(item, dict) else None
    return meta if isinstance(meta, dict) else {}


def _failure(status: object) -> ClusterError:
    """Return the error that the Status in an ERROR event describes.

    A Status without a code counts as 410 (Gone), because events were lost.
    """
    fields = status if isinstance(status, dict) else {}
    code = fields.get("code")
    return ClusterError(code if isinstance(code, int) and code else 410, str(fields.get("reason") or "Error"))
