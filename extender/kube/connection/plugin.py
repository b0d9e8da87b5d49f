"""Runs an exec plugin, a program that prints credentials, as kubectl does (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from extender.kube.connection.goyaml import plain
from extender.kube.connection.target import NO_PEM, ExecPlugin, Pem, unusable

KIND: Final = "ExecCredential"
VARIABLE: Final = "KUBERNETES_EXEC_INFO"
WORDS: Final = 500  # an error message quotes at most this many characters of a failed plugin's output


@dataclass(frozen=True, slots=True)
class Credential:
    """The credentials that an exec plugin printed.

    ``expires``: when they expire, in seconds since the epoch; None if they never expire.
    """

    token: str = field(default="", repr=False)
    certificate: Pem = NO_PEM
    key: Pem = NO_PEM
    expires: float | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Printed(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


async def run(plugin: ExecPlugin, environ: Mapping[str, str] = os.environ) -> Credential:
    """Run the plugin to its end and return its credentials.

    Raises ClusterError with the plugin's output, its exit code, and what to do.
    """
    who = f"user {plugin.user!r}: the exec plugin {plugin.command!r}"
    interactive = _is_interactive(plugin, who)
    if (path := _path_of(plugin.command, environ)) is None:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise unusable(f"{who} is not installed; install it, or give the user other credentials{hint}")
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    exec_info = json.dumps({"kind": KIND, "apiVersion": plugin.api_version, "spec": spec})
    # On a terminal the plugin's stderr goes straight to the user, because the plugin may ask the user for something.
    shown = sys.stderr.isatty()
    try:
        process = await asyncio.create_subprocess_exec(
            path, *plugin.args, env={**environ, **plugin.env, VARIABLE: exec_info},
            stdin=None if interactive else DEVNULL, stdout=PIPE, stderr=None if shown else PIPE,
        )  # fmt: skip
    except OSError as error:
        raise unusable(f"{who} cannot be run: {str(error.strerror).lower()}; make it executable") from None
    printed, words = await _end_of(process)
    if process.returncode != 0:
        said = " ".join(words.decode(errors="replace").split())[-WORDS:]
        raise unusable(f"{who} failed with exit code {process.returncode}{f': {said}' if said else ''}")
    try:
        return _read(printed, plugin.api_version)
    except ValueError as error:
        raise unusable(
            f"{who} printed no credentials: {error}; run it by hand to see its output, and check its version"
        ) from None


async def _end_of(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Wait for the plugin to end and return its stdout and stderr; kill the plugin if the wait is cancelled."""
    try:
        printed, words = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return printed, words or b""


def _is_interactive(plugin: ExecPlugin, who: str) -> bool:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise unusable(
            f"{who} needs a terminal (interactiveMode: Always), and there is none; run the command in a terminal"
        )
    return plugin.interactive != "Never" and terminal


def _path_of(command: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of the program that ``command`` names; None where it is not found.

    As in Go, a relative folder on PATH is never searched.
    """
    if os.sep in command:
        return command if os.path.exists(command) else None  # noqa: PTH110
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117
    return shutil.which(command, path=os.pathsep.join(folders))


def _read(printed: bytes, api_version: str) -> Credential:
    """Return the credentials in the ExecCredential that the plugin printed as JSON or YAML.

    Raises ValueError where the plugin printed anything else, or no credentials.
    """
    try:
        found = msgspec.convert(plain(printed), _Printed)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if found.kind != KIND or found.api_version != api_version:
        raise ValueError(
            f"{found.kind!r} of apiVersion {found.api_version!r} was printed; allowed: {KIND} of {api_version}"
        )
    status = found.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ValueError("it printed a certificate without its key, or a key without its certificate")
    if not (status.token or status.client_certificate_data):
        raise ValueError("status has neither a token nor a certificate with its key")
    expires = status.expiration_timestamp
    return Credential(
        status.token,
        Pem(data=status.client_certificate_data.encode()),
        Pem(data=status.client_key_data.encode()),
        expires.timestamp() if expires is not None else None,
    )
