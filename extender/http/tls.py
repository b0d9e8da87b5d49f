"""TLS of the listeners: certificates that are read again when their files change; for the verbs also who may call.

The verbs' CA signs kube-scheduler's certificate and nothing else; the name in it is looked at all the same, so that
another certificate of that CA opens nothing. This room knows certificates; it must not know what is served.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

HANDSHAKE_SECONDS: Final = 5.0
_log = logging.getLogger(__name__)
Stamp = tuple[tuple[int, int, int], ...]


class RotatingContext(ssl.SSLContext):
    """Takes each new connection with the files as they are then; connections that are open stay.

    Files that cannot be used (half written, key and certificate that do not match) leave the former ones in force until
    they change again; files that cannot be read at the moment (no descriptor left) are tried again with the next one.
    """

    _files: tuple[Path, ...]
    _stamp: Stamp
    _current: ssl.SSLContext

    def __new__(cls, *_: object) -> RotatingContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """Read the files; OSError (ssl.SSLError is one) where they cannot be used.

        With ``client_ca`` a client must show a certificate of it; without, none is asked for.
        """
        self._files = (certificate, key) if client_ca is None else (certificate, key, client_ca)
        self._stamp = _stamp_of(self._files)
        self._current = _load(*self._files)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begin a handshake: asyncio and uvloop come here for each connection."""
        self.refresh()
        return self._current.wrap_bio(*arguments, **options)

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        try:
            stamp = _stamp_of(self._files)
            if stamp == self._stamp:
                return
            self._take(stamp)
        except (OSError, ValueError) as error:
            _log.warning("the new certificates cannot be used, the former ones stay: %s", error)
        else:
            _log.info("certificates were read anew")

    def _take(self, stamp: Stamp) -> None:
        """Load the files, which have that stamp; another OSError than ssl's says nothing of what they hold."""
        try:
            self._current = _load(*self._files)
        except (ssl.SSLError, ValueError):
            self._stamp = stamp  # they are no good: they are not looked at again until they change
            raise
        self._stamp = stamp


def _stamp_of(files: Iterable[Path]) -> Stamp:
    """Changes with the content, also where a mounted Secret is replaced by another folder behind a link."""
    stats = [file.stat() for file in files]
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def _load(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


Guard = Callable[[Mapping[str, Any]], str]
"""A peer's certificate, as `ssl.SSLSocket.getpeercert` gives it -> why it may not call; empty: it may."""


def only(peers: Iterable[str]) -> Guard:
    """Let in who has one of these names, as its common name or among its alternative ones."""
    allowed = frozenset(peers)

    def guard(certificate: Mapping[str, Any]) -> str:
        names = names_in(certificate)
        return "" if names & allowed else f"the certificate names {', '.join(sorted(names)) or 'nobody'}"

    return guard


def names_in(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The subject's common names and all alternative names."""
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = {value for kind, value in subject if kind == "commonName"}
    return frozenset(common | {str(value) for _, value in certificate.get("subjectAltName", ())})
