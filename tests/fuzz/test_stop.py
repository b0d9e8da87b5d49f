"""Tests that `kohort serve` stops although clients have unfinished requests."""

from __future__ import annotations

import http.client
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from benchmarks.rebuild import FakeApi, Served, cluster, serving

MANY = 20
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
def test_it_stops_under_all_of_that(served: Served) -> None:
    with ExitStack() as stack:
        for begun in [*BEGUN.values()] * MANY:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            client.sendall(begun)
        # Connections are accepted in order, so once this one is answered, all are open.
        last = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        stack.callback(last.close)
        last.request("GET", "/v1/queue")
        assert last.getresponse().read()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(120) == 0
