"""The certificates and kubeconfig files of one control plane, all signed by a CA of its own."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

SERVER_NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pki:
    """A CA and the keys and certificates it signed, in one folder: ca.crt, server.crt and .key, service-account.key."""

    directory: Path
    authority: trustme.CA

    @classmethod
    def create(cls, directory: Path) -> Pki:
        """Make a CA, the servers' certificate and the key that signs service account tokens."""
        directory.mkdir(parents=True, exist_ok=True)
        pki = cls(directory, trustme.CA())
        pki.authority.cert_pem.write_to_path(str(pki.ca_file))
        server = pki.authority.issue_cert(*SERVER_NAMES)
        server.private_key_pem.write_to_path(str(pki.server_key))
        for number, blob in enumerate(server.cert_chain_pems):
            blob.write_to_path(str(pki.server_certificate), append=number > 0)
        signer = pki.authority.issue_cert(common_name="service accounts")
        signer.private_key_pem.write_to_path(str(pki.token_key))
        return pki

    @property
    def ca_file(self) -> Path:
        """Return the CA's certificate."""
        return self.directory / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        """Return the certificate of every server on loopback."""
        return self.directory / "server.crt"

    @property
    def server_key(self) -> Path:
        """Return the key of the servers' certificate."""
        return self.directory / "server.key"

    @property
    def token_key(self) -> Path:
        """Return the key that signs service account tokens."""
        return self.directory / "service-account.key"

    def user_kubeconfig(self, url: str, user: str, group: str | None = None) -> Path:
        """Write a kubeconfig with a client certificate for ``user`` in ``group``, and return its path."""
        leaf = self._client_certificate(user, group)
        return self.write_kubeconfig(
            url,
            user,
            {
                "client-certificate-data": _encoded(leaf.cert_chain_pems[0].bytes()),
                "client-key-data": _encoded(leaf.private_key_pem.bytes()),
            },
        )

    def write_kubeconfig(self, url: str, user: str, credentials: dict[str, str]) -> Path:
        """Write a kubeconfig for ``user`` with these credentials, readable by its owner only."""
        cluster = {"server": url, "certificate-authority-data": _encoded(self.ca_file.read_bytes())}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kohort", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "kohort", "context": {"cluster": "kohort", "user": user}}],
            "current-context": "kohort",
        }
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))  # JSON is valid YAML
        return path

    def client_context(self, user: str, group: str) -> ssl.SSLContext:
        """Return a TLS context that trusts this CA and authenticates as ``user`` in ``group``."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        self._client_certificate(user, group).configure_cert(context)
        return context

    def _client_certificate(self, user: str, group: str | None) -> trustme.LeafCert:
        # Without a host name, trustme writes an empty list of names, which Go refuses.
        return self.authority.issue_cert("client.invalid", common_name=user, organization_name=group)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
