"""Exports the extender's Prometheus metrics, on a registry of its own and not on the library's global one.

Labels come from closed sets (verbs, reasons, states, resources, outcomes): never a job's or pod's name. A figure that
the current snapshot shows is computed at each scrape; a figure that a later snapshot would not show is counted when the
event happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from extender import logs
from extender.clock import Clock
from extender.kubescheduler.wire import VERBS
from extender.observe.health import Heartbeat, Readiness, WatchHealth, extender_readiness, probes
from extender.observe.jobtimes import GANG_SECONDS, JobTimes
from extender.observe.laganddrift import LagAndDrift
from extender.observe.registry import new_registry
from extender.observe.snapshotmetrics import gauge, snapshot_metrics
from extender.state.journal import cause_of, ways
from policy.cluster.actions import Admit, Effect, Released, Resize, ShrinkStalled, Stalled
from policy.cluster.events import Event
from policy.cluster.reasons import Reason
from policy.cluster.snapshot import Snapshot
from policy.systems.base import Policy

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
FAULTS: Final = ("RequestError", "InternalError")


class MeasuredLedger(Protocol):
    """The parts of the ledger that metrics read."""

    snapshot: Snapshot
    policy: Policy
    clock: Clock

    @property
    def took(self) -> float:
        """Return the seconds that the last step took."""

    def now(self) -> float:
        """Return the ledger's time in seconds since the epoch."""


class MeasuredBarrier(Protocol):
    """The part of the barrier that metrics read."""

    @property
    def held(self) -> int:
        """Return how many bind calls are held now."""


class MeasuredLease(Protocol):
    """The part of the Lease's reader that metrics read."""

    def leading(self) -> bool:
        """Tell whether this replica leads now."""


class MeasuredReload(Protocol):
    """The part of the settings file's reader (`config.reload.Reload`) that metrics read."""

    @property
    def problem(self) -> str:
        """Return which settings of the settings file are not in force, and why; empty where all are."""


class Metrics(Collector):
    """The metrics of ``kohort serve``: counters that it updates, and figures that it computes at each scrape."""

    def __init__(self) -> None:
        """Create the metrics. `watch` is called later with the parts of the service from which they are read."""
        self.registry = new_registry()
        self.controller: Heartbeat | None = None
        self._ledger: MeasuredLedger | None = None
        self._watches: Sequence[WatchHealth] = ()
        self._barrier: MeasuredBarrier | None = None
        self._lease: MeasuredLease | None = None
        self._must_lead = False
        self._reload: MeasuredReload | None = None
        # _before is the snapshot after the last step, from which the next step begins
        self._before: Snapshot | None = None
        make: Any = {"registry": self.registry}
        self._requests = Counter(
            "kohort_verb_requests", "Calls of kube-scheduler, by verb and result.", ["verb", "result"], **make
        )
        self._seconds = Histogram(
            "kohort_verb_duration_seconds", "Time to answer a call; that of bind includes the barrier.", ["verb"],
            buckets=SECONDS, **make,
        )  # fmt: skip
        self._refusals = Counter("kohort_verb_refusals", "Calls refused, by reason.", ["verb", "reason"], **make)
        self._decisions = Counter("kohort_decisions", "Effects of decisions, by action.", ["action"], **make)
        text = "Time of one step of the ledger: facts, deadlines and the policy's decision."
        self._steps = Histogram("kohort_decision_duration_seconds", text, buckets=SECONDS, **make)
        self._admissions = Counter("kohort_gangs_admitted", "Gangs given a plan.", **make)
        self._releases = Counter("kohort_gangs_released", "Plans given up, by reason.", ["reason"], **make)
        text = "Time for which a member's bind call was held."
        self._barrier_waits = Histogram("kohort_barrier_wait_seconds", text, buckets=GANG_SECONDS, **make)
        text = "Resizes decided, by direction (in takes workers, out gives workers, none moves members) and cause."
        self._resizes = Counter("kohort_resizes", text, ["direction", "cause"], **make)
        text = "Growths of running jobs whose workers did not all arrive in time, by outcome."
        self._stalled = Counter("kohort_stalled_growths", text, ["outcome"], **make)
        text = "Shrinks whose workers were not gone in time, so that the plan that waited for them was given up."
        self._stalled_shrinks = Counter("kohort_stalled_shrinks", text, **make)
        self._bindings = Counter("kohort_bindings", "Bindings sent, by outcome.", ["outcome"], **make)
        self._passage = JobTimes(self.registry)
        self.pulse = LagAndDrift(self.registry)
        self._begin()
        self.registry.register(self)

    def _begin(self) -> None:
        """Create the counters' series with value 0. If a series first appeared with the first event, Prometheus would
        not count that event in its rate.
        """
        for verb in VERBS:
            for result in ("granted", "refused", "error"):
                self._requests.labels(verb, result)
        for outcome in ("done", "refused", "unknown"):
            self._bindings.labels(outcome)
        for outcome in ("awaited", "given-back"):
            self._stalled.labels(outcome)
        self._releases.labels(Reason.BARRIER_TIMEOUT.value)

    def watch(
        self,
        ledger: MeasuredLedger,
        watches: Sequence[WatchHealth],
        barrier: MeasuredBarrier,
        lease: MeasuredLease,
        must_lead: bool = False,
    ) -> None:
        """Set the parts of the service that a scrape or a probe reads. ``must_lead``: whether a replica that does not
        lead counts as not ready.
        """
        self._ledger, self._watches, self._barrier, self._lease = ledger, watches, barrier, lease
        self._must_lead = must_lead
        self.controller = Heartbeat(ledger.clock)

    # -- The methods below count an event when it happens. ------------------------------------------

    def observe_verb(self, verb: str, seconds: float, refusal: str) -> None:
        """Count one call of kube-scheduler. ``refusal``: the code of the reason, empty if the call was granted."""
        result = "error" if refusal in FAULTS else "refused" if refusal else "granted"
        self._requests.labels(verb, result).inc()
        self._seconds.labels(verb).observe(seconds)
        if refusal:
            self._refusals.labels(verb, refusal).inc()

    def observe_binding(self, outcome: str) -> None:
        """Count one binding by its outcome: done, refused or unknown."""
        self._bindings.labels(outcome).inc()

    def observe_hold(self, seconds: float) -> None:
        """Record for how many seconds one bind call was held."""
        self._barrier_waits.observe(seconds)

    def observe_step(
        self, at: float, events: Sequence[Event], effects: Sequence[Effect], after: Snapshot, error: str = ""
    ) -> None:
        """Count what one step saw and decided. It must be called for every step (`Ledger.record_with`)."""
        if self._ledger is not None and not error:
            self._steps.observe(self._ledger.took)
        for effect, way in zip(effects, ways(effects, self._before), strict=True):
            self._decisions.labels(type(effect).__name__).inc()
            match effect:
                case Admit():
                    self._admissions.inc()
                case Resize():
                    self._resizes.labels(way or "none", cause_of(effect, way)).inc()
                case Released():
                    self._releases.labels(effect.reason.value).inc()
                case Stalled():
                    self._stalled.labels("given-back" if effect.given_back else "awaited").inc()
                case ShrinkStalled():
                    self._stalled_shrinks.inc()
                case _:
                    pass
        self._before = after
        self._passage.follow(at, events, effects, after)

    def reloads(self, reload: MeasuredReload | None) -> None:
        """Store the reader of the settings file, which tells which settings are not in force; None for no file."""
        self._reload = reload

    # -- The methods below compute metrics and checks at a scrape or probe. -------------------------

    def readiness(self) -> Readiness:
        """Return the results of the health checks that ``/readyz`` shows, from which follows whether the extender is
        ready.

        There are no results before `watch` was called.
        """
        if self._ledger is None or self.controller is None:
            return Readiness(())
        ledger = self._ledger
        return extender_readiness(
            ledger.snapshot, self._watches, self._leads(), self.controller, ledger.clock, self._must_lead,
            self._reload.problem if self._reload is not None else "", _ahead(ledger),
        )  # fmt: skip

    def _leads(self) -> bool:
        return self._lease is not None and self._lease.leading()

    def describe(self) -> Iterable[Metric]:
        """Return no metric. Without this method, the registry would collect all metrics when this collector is
        registered.
        """
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are computed from the current state at each scrape."""
        yield gauge("kohort_leader", "1 while this replica leads; exactly one replica should.", self._leads())
        yield _dropped_lines()
        if self._ledger is None:
            return
        yield from snapshot_metrics(self._ledger.snapshot, self._ledger.policy, self._ledger.now())
        yield gauge(
            "kohort_barrier_held_binds",
            "Bind calls held now, each a connection.",
            self._barrier.held if self._barrier else 0,
        )
        yield from _watch_metrics(self._watches, self._ledger.clock.monotonic())
        text = (
            "Seconds that the wall clock is ahead of the ledger's time; not 0 after the clock was set, until a restart."
        )
        yield gauge("kohort_clock_ahead_seconds", text, _ahead(self._ledger))
        if self.controller is not None:
            text = "Time since the controller last polled the extender; gated pods wait for it."
            yield gauge("kohort_controller_last_heard_seconds", text, self.controller.age)


def _ahead(ledger: MeasuredLedger) -> float:
    """Return the seconds that the wall clock is ahead of the ledger's time."""
    return ledger.clock.now() - ledger.now()


def _watch_metrics(watches: Sequence[WatchHealth], now: float) -> Iterator[Metric]:
    """Yield the metrics of the watches by resource and version. ``now``: by clock.monotonic().

    The version is a label because some resources are watched in two versions; a cluster serves only one of the two.
    """
    labels = ["resource", "version"]
    restarts = CounterMetricFamily(
        "kohort_watch_restarts", "Lists and watches that failed and were started again.", labels=labels
    )
    ages = GaugeMetricFamily(
        "kohort_watch_last_seen_seconds", "Time since the API server was last heard from.", labels=labels
    )
    text = "1 while the resource may not be read, so that jobs of that kind are not scheduled."
    forbidden = GaugeMetricFamily("kohort_watch_forbidden", text, labels=labels)
    for watch in watches:
        which = [str(watch.resource), watch.resource.version]
        forbidden.add_metric(which, watch.forbidden)
        restarts.add_metric(which, watch.restarts)
        ages.add_metric(which, now - watch.last_seen)
    yield restarts
    yield ages
    yield forbidden


def _dropped_lines() -> Metric:
    text = "Log lines dropped because their reader was too slow."
    return CounterMetricFamily("kohort_log_lines_dropped", text, value=logs.dropped())


def health_app(metrics: Metrics) -> Starlette:
    """Return the app of probes and metrics of the extender."""
    return probes(metrics.readiness, metrics.registry)
