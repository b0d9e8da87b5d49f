"""What people's questions cost kube-scheduler: filter's latency while one is answered, beside the same moments without.

The real app in a process of its own, as in `benchmarks.verbs`. One client asks filter in turn, and meanwhile another
asks one question after the other: explain with what would admit the job, what-if, the queue with expected starts, and a
comparison of the journal with another policy. Rounds without and with alternate.
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
from benchmarks.report import Report, progress
from benchmarks.verbs import Server, cases_of, serving

SECONDS = 4.0
PAUSE = 0.002  # seconds between two calls: kube-scheduler has other things to do
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
    """Another policy each time: an answer is kept."""
    names = cycle(OTHERS)
    return lambda client: _asked(client, "GET", f"/v1/comparison?policy={next(names)}", b"")


def _asked(client: http.client.HTTPConnection, method: str, path: str, body: bytes) -> None:
    client.request(method, path, body, {"Content-Type": "application/json"})
    answer = client.getresponse()
    told = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path}: {answer.status} {told[:300]!r}")


def questions() -> dict[str, Ask]:
    """By name."""
    what_if = json.dumps({"job": TFJOB}).encode()
    return {
        "explain": _get("/v1/explain/team/refused?unblock=true"),
        "what-if": lambda client: _asked(client, "POST", "/v1/what-if", what_if),
        "queue": _get("/v1/queue?expected=true"),
        "comparison": _comparing(),
    }


@contextmanager
def asking(port: int, ask: Ask) -> Iterator[list[int]]:
    """Ask again and again meanwhile; how often it was answered."""
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
    """Seconds of each call, for so long."""
    client = http.client.HTTPConnection("127.0.0.1", server.said["port"])
    found, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        _asked(client, "POST", path, body)
        found.append(time.perf_counter() - began)
        time.sleep(PAUSE)
    client.close()
    return found


def measure(options: argparse.Namespace) -> Report:
    """Round by round, every question after a stretch without one."""
    report = Report("beside", {"nodes": options.nodes, "pods": options.pods, "rounds": options.rounds})
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


def _note(report: Report, name: str, alone: list[float], beside: list[float]) -> None:
    report.times("filter, alone", alone)
    report.times(f"filter, {name}", beside)
    for percent in (50, 99):
        at = [sorted(found)[min(len(found) - 1, len(found) * percent // 100)] for found in (beside, alone)]
        report.ratio(f"p{percent} filter, {name}/alone", *at)


def main() -> None:
    """The command."""
    made = command.parser("beside", __doc__, (1000,), 3, several=False)
    made.add_argument("--pods", type=command.positive, default=10_000, help="pods that the server knows")
    command.run(made, measure)


if __name__ == "__main__":
    main()
