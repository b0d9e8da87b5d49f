"""A base class for fake API servers, in which calls that a test or benchmark does not expect raise an error."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from extender.kube.api import Json, Outcome, PatchKind, Ref, Resource


class Unasked:
    """An ``extender.kube.api.Api`` of which every method raises NotImplementedError."""

    def list_pages(self, resource: Resource) -> AsyncGenerator[tuple[list[Json], str], None]:
        raise NotImplementedError

    def watch(self, resource: Resource, resource_version: str, timeout: float) -> AsyncGenerator[list[Json], None]:
        raise NotImplementedError

    async def get(self, ref: Ref) -> Json | None:
        raise NotImplementedError

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Outcome:
        raise NotImplementedError

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
        raise NotImplementedError

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        raise NotImplementedError

    async def evict_pod(self, namespace: str, name: str, uid: str) -> Outcome:
        raise NotImplementedError

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> Outcome:
        raise NotImplementedError
