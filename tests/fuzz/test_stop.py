"""`kohort serve` stops in time whatever its clients have begun and not ended."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from benchmarks.rebuild import FakeApi, Served, cluster, serving

MANY = 20
STOPS_WITHIN = 20.0  # of them graceful_seconds for what is being answered; a poll alone would take 55
POLL = b"GET /v1/desired?after=%s&timeout_seconds=55 HTTP/1.1\r\nHost: x\r\n\r\n"
BEGUN = {
    "nothing": b"",
    "half a head": b"POST /scheduler/v1/filter HTTP/1.1\r\nHo",
    "half a body": b"POST /scheduler/v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{",
    "half a chunk": b"POST /scheduler/v1/bind HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
    "a request and half of the next": b"GET /v1/queue HTTP/1.1\r\nHost: x\r\n\r\nGET /v1",
    "a stream": b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n",
    "an answer that is not read": b"GET /v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
}


@pytest.fixture(scope="module")
def api() -> Iterator[FakeApi]:
    made = FakeApi(cluster(200, 400))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def served(api: FakeApi) -> Iterator[Served]:
    with serving(api) as found:
        yield found


@pytest.mark.timeout(240)
def test_it_stops_in_time_under_all_of_that(served: Served) -> None:
    with ExitStack() as stack:
        clients = []
        for begun in [*BEGUN.values()] * MANY:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            client.sendall(begun)
            clients.append(client)
        time.sleep(1)  # less than any of them is given: all are open when the end is asked for
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        took = time.monotonic() - began
        print(f"stopped {took:.1f} s after SIGTERM, with {len(clients)} connections")
        assert took < STOPS_WITHIN
