"""Create kubeconfigs, plugins and cases for the servers of a world."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kubectl.asking import Case
from tests.kubectl.servers import World

Json = dict[str, Any]
API_VERSION = "client.authentication.k8s.io/v1"


@dataclass(frozen=True)
class Kit:
    """Creates parts of kubeconfigs for the servers of a world."""

    world: World

    def url(self, at: str = "one", host: str = "127.0.0.1", scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.world.ports[at]}"

    def cluster(self, at: str = "one", *, host: str = "127.0.0.1", **more: Any) -> Json:
        """Return a kubeconfig's cluster entry with the servers' CA; a field given as None is left out."""
        fields = {"server": self.url(at, host), "certificate-authority-data": self.ca_data, **_kebab(more)}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def ca_data(self) -> str:
        return b64(self.world.ca)

    def certificate(self, user: str) -> tuple[bytes, bytes]:
        """Return a client certificate and its key."""
        leaf = self.world.authority.issue_cert("client.invalid", common_name=user)
        return leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()

    def holder(self, user: str) -> Json:
        """Return a kubeconfig's user entry with a client certificate and its key."""
        certificate, key = self.certificate(user)
        return {"client-certificate-data": b64(certificate), "client-key-data": b64(key)}

    def plugin(self, command: str = "./plugin", **more: Any) -> Json:
        return {"exec": {"apiVersion": API_VERSION, "command": command, "interactiveMode": "Never", **more}}

    def proxy(
        self, name: str, scheme: str = "http", login: tuple[str, str] | None = None, host: str = "127.0.0.1"
    ) -> str:
        shown = f"{login[0]}:{login[1].replace(':', '%3A')}@" if login else ""
        return f"{scheme}://{shown}{host}:{self.world.ports[name]}"


def kubeconfig(cluster: Json | None = None, user: Json | None = None, **more: Any) -> Json:
    """Return a kubeconfig with one context."""
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}] if cluster is not None else [],
        "users": [{"name": "u", "user": user}] if user is not None else [],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        **_kebab(more),
    }  # fmt: skip


def several(names: Mapping[str, tuple[Json, Json]], current: str = "") -> Json:
    """Return a kubeconfig with a cluster, a user and a context of each name."""
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": current,
        "clusters": [{"name": name, "cluster": cluster} for name, (cluster, _) in names.items()],
        "users": [{"name": name, "user": user} for name, (_, user) in names.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }  # fmt: skip


def script(status: Json | str, code: int = 0, words: str = "", api_version: str = API_VERSION) -> str:
    """Return a credential plugin, as a shell script, that prints ``status`` and exits with ``code``."""
    printed = {"kind": "ExecCredential", "apiVersion": api_version, "status": status}
    text = status if isinstance(status, str) else json.dumps(printed)
    said = f"echo '{words}' >&2\n" if words else ""
    return f"#!/bin/sh\n{said}cat <<'END'\n{text}\nEND\nexit {code}\n"


ECHO = """#!/usr/bin/env python3
import hashlib, json, os
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
seen = json.dumps([told, os.environ.get("EXTRA")], sort_keys=True)
status = {"token": hashlib.sha256(seen.encode()).hexdigest()}
print(json.dumps({"kind": "ExecCredential", "apiVersion": told["apiVersion"], "status": status}))
"""
"""A plugin whose token is a digest of all that it was told."""

TOKEN = {"token": "secret"}


def _kebab(fields: Mapping[str, Any]) -> Json:
    return {name.replace("_", "-"): value for name, value in fields.items()}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def one(config: Json | str, *options: str, environ: Mapping[str, str] | None = None, **files: Any) -> Case:
    """Return a case with one kubeconfig, which KUBECONFIG names."""
    named = {"KUBECONFIG": "{folder}/config"}
    return Case({"config": config, **files}, {**named, **(environ or {})}, options)
