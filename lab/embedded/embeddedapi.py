"""Access to the embedded cluster within the process, by the interface `Api` and without HTTP.

Simulations and the embedded scheduler use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

from extender.clock import Clock
from extender.kube.api import (
    EVENTS,
    PODS,
    ClusterError,
    Done,
    Json,
    Outcome,
    PatchKind,
    Ref,
    Refused,
    Resource,
)
from lab.embedded.apirules import KIND_OF, StatusError, typed
from lab.embedded.apiserver import ApiServer
from lab.embedded.objectstore import ExpiredError, StoreChange

PAGE: Final = 500
BOOKMARK_BEFORE_END: Final = 2.0  # a watch gets a bookmark this many seconds before it ends, as from a real API server
EXPIRED: Final = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


class EmbeddedApi:
    """An implementation of `extender.kube.api.Api` over an `ApiServer`."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self._server = server
        self._store = server.store
        self._clock = clock

    async def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        """Yield the pages of one consistent list, each with its resourceVersion.

        Raises ClusterError with status 404 for a resource that is not served, and 410 for an expired list.
        """
        require(resource)
        version, start = 0, 0
        while True:
            try:
                items, version, start = self._store.page(resource, PAGE, version, start)
            except ExpiredError:
                raise ClusterError(410, "Expired") from None
            yield items, str(version)
            if not start:
                return

    async def watch(
        self, resource: Resource, resource_version: str, timeout: float
    ) -> AsyncGenerator[list[Json], None]:
        """Yield the changes after ``resource_version``, and a bookmark before ``timeout`` seconds have passed."""
        yield []
        async for events in follow(self._server, resource, resource_version, timeout):
            yield events

    async def get(self, ref: Ref) -> Json | None:
        """Return the object, or None if there is none."""
        return self._store.get(ref.resource, ref.namespace if ref.resource.namespaced else "", ref.name)

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        """Bind the pod with this UID."""
        metadata = {"namespace": namespace, "name": name, "uid": uid, "annotations": dict(annotations)}
        return _outcome(lambda: self._server.bind(namespace, name, {"metadata": metadata, "target": {"name": node}}))

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
        """Patch the object; the preconditions ``uid`` and ``resource_version`` become a part of the patch."""
        wanted = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        body: Any
        if isinstance(patch, Mapping):
            body = {**patch, "metadata": {**patch.get("metadata", {}), **wanted}} if wanted else patch
        else:
            body = [{"op": "test", "path": f"/metadata/{k}", "value": v} for k, v in wanted.items()] + list(patch)
        return _outcome(lambda: self._server.patch(ref, body, f"application/{kind}-patch+json", subresource))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Delete the pod with this UID."""
        return _outcome(lambda: self._server.delete(Ref(PODS, namespace, name), {"preconditions": {"uid": uid}}))

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        """Delete the pod with this UID; no PodDisruptionBudget is imitated that could forbid the eviction."""
        return await self.delete_pod(namespace, name, uid)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        return _outcome(lambda: self._server.create(EVENTS, namespace, dict(event)))


def require(resource: Resource) -> None:
    """Raise ClusterError with status 404 for a resource that is not served, as a real API server does for a CRD that is
    not installed.
    """
    if resource not in KIND_OF:
        raise ClusterError(404, "NotFound")


async def follow(
    server: ApiServer, resource: Resource, resource_version: str, timeout: float
) -> AsyncGenerator[list[Json], None]:
    """Yield watch events as they occur, for ``timeout`` seconds of the server's clock.

    If ``resource_version`` is too old, the only event is an ERROR with status 410.
    """
    clock, store = server.clock, server.store
    version = int(resource_version or store.version)
    ends = clock.monotonic() + timeout
    bookmarked = False
    while (left := ends - clock.monotonic()) > 0:
        try:
            changes = store.since(resource, version)
        except ExpiredError:
            yield [{"type": "ERROR", "object": dict(EXPIRED)}]
            return
        version = store.version
        if changes:
            yield [_event(change) for change in changes]
            continue
        if left <= BOOKMARK_BEFORE_END and not bookmarked:
            bookmarked = True
            yield [_bookmark(resource, version)]
        try:
            async with clock.timeout(left if bookmarked else left - BOOKMARK_BEFORE_END):
                await store.changed(resource)
        except TimeoutError:
            pass


def _event(change: StoreChange) -> Json:
    return {"type": change.kind, "object": change.item}


def _bookmark(resource: Resource, version: int) -> Json:
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"type": "BOOKMARK", "object": typed(resource, {"metadata": meta})}


def _outcome(write: Callable[[], Json]) -> Outcome:
    try:
        return Done(write())
    except StatusError as refusal:
        return Refused(refusal.status, refusal.reason, refusal.message)
