"""Hand out loopback ports so that no two test processes on this machine get the same.

A process reserves a whole block of ports and draws from it. Reservations are Linux's abstract socket names: like ports
they belong to the network namespace, and they end with the process, however it ends.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from itertools import islice

from tests.controlplane.errors import ControlPlaneError

LOOPBACK = "127.0.0.1"
# These ports are below the kernel's range for outgoing connections, which could otherwise take a port before the server
# binds it.
RANGE = range(20_000, 32_000)
BLOCK = 100

_held: list[socket.socket] = []  # A name stays reserved for as long as its socket is open.


def free_ports(count: int) -> list[int]:
    """Return ``count`` ports on which no process listens, and which no other test process gets while this process
    lives.

    Raises ControlPlaneError if there are too few.
    """
    found = list(islice(_ports, count))
    if len(found) < count:
        raise ControlPlaneError(
            f"fewer than {count} free ports are left on {LOOPBACK} between {RANGE.start} and {RANGE.stop}: end other "
            "runs of the tests on this machine"
        )
    return found


def preferred_ports(wanted: Sequence[int]) -> list[int]:
    """Return the wanted ports, with a free port in place of each that is taken."""
    return [port if _hold(f"port-{port}") and _is_free(port) else free_ports(1)[0] for port in wanted]


def _draw() -> Iterator[int]:
    """Yield every free port of the blocks that this process reserves, once each."""
    blocks = range(RANGE.start, RANGE.stop, BLOCK)
    for first in random.sample(blocks, k=len(blocks)):
        if _hold(f"ports-from-{first}"):
            yield from filter(_is_free, range(first, first + BLOCK))


_ports = _draw()


def _hold(name: str) -> bool:
    """Reserve the name for this process; return False if it is reserved already, by this or another process."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0kohort-tests-{name}")
    except OSError:
        claim.close()
        return False
    _held.append(claim)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # The option is set as servers set it, so that a port whose old connections are closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
