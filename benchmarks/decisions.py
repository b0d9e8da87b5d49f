"""Measure what decisions cost: a step after each kind of event, placing, the queue and explain; no network.

A step is pure, so the same step is timed repeatedly on the same snapshot, by the CPU clock; as it never waits, this is
its duration on an idle machine. The maps of the snapshot are layered (small changes over a shared base), as in a
service that has run for a while. The cluster is full: every node holds a gang of five, and the waiting gangs have fifty
shapes. ``heavy job`` gets its room by shrinking: every running gang may be a victim, and ``prepare`` has computed what
they would give, as the service does between two steps; ``unprepared`` means that it has not. ``wide`` is a gang of 41
that fits on no single node. A step is KOD2's where no system is named. ``oasis`` is the cost of each of 150 jobs on its
arrival, in CPU time and by the clock.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks import command, oasis_scene, scenes
from benchmarks.report import BenchmarkReport, percentile, progress
from policy.answers.explain import explain
from policy.cluster.events import BindHeld, Event, JobSeen, PodSeen, Tick
from policy.cluster.snapshot import Snapshot
from policy.desired import desired
from policy.placement.gang import ask_of, place
from policy.placement.room import Room
from policy.step import step
from policy.systems.base import Policy
from policy.systems.dragon import Dragon
from policy.systems.drs import Drs
from policy.systems.kod2 import Kod2
from policy.systems.queue import queue
from tests.builders import JobBuilder, guest, job, members

POLICY = Kod2()
Cases = dict[str, Callable[[], object]]
SECONDS_A_CASE, FEWEST, MOST = 0.2, 3, 300


def measure(options: argparse.Namespace) -> BenchmarkReport:
    """Time every function to measure, on clusters of every size, once per round, and return the report."""
    report = BenchmarkReport("decisions", {"nodes": options.nodes, "waiting": options.waiting, "rounds": options.rounds,
                                  "OASiS's servers": options.servers})  # fmt: skip
    cases: Cases = {}
    for nodes in options.nodes:
        for waiting in options.waiting:
            progress(f"preparing {nodes} nodes, {waiting} waiting gangs")
            cases |= {f"{what}, {nodes} nodes, {waiting} waiting": case for what, case in _full(nodes, waiting).items()}
        cases |= {f"{what}, {nodes} nodes": case for what, case in _empty(nodes).items()}
    gc.collect()
    gc.freeze()
    for number in range(options.rounds):
        progress(f"round {number + 1} of {options.rounds}")
        for name, case in cases.items():
            report.times(name, _timed(case))
        if options.servers:
            _oasis(report, options.servers, number)
    return report


def _oasis(report: BenchmarkReport, servers: int, number: int) -> None:
    """Measure how long OASiS takes to decide about each arriving job. Each round has another random trace."""
    clock = oasis_scene.timed(servers, 1000 + number)
    for name, seconds in (("oasis, a job", clock.cpu), ("oasis by the clock, a job", clock.wall)):
        report.times(f"{name}, {servers} + {servers} servers", seconds)
        ordered = sorted(1000 * one for one in seconds)
        report.add(f"{name}, {servers} + {servers} servers p95", percentile(ordered, 95), "ms")


def _timed(case: Callable[[], object]) -> list[float]:
    case()
    found: list[float] = []
    while len(found) < FEWEST or (sum(found) < SECONDS_A_CASE and len(found) < MOST):
        began = time.process_time()
        case()
        found.append(time.process_time() - began)
    return found


def _full(nodes: int, waiting: int) -> Cases:
    full = scenes.full_cluster(nodes, waiting)
    some = scenes.running_gang(0).done()
    stranger = PodSeen(guest("stranger", scenes.name_of(0), 0.01, 0.01))
    ended = [PodSeen(replace(pod, phase=pod.phase.SUCCEEDED, version=9)) for pod in full.pods_of(some.uid)]
    cases: Cases = {
        "step, another's pod": _step(full, stranger),
        "step, time passes": _step(full, Tick()),
        "step, a job ends": _step(full, *ended, JobSeen(replace(some, finished=True, version=9))),
        "queue order": lambda: queue(full, scenes.NOW),
        "desired": lambda: desired(full, 500),
    }
    cases |= _heavy(POLICY, full, "", arrival=90) | _heavy(Drs(), full, ", drs", arrival=90)
    # The job has waited long enough to be urgent under DRAGON.
    cases |= _heavy(Dragon(), full, ", dragon", arrival=-2000)
    if waiting:
        last = scenes.waiting_gang(waiting - 1).done()
        cases["step, a waiting pod again"] = _step(full, PodSeen(replace(members(last)[0], refused=True, version=9)))
        # a copy of the snapshot each time, because what `explain` caches about one snapshot is of no use for the next
        cases["explain"] = lambda: explain(replace(full), last.uid, POLICY, scenes.NOW)
    return cases


def _heavy(policy: Policy, full: Snapshot, which: str, *, arrival: float) -> Cases:
    """Return functions to time, by name: each makes the step in which a heavy job arrives, decided by ``policy``.

    The functions named ``unprepared`` use a service that has just started; in the others it has had time to compute
    what running gangs would give. ``which``: a text that is added to each name.
    """
    quiet = step(scenes.after_start(full), [Tick()], policy, scenes.NOW)[0]
    policy.prepare(quiet, scenes.NOW)
    quiet = scenes.after_a_while(quiet, policy)
    policy.prepare(quiet, scenes.NOW)
    fresh = scenes.after_start(full)
    cases: Cases = {}
    for what, workers in (("heavy job", 3), ("heavy wide job", 40)):
        events = _arrival(job("heavy").ps(1).workers(workers).with_(utility=1e6).arrived(arrival))
        cases[f"step, {what}{which}"] = _step(quiet, *events, policy=policy)
        cases[f"step, {what}{which}, unprepared"] = _step(fresh, *events, policy=policy)
    return cases


def _empty(nodes: int) -> Cases:
    planned = scenes.planned_cluster(nodes, 200)
    room, small, wide = Room.of(planned), job("small").ps(1).workers(4).done(), _wide("wide").done()
    held = next(planned.pods_of("job-plan-7"))
    where = planned.gang("job-plan-7").nodes
    assert held.slot is not None
    return {
        "place, one node": lambda: place(room, ask_of(planned, small, 4)),
        "place, wide": lambda: place(room, ask_of(planned, wide, 40)),
        "step, a bind is held, 200 plans": _step(planned, BindHeld(held.uid, where[held.slot])),
        "desired, 200 plans": lambda: desired(planned, 500),
    }


def _wide(name: str) -> JobBuilder:
    return job(name).ps(1).workers(40).arrived(90)


def _arrival(made: JobBuilder) -> list[Event]:
    return [JobSeen(made.done()), *(PodSeen(pod) for pod in members(made.done()))]


def _step(snapshot: Snapshot, *events: Event, policy: Policy = POLICY) -> Callable[[], object]:
    return lambda: step(snapshot, events, policy, scenes.NOW)


def main() -> None:
    made = command.parser("decisions", __doc__, (100, 1000, 5000), 3)
    made.add_argument("--waiting", type=int, nargs="+", default=[0, 50, 500], help="numbers of waiting gangs")
    servers = "OASiS's servers for workers, and as many for ps; 0: no run of OASiS"
    made.add_argument("--servers", type=int, default=100, help=servers)
    command.run(made, measure)


if __name__ == "__main__":
    main()
