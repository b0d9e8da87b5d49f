"""Measure how much stalled connections disturb kube-scheduler: how soon they are closed, and filter's latency beside
them.

The real app runs in a process of its own, as in `benchmarks.verbs`. A thread keeps many connections open that send the
beginning of a request and then nothing, or a byte now and then. When the server has closed them, the thread opens
others. Another client calls filter. Rounds with and without stalled connections alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import random
import time
from collections.abc import Iterator
from threading import Event, Thread

from benchmarks import command, scenes
from benchmarks.report import BenchmarkReport, percentile, progress
from benchmarks.verbs import Server, args_of, pod_of, serving

PODS, CALLS = 1_000, 1_000
STARTS = (
    b"POST /scheduler/v1/filter HTTP/1.1\r\nHo",
    b"POST /scheduler/v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{",
    b"POST /scheduler/v1/bind HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
    b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
)


async def stall(port: int, data: bytes, trickles: bool) -> float:
    """Send the beginning of a request, and then nothing or single bytes; return the seconds until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(data)

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(1 + random.random())
                writer.write(b"1")
                await writer.drain()

    dripping = asyncio.create_task(drip()) if trickles else None
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 60)
    took = time.monotonic() - began
    if dripping is not None:
        dripping.cancel()
    writer.close()
    return took


async def stall_many(port: int, count: int) -> list[float]:
    """Stall ``count`` connections at once, a tenth of them by sending single bytes; return, for each, the seconds until
    the server closed it.
    """
    async with asyncio.TaskGroup() as tasks:
        made = [
            tasks.create_task(stall(port, STARTS[number % len(STARTS)], trickles=number % 10 == 0))
            for number in range(count)
        ]
    return [task.result() for task in made]


@contextlib.contextmanager
def stalled(port: int, count: int, into: list[float]) -> Iterator[None]:
    """Keep ``count`` connections stalled in a thread, and open new ones when the server has closed them. ``into`` gets
    the seconds until each was closed.
    """
    enough = Event()

    def keep() -> None:
        while not enough.is_set():
            into.extend(asyncio.run(stall_many(port, count)))

    thread = Thread(target=keep, name="stalled", daemon=True)
    thread.start()
    time.sleep(1.5)  # The sleep lets all connections open before anything is measured.
    try:
        yield
    finally:
        enough.set()
        thread.join(120)


def filter_seconds(server: Server, nodes: int, calls: int = CALLS) -> list[float]:
    """Return the seconds of each filter call over one kept connection, as kube-scheduler calls it."""
    body = args_of(pod_of("planned-ps-0", "planned", "kohort"), [scenes.name_of(number) for number in range(nodes)])
    client = http.client.HTTPConnection("127.0.0.1", server.said["port"], timeout=60)
    found = []
    for _ in range(calls):
        began = time.perf_counter()
        client.request("POST", "/scheduler/v1/filter", body)
        answer = json.loads(client.getresponse().read())
        found.append(time.perf_counter() - began)
        if not answer["NodeNames"]:
            raise RuntimeError(f"filter refused a planned pod: {answer}")
        time.sleep(0.001)
    client.close()
    return found


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure the latency of filter in each round, first without and then with stalled connections, and return the
    report.
    """
    report = BenchmarkReport(
        "stalled", {"nodes": options.nodes, "connections": options.connections, "rounds": options.rounds}
    )
    with serving(options.nodes, PODS) as server:
        filter_seconds(server, options.nodes, 200)
        for number in range(options.rounds):
            closed: list[float] = []
            alone = filter_seconds(server, options.nodes)
            with stalled(server.said["port"], options.connections, closed):
                beside = filter_seconds(server, options.nodes)
            report.times("filter, alone", alone)
            report.times("filter, beside them", beside)
            report.add("longest until closed", max(closed), "s")
            for percent in (50, 99):
                of_both = (percentile(sorted(found), percent) for found in (beside, alone))
                report.ratio(f"p{percent} filter, beside them/alone", *of_both)
            progress(f"round {number + 1} of {options.rounds}")
    return report


def main() -> None:
    made = command.parser("stalled", __doc__, (100,), 9, several=False)
    made.add_argument("--connections", type=command.positive, default=1_000, help="connections that stall at once")
    command.run(made, measure)


if __name__ == "__main__":
    main()
