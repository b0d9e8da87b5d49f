"""Free ports on loopback."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

from tests.controlplane.errors import ControlPlaneError

LOOPBACK = "127.0.0.1"
# Below the kernel's range for outgoing connections: one of those cannot take the port before our server binds it.
_RANGE = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listened on a moment ago.

    Another process may still take one first, so whoever starts a server must be ready to try again.
    Raises ControlPlaneError when there are too few.
    """
    chosen: list[int] = []
    for port in random.sample(_RANGE, k=len(_RANGE)):
        if _is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise ControlPlaneError(f"fewer than {count} free ports between {_RANGE.start} and {_RANGE.stop}")


def preferred_ports(wanted: Sequence[int]) -> list[int]:
    """Return these ports; in the place of each that is taken, any free one."""
    others = iter(free_ports(len(wanted)))
    return [port if _is_free(port) else next(others) for port in wanted]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose old connections are still being closed is free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
