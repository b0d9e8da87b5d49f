"""A thin admin client of the API server: what the kit needs without starting kubectl, and handy in tests."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from tests.controlplane.errors import ControlPlaneError


class Api:
    """JSON in, JSON out, with admin rights."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        # trust_env off: a proxy of the user's must not stand between us and loopback.
        self._client = httpx.Client(base_url=url, verify=tls, timeout=60, trust_env=False)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the object or list at ``path``; raises ControlPlaneError with the server's words otherwise."""
        return self._answer(self._client.get(path, params=query))

    def create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object in the collection at ``path``; an object that exists is left as it is."""
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
        """Tell whether a GET of ``path`` gives 200; a server that is not there yet is a no."""
        try:
            return self._client.get(path).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @staticmethod
    def _answer(response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            request = response.request
            raise ControlPlaneError(f"{request.method} {request.url.path}: {response.status_code} {response.text}")
        body: dict[str, Any] = response.json()
        return body
