"""Makes the TLS of the listeners: reads certificates again when their files change, and checks who may call the verbs.

The verbs' CA should sign only kube-scheduler's certificate; the name in a certificate is checked nevertheless, so that
another certificate of that CA gives no access. This module knows certificates; it must not know what is served.
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
    """A TLS context that uses the current contents of its files for each new connection; open connections stay.

    If the files cannot be used (half written, key and certificate that do not match), the former certificates stay in
    force until the files change again. Files that cannot be read at the moment (no descriptor left) are tried again at
    the next connection.
    """

    _files: tuple[Path, ...]
    _stamp: Stamp
    _current: ssl.SSLContext

    def __new__(cls, *_: object) -> RotatingContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """Read the files. Raises OSError (ssl.SSLError is one) where they cannot be used.

        With ``client_ca`` a client must present a certificate of that CA; without it none is requested.
        """
        self._files = (certificate, key) if client_ca is None else (certificate, key, client_ca)
        self._stamp = _stamp_of(self._files)
        self._current = _load(*self._files)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begin a handshake with the current certificates; asyncio and uvloop call this method for each connection."""
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
            _log.warning(
                "the new certificate files cannot be used, and the former ones stay in force; correct the files: %s",
                error,
            )
        else:
            _log.info("the certificates have changed and were read again")

    def _take(self, stamp: Stamp) -> None:
        """Load the files. ``stamp``: what `_stamp_of` returned for their present contents.

        Raises ssl.SSLError or ValueError where the contents cannot be used, and another OSError where the files cannot
        be read at the moment; only in the first case the stamp is stored, so that the same contents are not loaded
        again.
        """
        try:
            self._current = _load(*self._files)
        except (ssl.SSLError, ValueError):
            self._stamp = stamp  # the contents cannot be used, so the files are not read again until they change
            raise
        self._stamp = stamp


def _stamp_of(files: Iterable[Path]) -> Stamp:
    """Return a value that changes when the files' contents do, also when they change because a mounted Secret's link
    leads to another folder.
    """
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
"""A function that gets a TLS client's certificate, in the form of `ssl.SSLSocket.getpeercert`, and returns why that
client may not call; the text is empty if the client may.
"""


def only_peers(peers: Iterable[str]) -> Guard:
    """Return a guard that accepts a peer with one of these names, as its common name or as an alternative name."""
    allowed = frozenset(peers)

    def guard(certificate: Mapping[str, Any]) -> str:
        names = names_in(certificate)
        if names & allowed:
            return ""
        named = f"its certificate names {', '.join(sorted(names)) or 'nobody'}"
        return f"{named}; allowed: {', '.join(sorted(allowed))} (server.tls.peers)"

    return guard


def names_in(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Return the subject's common names and all alternative names of a certificate."""
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = {value for kind, value in subject if kind == "commonName"}
    return frozenset(common | {str(value) for _, value in certificate.get("subjectAltName", ())})
