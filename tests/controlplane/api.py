"""A small admin client of the API server, so that the kit and tests need not start kubectl."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from tests.controlplane.errors import ControlPlaneError


class Api:
    """A client that sends and returns JSON, with admin rights."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        # With trust_env, a proxy in the user's environment would be used for loopback, too.
        self._client = httpx.Client(base_url=url, verify=tls, timeout=60, trust_env=False)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the object or list at ``path``. Raises ControlPlaneError with the server's message."""
        return self._answer(self._client.get(path, params=query))

    def create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object in the collection at ``path``; an existing object is left unchanged."""
        response = self._client.post(path, json=manifest)
        if response.status_code == httpx.codes.CONFLICT:
            return manifest
        return self._answer(response)

    def patch(self, path: str, change: Any, kind: str = "merge-patch") -> dict[str, Any]:
        """Patch the object at ``path``: a merge-patch, json-patch, strategic-merge-patch or apply-patch."""
        headers = {"content-type": f"application/{kind}+json"}
        return self._answer(self._client.patch(path, json=change, headers=headers))

    def delete(self, path: str) -> dict[str, Any]:
        """Delete the object at ``path``."""
        return self._answer(self._client.delete(path))

    def ok(self, path: str) -> bool:
        """Tell whether a GET of ``path`` returns 200; False if the server does not answer."""
        try:
            return self._client.get(path).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self._client.close()

    @staticmethod
    def _answer(response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            request = response.request
            raise ControlPlaneError(f"{request.method} {request.url.path}: {response.status_code} {response.text}")
        body: dict[str, Any] = response.json()
        return body
