"""Checks liveness and readiness. A check has a name, a line of text, and says whether its failure makes the process
unready.

Not ready means that this replica's answers may be wrong, because facts are missing or stale. A warning means that the
answers are right, but something else needs an administrator. A follower is ready, because a rolling update ends the old
leader only when the new pod is ready. A dead controller is only a warning: pods without a gate are still scheduled, and
an unready extender would only make that worse. The check's line counts the gated pods that wait for the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from extender.clock import Clock
from extender.kube.api import Resource
from policy.cluster.snapshot import Snapshot

# a watch that was silent for longer has stalled: a reflector lists again after 50 s of silence
STALLED_SECONDS: Final = 60.0
CLOCK_SECONDS: Final = 5.0
FOLLOWS: Final = "no: a follower, which answers but does not decide"
NO_RIGHT: Final = "jobs of these kinds are not scheduled; apply the ClusterRole of this version (manifests/base)"
# a controller polls every few seconds; one that was not heard from for longer than this counts as dead
CONTROLLER_SECONDS: Final = 10.0
# The text of a scrape is reused for this many seconds: Prometheus scrapes less often, but any client may ask at any
# rate.
KEPT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one health check. ``fatal``: whether a failure makes the process unready; otherwise a failure is a
    warning.
    """

    name: str
    ok: bool
    detail: str = ""
    fatal: bool = True

    @property
    def line(self) -> str:
        """Return the check's line in the answer of ``/readyz``: ``[+]name detail``; it begins with ``[-]`` where the
        check fails, with ``[!]`` where it warns.
        """
        mark = "+" if self.ok else "-" if self.fatal else "!"
        return f"[{mark}]{self.name} {self.detail or ('ok' if self.ok else 'failed')}"


@dataclass(frozen=True, slots=True)
class Readiness:
    """The results of all health checks of a process, from which follows whether it is ready."""

    checks: tuple[Check, ...]

    @property
    def ready(self) -> bool:
        """Tell whether no fatal check fails."""
        return all(check.ok for check in self.checks if check.fatal)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return name and detail of each check that fails without making the process unready."""
        return tuple(f"{check.name}: {check.detail}" for check in self.checks if not (check.ok or check.fatal))


class Heartbeat:
    """Remembers when another process (the peer) was last heard from."""

    def __init__(self, clock: Clock) -> None:
        """Start with a peer that was not heard from yet."""
        self._clock = clock
        self._last: float | None = None
        self._started = clock.monotonic()

    def beat(self) -> None:
        """Record that the peer is heard from now."""
        self._last = self._clock.monotonic()

    @property
    def age(self) -> float:
        """Return the seconds since the last `beat`, or since the start where there was none."""
        return self._clock.monotonic() - (self._started if self._last is None else self._last)

    @property
    def heard(self) -> bool:
        """Tell whether the peer was ever heard from."""
        return self._last is not None


class WatchHealth(Protocol):
    """The type of watches (reflectors) whose health is checked, with the attributes that the checks need."""

    @property
    def resource(self) -> Resource:
        """Return the resource that the reflector follows."""

    @property
    def synced(self) -> bool:
        """Tell whether the reflector's first list has been delivered."""

    @property
    def last_seen(self) -> float:
        """Return when the API last answered for this resource, by clock.monotonic()."""

    @property
    def restarts(self) -> int:
        """Return how many of the reflector's lists and watches have failed."""

    @property
    def forbidden(self) -> bool:
        """Tell whether the API server does not let us read the resource, so that the service goes on without it."""


def extender_readiness(
    snapshot: Snapshot,
    watches: Iterable[WatchHealth],
    leading: bool,
    controller: Heartbeat,
    clock: Clock,
    must_lead: bool = False,
    settings: str = "",
    ahead: float = 0.0,
) -> Readiness:
    """Run all health checks of the extender (``kohort serve``) and return their results.

    ``controller``: when the controller was last heard from. ``must_lead``: whether a follower counts as not ready, so
    that a Service sends it no calls. ``settings``: the text that says which settings of the settings file are not in
    force, empty if all are. ``ahead``: the seconds that the wall clock is ahead of the ledger's time.
    """
    watches = tuple(watches)
    now = clock.monotonic()
    unsynced = [str(watch.resource) for watch in watches if not watch.synced]
    forbidden = ", ".join(str(watch.resource) for watch in watches if watch.forbidden)
    stalled = [f"{watch.resource} ({now - watch.last_seen:.0f} s)" for watch in watches if _stalled(watch, now)]
    return Readiness(
        (
            Check(
                "synced",
                not unsynced,
                f"waiting for the API server's first list of {', '.join(unsynced)}" if unsynced else "",
            ),
            Check(
                "rebuilt",
                snapshot.synced,
                "" if snapshot.synced else "the ledger is not rebuilt from the API server's lists yet",
            ),
            Check(
                "watches",
                not stalled,
                f"the API server has sent nothing about {', '.join(stalled)}; it is asked again" if stalled else "",
            ),
            Check("rights", not forbidden, f"may not read {forbidden}: {NO_RIGHT}" if forbidden else "", fatal=False),
            Check(
                "leading",
                leading or not must_lead,
                "yes" if leading else "no: a follower, which answers but does not decide",
            ),
            controller_check(snapshot, controller),
            Check("settings", not settings, settings, fatal=False),
            _clock_check(ahead),
        )
    )


def _clock_check(ahead: float) -> Check:
    """Return the result of a check that fails if the wall clock was set since the start. ``ahead``: as in
    `extender_readiness`.

    The ledger's time continues from the wall clock at the start, while the creation times of jobs are the API server's.
    """
    way = "forward" if ahead > 0 else "back"
    detail = (
        f"the clock was set {way} by {abs(ahead):.0f} s since the start: waiting times are wrong by as much; restart "
        "this replica"
    )
    wrong = abs(ahead) > CLOCK_SECONDS
    return Check("clock", not wrong, detail if wrong else "", fatal=False)


def _stalled(watch: WatchHealth, now: float) -> bool:
    return watch.synced and now - watch.last_seen > STALLED_SECONDS


def controller_check(snapshot: Snapshot, controller: Heartbeat) -> Check:
    """Return the result of a check that fails if the controller has not polled in the last `CONTROLLER_SECONDS`; its
    text then says what waits for the controller.
    """
    if controller.age <= CONTROLLER_SECONDS:
        return Check("controller", True, "" if controller.heard else "not heard from yet", fatal=False)
    since = f"not heard from for {controller.age:.0f} s" if controller.heard else "never heard from"
    detail = (
        f"{since}: gated pods stay gated ({gated_pods(snapshot)} now), and no pod is woken and no job resized; see "
        "its log"
    )
    return Check("controller", False, detail, fatal=False)


def _every(_: str) -> bool:
    return True


def gated_pods(snapshot: Snapshot, seen: Callable[[str], bool] = _every) -> int:
    """Return how many pods that opted in wait behind the admission gate.

    ``seen``: tells whether the pods of a namespace are counted.
    """
    return sum(1 for pod in snapshot.pods.values() if pod.opted_in and pod.gated and seen(pod.namespace))


class Exposition:
    """Makes the text of all metrics on a thread beside the event loop, and reuses the text for all requests of the next
    `KEPT_SECONDS`.

    Because of the thread, a collector of metrics must read only values that never change in place, such as the ledger's
    snapshot.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._turn = asyncio.Lock()
        self._text = b""
        self._good_until = 0.0  # the text of the metrics is reused until this time of the event loop's clock

    async def text(self) -> bytes:
        """Return the text as it was at most `KEPT_SECONDS` ago."""
        now = asyncio.get_running_loop().time
        async with self._turn:
            if now() >= self._good_until:
                asked = now()
                self._text = await asyncio.to_thread(generate_latest, self._registry)
                self._good_until = asked + KEPT_SECONDS
            return self._text


def probes(ready: Callable[[], Readiness], registry: CollectorRegistry) -> Starlette:
    """Return the app of the health listener: /livez, /readyz, /readyz/CHECK, /metrics; ``?verbose`` shows every
    check.
    """
    exposition = Exposition(registry)

    async def livez(_: Request) -> Response:
        # Any answer shows that the event loop runs; liveness depends on nothing else.
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        found = ready()
        named = request.path_params.get("check")
        if named is not None:
            return _one(found, named)
        verbose = not found.ready or "verbose" in request.query_params
        shown = [check for check in found.checks if verbose or not check.ok]
        return _answer(found.ready, [check.line for check in shown])

    async def metrics(_: Request) -> Response:
        return Response(await exposition.text(), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/healthz", livez),  # /healthz is the former name of /livez, which some probes still use
            Route("/readyz", readyz),
            Route("/readyz/{check}", readyz),
            Route("/metrics", metrics),
        ]
    )


def _one(found: Readiness, named: str) -> Response:
    check = next((check for check in found.checks if check.name == named), None)
    if check is None:
        known = ", ".join(check.name for check in found.checks)
        return PlainTextResponse(f"no check of that name; allowed: {known}\n", 404)
    return _answer(check.ok or not check.fatal, [check.line])


def _answer(ready: bool, lines: Sequence[str]) -> Response:
    last = "ok" if ready else "not ready"
    return PlainTextResponse("\n".join([*lines, last]) + "\n", 200 if ready else 503)
