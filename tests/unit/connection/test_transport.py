"""Credentials that change while a process runs: tokens in files, plugins, certificates in files."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from extender.clock import Clock
from extender.kube.api import ClusterError
from extender.kube.connection import plugin as plugins
from extender.kube.connection.target import Connection, ExecPlugin, Pem, token_in
from extender.kube.connection.transport import AGAIN_SECONDS, Transport
from tests.eventually import eventually
from tests.kubectl.kit import API_VERSION, Kit, script
from tests.kubectl.servers import JOB, Request, World, world

HOUR = 3600.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("servers")) as found:
        yield found


class Jumping(Clock):
    """A real clock that shows ``ahead`` seconds more than the machine's."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def asked(transport: Transport, servers: World) -> Request:
    # The answer is read to its end, so that its connection is kept, and closed with the others.
    await (await transport.open("GET", JOB, {}, None, {})).read()
    return servers.record.take()[-1]


def connection(servers: World, **more: object) -> Connection:
    return Connection(Kit(servers).url(), authority=Pem(data=servers.ca), **more)  # type: ignore[arg-type]


def program(folder: Path, text: str, **more: object) -> ExecPlugin:
    path = folder / "plugin"
    path.write_text(text)
    path.chmod(0o755)
    fields = {"args": (), "env": {}, "install_hint": "", "interactive": "Never", **more}
    return ExecPlugin(user="u", command=str(path), api_version=API_VERSION, **fields)  # type: ignore[arg-type]


async def test_a_token_in_a_file_is_read_again_within_a_minute(servers: World, tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Jumping()
    file.write_text("first")
    transport = Transport(connection(servers, token="first", token_file=str(file)), clock, 1)
    assert (await asked(transport, servers)).authorization == "Bearer first"
    file.write_text("second\n")
    assert (await asked(transport, servers)).authorization == "Bearer first"
    clock.ahead += AGAIN_SECONDS
    assert (await asked(transport, servers)).authorization == "Bearer second"
    file.unlink()
    clock.ahead += AGAIN_SECONDS
    assert (await asked(transport, servers)).authorization == "Bearer second", "the last one that could be read"
    await transport.close()


async def test_a_renewed_token_is_read_as_the_first_one_was(servers: World, tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Jumping()
    file.write_bytes("\u00a0z\u00fcrich\r\n".encode())
    assert token_in("user 'u'", str(file)) == "z\u00fcrich"
    transport = Transport(connection(servers, token="first", token_file=str(file)), clock, 1)
    clock.ahead += AGAIN_SECONDS
    shown = (await asked(transport, servers)).authorization
    assert shown.encode("latin-1").decode() == "Bearer z\u00fcrich"
    file.write_bytes(b"a\nb")
    clock.ahead += AGAIN_SECONDS
    assert (await asked(transport, servers)).authorization == shown, "a token with a line break cannot be sent"
    await transport.close()


async def test_a_plugin_is_run_once_and_again_when_its_credentials_are_over(servers: World, tmp_path: Path) -> None:
    clock = Jumping()
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.now() + HOUR))
    text = script({"token": "T$(wc -l < $0.runs)", "expirationTimestamp": until})
    text = text.replace("<<'END'", "<<END").replace("#!/bin/sh\n", "#!/bin/sh\necho >> $0.runs\n")
    transport = Transport(connection(servers, plugin=program(tmp_path, text)), clock, 9)
    await asyncio.gather(*(transport.sign_in() for _ in range(5)))
    assert (await asked(transport, servers)).authorization == "Bearer T1"
    assert (await asked(transport, servers)).authorization == "Bearer T1"
    clock.ahead += HOUR + 1
    assert (await asked(transport, servers)).authorization == "Bearer T2"
    await transport.close()


async def test_a_plugin_is_run_again_when_the_server_refuses_its_token(servers: World, tmp_path: Path) -> None:
    text = script({"token": "good"})
    refused = "test -e $0.ran || { touch $0.ran; exec sed 's/good/wrong/' $0.json; }\ncat $0.json\n"
    (tmp_path / "plugin.json").write_text(text.split("\n")[2])
    transport = Transport(connection(servers, plugin=program(tmp_path, f"#!/bin/sh\n{refused}")), Clock(), 1)
    assert (await asked(transport, servers)).authorization == "Bearer wrong"
    assert (await asked(transport, servers)).authorization == "Bearer good"
    await transport.close()


async def test_another_certificate_of_a_plugin_is_shown_on_a_new_connection(servers: World, tmp_path: Path) -> None:
    clock, kit = Jumping(), Kit(servers)
    for name in ("first", "second"):
        certificate, key = (part.decode() for part in kit.certificate(name))
        status = {
            "clientCertificateData": certificate,
            "clientKeyData": key,
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        }
        (tmp_path / name).write_text(script(status))
    text = "#!/bin/sh\ncd $(dirname $0)\ntest -e ran && exec sh second\ntouch ran\nexec sh first\n"
    transport = Transport(connection(servers, plugin=program(tmp_path, text)), clock, 1)
    assert (await asked(transport, servers)).certificate == "first", "as in kubectl it is used once, though it is over"
    assert (await asked(transport, servers)).certificate == "second"
    await transport.close()


async def test_a_certificate_in_a_file_is_read_again(servers: World, tmp_path: Path) -> None:
    clock, kit, files = Jumping(), Kit(servers), [tmp_path / "crt", tmp_path / "key"]

    def write(*contents: bytes) -> None:
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
            os.utime(file, ns=(write.calls, write.calls))  # type: ignore[attr-defined]
        write.calls += 10**9  # type: ignore[attr-defined]

    write.calls = 10**9  # type: ignore[attr-defined]
    write(*kit.certificate("first"))
    transport = Transport(connection(servers, certificate=Pem(str(files[0])), key=Pem(str(files[1]))), clock, 1)
    assert (await asked(transport, servers)).certificate == "first"
    certificate, key = kit.certificate("second")
    write(certificate, b"half written")
    clock.ahead += AGAIN_SECONDS
    assert (await asked(transport, servers)).certificate == "first", "while the pair does not fit"
    write(certificate, key)
    clock.ahead += AGAIN_SECONDS
    assert (await asked(transport, servers)).certificate == "second"
    await transport.close()


FAILS: dict[str, tuple[str, dict[str, object], str]] = {
    "its words and exit code": (
        script({}, 7, "log in\nagain"),
        {},
        "user 'u': the exec plugin '.*' failed with exit code 7: log in again",
    ),
    "no words": (script({}, 7), {}, "failed with exit code 7$"),
    "no terminal": (script({}), {"interactive": "Always"}, "needs a terminal"),
    "nothing printed": ("#!/bin/sh\n", {}, "printed no credentials: 'Expected|printed no credentials"),
    "a time without a zone": (
        script({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00"}),
        {},
        "expirationTimestamp",
    ),
}


@pytest.mark.parametrize(("text", "more", "told"), FAILS.values(), ids=FAILS.keys())
async def test_nothing_is_sent_without_the_credentials_of_a_plugin(
    servers: World, tmp_path: Path, text: str, more: dict[str, object], told: str
) -> None:
    transport = Transport(connection(servers, plugin=program(tmp_path, text, **more)), Clock(), 1)
    with pytest.raises(ClusterError, match=told):
        await asked(transport, servers)
    assert servers.record.take() == ()


async def test_a_plugin_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    slow = program(tmp_path, "#!/bin/sh\necho $$ > $0.part\nmv $0.part $0.pid\nexec sleep 60\n")
    waiting, told = asyncio.create_task(plugins.run(slow)), tmp_path / "plugin.pid"
    await eventually(told.exists, "the plugin runs")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


async def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(servers: World, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    certificate, key = Kit(servers).certificate("locked")
    locked = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    with pytest.raises(ClusterError, match="the key has a password"):
        Transport(connection(servers, certificate=Pem(data=certificate), key=Pem(data=locked)), Clock(), 1)


@pytest.mark.parametrize("proxy", ["", "socks5://127.0.0.1:1"])
async def test_a_connection_without_a_request_is_kept_almost_as_long_as_the_server_keeps_it(
    servers: World, proxy: str
) -> None:
    """kube-apiserver closes it after 90 s; a client that did so later would send a binding on a closed connection."""
    transport = Transport(connection(servers, proxy=proxy), Clock(), 1)
    connector = transport._opened().connector
    assert connector is not None
    assert isinstance(connector, aiohttp.TCPConnector)
    assert 45 < (connector._keepalive_timeout or 0) < 90
    await transport.close()
