"""Measure, on a full cluster with 1,000 waiting pods and ten unrelated events a second, what waiting costs and how it
ends.

Every node except the last is filled by one running gang. 200 gangs of five wait, each as large as one node. On the last
node four pods of five would fit, so kube-scheduler calls filter for every ungated pod that an event wakes, and is
refused; gated pods are not tried. An unrelated event is the creation or deletion of another scheduler's small bound
pod. Once every ungated pod has been refused, and after a while with unrelated events only, nodes are emptied one by
one. The measured time runs from the deletion of the first pod on a node, which completes the room for a gang (four pods
fit on the last node), to the last binding of a gang, as a watch sees it.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import command, live
from benchmarks.report import BenchmarkReport, progress
from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort

GANG = 5
EVENTS_A_SECOND = 10.0
FIRST_SECONDS, SETTLE_SECONDS, ROOM_SECONDS = 180.0, 5.0, 30.0
OTHERS = "/api/v1/namespaces/default/pods"


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Measure the cluster with ungated and with gated waiting pods, in alternating order."""
    setup = {"nodes": options.nodes, "waiting pods": options.gangs * GANG, "rounds": options.rounds,
             "seconds": options.seconds, "rooms": options.rooms}  # fmt: skip
    report = BenchmarkReport("burst", setup)
    progress(f"starting a control plane of {options.nodes} nodes")
    with live.bare_plane(options.nodes, cpu=str(GANG)) as plane:
        parts = live.kohort(plane)
        live.pause(parts)
        for number in range(options.rounds):
            for case in ("ungated", "gated") if number % 2 == 0 else ("gated", "ungated"):
                _round(report, plane, parts, options, case, number)
                progress(f"round {number + 1} of {options.rounds}: {case} done, load {os.getloadavg()[0]:.1f}")
    return report


def _round(
    report: BenchmarkReport, plane: ControlPlane, parts: Kohort, options: argparse.Namespace, case: str, number: int
) -> None:
    live.open_gate(plane)
    *full, last = (f"node-{node}" for node in range(options.nodes))
    live.submit(plane, live.gangs(len(full), "kohort", "filler", cpu="1"), on=full)
    live.create(plane, OTHERS, [_other("resident", last, "1")])
    live.submit(plane, live.gangs(options.gangs, "kohort", f"{case}{number}", cpu="1"), gated=case == "gated")
    live.resume(plane, parts)
    parts.scheduler.start()
    processes = {"scheduler": parts.scheduler, "extender": parts.extender, "controller": parts.controller}
    processes |= {"apiserver": plane.processes["kube-apiserver"]}
    try:
        with _unrelated(plane):
            if case == "ungated":
                live.wait(lambda: not _untried(plane), "refusal of every pod", FIRST_SECONDS, 1.0)
            time.sleep(SETTLE_SECONDS)
            calls, cpu, began = _filters(parts), live.cpu_seconds(processes), time.monotonic()
            time.sleep(options.seconds)
            seconds = time.monotonic() - began
            used = live.cpu_seconds(processes)
            report.add(f"filter calls a second, {case}", (_filters(parts) - calls) / seconds, "calls/s")
            for name in processes:
                report.add(f"CPU, {case}: {name}", (used[name] - cpu[name]) / seconds, "cores")
            report.times(f"room to bound gang, {case}", _rooms(plane, options.rooms))
    finally:
        live.pause(parts)
        live.clear(plane)
        live.clear_pods(plane, OTHERS)


def _untried(plane: ControlPlane) -> bool:
    """Tell whether there is a waiting pod that kube-scheduler has not tried to schedule yet."""
    pods = plane.api.get(live.PODS, fieldSelector="spec.nodeName=")["items"]
    return any(not pod.get("status", {}).get("conditions") for pod in pods)


def _rooms(plane: ControlPlane, rooms: int) -> list[float]:
    """Empty ``rooms`` nodes one after the other; return, for each, the seconds until another gang has been bound.

    If no gang is bound within `ROOM_SECONDS`, that limit is returned for the node.
    """
    found = []
    with live.Seen(plane) as seen:
        for room in range(rooms):
            whole = _whole(seen)
            began = time.monotonic()
            live.end(plane, f"filler-{room}")
            try:
                live.wait(lambda: _whole(seen) > whole, "bound gang", ROOM_SECONDS, 0.005)  # noqa: B023 - run at once
                found.append(max(seen.at.values()) - began)
            except TimeoutError:
                found.append(ROOM_SECONDS)
    return found


def _whole(seen: live.Seen) -> int:
    counts = Counter(name.rsplit("-", 2)[0] for name in list(seen.at))
    return sum(1 for count in counts.values() if count == GANG)


def _filters(parts: Kohort) -> float:
    calls = live.series(parts.health, "kohort_verb_requests_total")
    return sum(value for labels, value in calls.items() if 'verb="filter"' in labels)


@contextmanager
def _unrelated(plane: ControlPlane) -> Iterator[None]:
    """Create or delete a pod of another scheduler ten times a second, for as long as the context lasts."""
    stop = threading.Event()

    def run() -> None:
        number = 0
        while not stop.wait(1 / EVENTS_A_SECOND):
            if number % 2:
                plane.api.delete(f"{OTHERS}/passer-by-{number // 2}?gracePeriodSeconds=0")
            else:
                plane.api.create(OTHERS, _other(f"passer-by-{number // 2}", "node-0", "0"))
            number += 1

    thread = threading.Thread(target=run, name="unrelated", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def _other(name: str, node: str, cpu: str) -> live.Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}


def main() -> None:
    made = command.parser("burst", __doc__, (100,), 3, several=False)
    made.add_argument("--gangs", type=command.positive, default=200, help="waiting gangs of five pods")
    made.add_argument("--seconds", type=command.positive, default=20, help="how long waiting is watched")
    made.add_argument("--rooms", type=command.positive, default=20, help="nodes that are emptied, at most all")
    command.run(made, measure)


if __name__ == "__main__":
    main()
