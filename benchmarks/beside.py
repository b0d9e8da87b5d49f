"""Measure how much people's requests delay kube-scheduler: filter's latency alone, and while the service answers one.

The real app runs in a process of its own, as in `benchmarks.verbs`. One client calls filter again and again. In every
other round, another client sends one request of a person after the other: explain with what would admit the job,
what-if, the queue with expected starts, or a comparison of the journal with another policy.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

from benchmarks import command
from benchmarks.report import BenchmarkReport, progress
from benchmarks.verbs import Server, cases_of, serving

SECONDS = 4.0
PAUSE = 0.002  # The client pauses this many seconds between two calls, because kube-scheduler has other work, too.
TFJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "asked", "namespace": "team"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 8,
                "template": {
                    "spec": {
                        "schedulerName": "kohort",
                        "containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "2"}}}],
                    }
                },
            }
        }
    },
}
OTHERS = ("drs", "dragon", "fifo", "drf", "fifo-backfill", "specon", "locality-only", "rrh")
Ask = Callable[[http.client.HTTPConnection], None]


def _get(path: str) -> Ask:
    return lambda client: _asked(client, "GET", path, b"")


def _comparing() -> Ask:
    """Return a function that sends a request for a comparison, at each call with another policy, because the service
    would answer a repeated request from its cache.
    """
    names = cycle(OTHERS)
    return lambda client: _asked(client, "GET", f"/v1/comparison?policy={next(names)}", b"")


def _asked(client: http.client.HTTPConnection, method: str, path: str, body: bytes) -> None:
    client.request(method, path, body, {"Content-Type": "application/json"})
    answer = client.getresponse()
    content = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path}: {answer.status} {content[:300]!r}")


def questions() -> dict[str, Ask]:
    """Return the functions that send a person's requests, one for each kind of request, by the name of the kind."""
    what_if = json.dumps({"job": TFJOB}).encode()
    return {
        "explain": _get("/v1/explain/team/refused?unblock=true"),
        "what-if": lambda client: _asked(client, "POST", "/v1/what-if", what_if),
        "queue": _get("/v1/queue?expected=true"),
        "comparison": _comparing(),
    }


@contextmanager
def asking(port: int, ask: Ask) -> Iterator[list[int]]:
    """Send requests with ``ask``, one after the other in a thread, for as long as the context lasts.

    Yield a list whose only item is the number of answers so far.
    """
    stop, answered, failed = threading.Event(), [0], list[BaseException]()

    def run() -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            while not stop.is_set():
                ask(client)
                answered[0] += 1
        except BaseException as error:
            failed.append(error)
        finally:
            client.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield answered
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def filtering(server: Server, path: str, body: bytes, seconds: float = SECONDS) -> list[float]:
    """Call filter again and again for ``seconds`` seconds; return the duration of each call in seconds."""
    client = http.client.HTTPConnection("127.0.0.1", server.said["port"])
    found, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        _asked(client, "POST", path, body)
        found.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    client.close()
    return found


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure filter in every round, for each kind of request: first alone, then while such requests are sent."""
    report = BenchmarkReport("beside", {"nodes": options.nodes, "pods": options.pods, "rounds": options.rounds})
    with tempfile.TemporaryDirectory() as folder, serving(options.nodes, options.pods, folder) as server:
        path, body = cases_of(options.nodes)["filter, planned"]
        filtering(server, path, body, 1.0)
        for number in range(options.rounds):
            for name, ask in questions().items():
                alone = filtering(server, path, body)
                with asking(server.said["port"], ask) as answered:
                    beside = filtering(server, path, body)
                _note(report, name, alone, beside)
                report.add(f"answers, {name}", answered[0], "")
            progress(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}")
    return report


def _note(report: BenchmarkReport, name: str, alone: list[float], beside: list[float]) -> None:
    report.times("filter, alone", alone)
    report.times(f"filter, {name}", beside)
    for percent in (50, 99):
        at = [sorted(found)[min(len(found) - 1, len(found) * percent // 100)] for found in (beside, alone)]
        report.ratio(f"p{percent} filter, {name}/alone", *at)


def main() -> None:
    made = command.parser("beside", __doc__, (1000,), 3, several=False)
    made.add_argument("--pods", type=command.positive, default=10_000, help="pods that the server knows")
    command.run(made, measure)


if __name__ == "__main__":
    main()
