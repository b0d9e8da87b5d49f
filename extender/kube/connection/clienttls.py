"""Makes the TLS context of a connection: the authorities that we trust, and the client certificate that we present.

As in Go, and unlike Python's defaults, any certificate given as an authority is trusted as one, and a server's common
name does not count as its host name.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extender.kube.connection.target import Connection, Pem, unusable


def tls_context(connection: Connection, certificate: Pem, key: Pem) -> ssl.SSLContext:
    """Return a TLS context made from the present contents of the certificate files.

    ``certificate``, ``key``: the client certificate that we present to the server, and its key; both are empty if we
    present none. Raises ClusterError where a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.authority:
        _trust(context, connection.authority)
    else:
        context.load_default_certs()
    if certificate:
        _show(context, certificate, key)
    return context


def _trust(context: ssl.SSLContext, authority: Pem) -> None:
    field = f"certificate-authority{'' if authority.file else '-data'}"
    try:
        data = authority.data or Path(authority.file).read_bytes()
        context.load_verify_locations(cadata=data.decode("ascii", errors="ignore"))
    except (OSError, ValueError) as error:  # OSError covers ssl.SSLError, which is a subclass of it
        where = f": {authority.file!r}" if authority.file else ""
        raise unusable(f"{field}{where} holds no certificate in PEM format: {error}; give a file that does") from None


def _show(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    try:
        with _in_file(certificate) as shown, _in_file(key) as held:
            context.load_cert_chain(shown, held, password=_no_password)
    except (OSError, ValueError) as error:
        files = " and ".join(repr(one.file) for one in (certificate, key) if one.file)
        where = f" in {files}" if files else ""
        raise unusable(
            f"client-certificate and client-key{where} are not a certificate and its key in PEM format: {error}; give "
            "a matching pair"
        ) from None


def _no_password() -> str:
    # Without this function OpenSSL would ask for the password on the terminal.
    raise ValueError("the key has a password")


@contextmanager
def _in_file(pem: Pem) -> Iterator[str]:
    """Yield the path of a file with the certificate or key, because Python's ssl reads them from files only.

    A certificate or key that is given as bytes is written to a private temporary file, which is deleted at the end.
    """
    if pem.file:
        yield pem.file
        return
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem.data)
        yield path
    finally:
        Path(path).unlink()
