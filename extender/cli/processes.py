"""Runs ``kohort serve`` and ``kohort controller``: settings, logs, the event loop, and a clear message on errors."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
import typer
import uvloop

from extender import logs
from extender.cli.errors import CliError
from extender.config.settings import Settings
from extender.config.settingsfile import CONFIG_VARIABLE, SettingsError, load_settings
from extender.http.server import AddressError
from extender.kube.api import ClusterError
from extender.kube.connection.target import CREDENTIALS, NO_CLUSTER


def start(config: Path | None) -> Settings:
    """Read the settings, set up the logs as they state, and return the settings.

    config: the settings file; None stands for the file that KOHORT_CONFIG names, if any.
    """
    settings = settings_of(config)
    logs.set_up(settings.log_level)
    return settings


def settings_of(config: Path | None) -> Settings:
    """Return the settings from file and environment. Raise CliError, which lists every wrong setting, if any is."""
    try:
        return load_settings(config)
    except SettingsError as error:
        raise CliError(str(error), 2) from None


def file_of(config: Path | None) -> Path | None:
    """Return the settings file that the option --config or the environment names, or None."""
    named = config or os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else None


SWITCH_SECONDS: Final = 0.0005
"""The interpreter's switch interval: a thread that answers people may keep the event loop, which answers
kube-scheduler, waiting for so long. With Python's default of 5 ms, filter was forty times as slow while `explain` was
answered."""


def say_largest_gang(settings: Settings) -> None:
    """Log how many members a gang may have under these settings, so that operators know the limit beforehand."""
    structlog.get_logger("kohort").info(
        f"the largest gang that these settings admit has {settings.largest_gang} members; a larger one waits",
        largest_gang=settings.largest_gang,
        window_seconds=settings.barrier.window_seconds,
        pods_per_second=settings.scheduler.pods_per_second,
        connections=settings.server.connections,
    )


OTHER_DESCRIPTORS: Final = 256
"""File descriptors beside those of the listeners: calls and watches of the API server (96), files, pipes, reserve."""


def allow_descriptors(connections: int) -> None:
    """Raise the process's soft limit on open files to the hard limit.

    If the limit is then too low for that many connections, log a warning. A soft limit of 1,024 is common. A process
    that has reached its limit accepts no connection, neither from kube-scheduler nor from a probe.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError) as error:
        structlog.get_logger("kohort").warning(f"the limit on open files cannot be raised and stays at {soft}: {error}")
    room = soft - OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and connections > room:
        structlog.get_logger("kohort").warning(
            f"the listeners may hold {connections} connections, most of them by server.connections, but the limit on "
            f"open files ({soft}) leaves {max(room, 0)}; allowed: lower server.connections by {connections - room}, "
            f"or allow {connections + OTHER_DESCRIPTORS} open files (ulimit -n, LimitNOFILE)",
            connections=connections,
            open_files=soft,
        )


def run(name: str, start: Callable[[Settings], Coroutine[Any, Any, None]], settings: Settings) -> None:
    """Run ``start(settings)``, the main coroutine of the process ``kohort NAME``, until the process gets a signal.

    If the coroutine fails, log the traceback, and raise CliError with one line for people.
    """
    prefer_the_loop()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(start(settings))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        cause = _first_leaf(error)
        logging.getLogger("kohort").error("kohort %s has stopped", name, exc_info=error)
        raise CliError(f"kohort {name} has stopped: {_in_words(cause, settings)}") from None


def prefer_the_loop() -> None:
    """Make the event loop wait less for other threads and for the garbage collector.

    The ledger keeps many objects without reference cycles. With Python's default thresholds the garbage collector would
    traverse them too often, and free nothing.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # makes the collector skip imported modules, which live as long as the process
    gc.set_threshold(20_000, 20, 50)


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _in_words(error: BaseException, settings: Settings) -> str:
    if isinstance(error, AddressError):
        named = " or ".join(_ports(settings.model_dump(), error.port)) or "the port"
        return f"{error}; set {named} to another port, or 0 for any free one"
    if isinstance(error, ClusterError) and error.reason == CREDENTIALS:
        return error.message
    if isinstance(error, ClusterError) and error.reason == NO_CLUSTER:
        return (
            f"neither a kubeconfig nor the account of a pod names a cluster ({error.message}); set KUBECONFIG, or "
            "kubeconfig in the settings"
        )
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}; is a file missing?"
    return f"{type(error).__name__}: {error}"


def _ports(settings: Mapping[str, Any], port: int, above: str = "") -> Iterator[str]:
    """Yield the full name of each setting whose name ends with ``port`` and whose value is ``port``.

    ``above``: the section's name with a dot at the end, empty for all settings.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _ports(value, port, f"{above}{name}.")
        elif name.endswith("port") and value == port:
            yield f"{above}{name}"
