"""Checks the URL and the TLS settings in Kohort's entry under ``extenders`` of kube-scheduler's configuration.

The URL must lead to Kohort's listener for the verbs, and the connection must be protected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from extender.config.hosts import is_loopback
from extender.config.settings import Settings
from extender.kubescheduler.schedulerconfig import ConfigFinding, ExtenderEntry, ExtenderTls, shown
from extender.kubescheduler.wire import VERBS_PATH

SERVICE: Final = "kohort-extender"  # the Service in manifests/overlays/shared-scheduler has this name


def check_address(where: str, ours: ExtenderEntry, settings: Settings) -> Iterator[ConfigFinding]:
    """Yield a finding for each fault in the URL and the TLS settings of Kohort's entry.

    ``where``: the entry's path in the configuration; ``ours``: the entry.
    """
    url = split(ours.url_prefix)
    expected = expected_url(settings)
    if url.scheme not in ("http", "https") or not url.hostname:
        yield ConfigFinding(
            f"{where}.urlPrefix",
            shown(ours.url_prefix or None),
            expected,
            "kube-scheduler finds Kohort by this URL.",
            f"Set urlPrefix: {expected}.",
        )
        return
    yield from _check_tls(where, ours, url, settings)
    yield from _check_listener(where, ours, url, settings)
    if url.path.rstrip("/") != VERBS_PATH:
        yield ConfigFinding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            f"a URL that ends in {VERBS_PATH}",
            "Kohort's verbs are under this path; any other is answered by 404, unless something between rewrites it.",
            f"Set urlPrefix: {expected}.",
            "warning",
        )


def _check_listener(where: str, ours: ExtenderEntry, url: SplitResult, settings: Settings) -> Iterator[ConfigFinding]:
    """Yield a finding where the URL does not lead to Kohort's listener for the verbs.

    A plain http URL beyond loopback is a fault too, because anybody on the network path could change the calls.
    """
    expected = expected_url(settings)
    if settings.server.tls.on and url.scheme == "http":
        yield ConfigFinding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            expected,
            "The settings serve the verbs over TLS only (server.tls.peers); the plain listener does not have them.",
            f"Set urlPrefix: {expected}, enableHTTPS: true and tlsConfig.",
        )
    elif url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield ConfigFinding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            f"{expected}, or https:// with a CA",
            "The protocol has no other protection: beyond this machine, anybody on the network path can read it and "
            "choose the nodes, and anybody who reaches the port can bind pods.",
            "Run Kohort in kube-scheduler's pod and call it on 127.0.0.1, or use https with tlsConfig.",
        )
    elif is_loopback(url.hostname or "") and (port := _port_of(settings)) not in (0, _port(url)):
        named = "server.tls.port" if settings.server.tls.on else "server.port"
        yield ConfigFinding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            expected,
            f"The settings have {named}: {port}, so nothing answers at this URL.",
            "Use the same port in both.",
            "warning",
        )


def _check_tls(where: str, ours: ExtenderEntry, url: SplitResult, settings: Settings) -> Iterator[ConfigFinding]:
    tls = ours.tls_config or ExtenderTls()
    if ours.enable_https and url.scheme == "http":
        yield ConfigFinding(
            f"{where}.enableHTTPS",
            "true",
            "an https:// urlPrefix with it",
            "enableHTTPS does not change the URL's scheme: the calls would go out in plain text.",
            "Write https:// in urlPrefix, or remove enableHTTPS.",
        )
    if tls.insecure:
        yield ConfigFinding(
            f"{where}.tlsConfig.insecure",
            "true",
            "false",
            (
                "The server's certificate would not be verified, so anybody on the network path may answer in "
                "Kohort's place."
            ),
            "Remove insecure and give tlsConfig.caFile.",
        )
    if url.scheme != "https":
        return
    if not (tls.ca_file or tls.ca_data):
        yield ConfigFinding(
            f"{where}.tlsConfig.caFile",
            "absent",
            "caFile or caData",
            "With enableHTTPS and no CA kube-scheduler does not verify the server's certificate, and does not say so.",
            "Give tlsConfig.caFile, with a CA that signs nothing but Kohort.",
        )
    if not ((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)):
        yield ConfigFinding(
            f"{where}.tlsConfig.certFile",
            "absent",
            "certFile and keyFile, or certData and keyData",
            "A client certificate is the only way for kube-scheduler to identify itself; a server that asks for one, "
            "as it must, would refuse it.",
            "Give tlsConfig.certFile and keyFile.",
            "error" if settings.server.tls.on else "warning",
        )


def split(url: str) -> SplitResult:
    """Return the parts of the URL; all parts are empty where the URL is malformed."""
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname  # reading the port and the host name raises ValueError if they are malformed
    except ValueError:
        return urlsplit("")
    return parts


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _port_of(settings: Settings) -> int:
    """Return the port on which Kohort serves the verbs with these settings."""
    return settings.server.tls.port if settings.server.tls.on else settings.server.port


def expected_url(settings: Settings) -> str:
    """Return the URL at which the verbs are served with these settings."""
    if settings.server.tls.on:
        return f"https://{SERVICE}.{settings.lease.namespace}.svc:{settings.server.tls.port}{VERBS_PATH}"
    return f"http://{settings.server.host}:{settings.server.port}{VERBS_PATH}"
