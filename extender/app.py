"""Builds the service from its parts and runs them: watches, ledger, barrier, verbs, REST, health.

At the start the service listens, lists all objects, and only then decides (``Synced``). When it stops, the listeners
end first.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette

from extender.access.guard import Access, Guard
from extender.access.reviews import Reviewer, Rights, Tokens
from extender.barrier import Barrier
from extender.clock import Clock
from extender.comparison.comparisons import Comparisons
from extender.config.reload import Reload
from extender.config.settings import Settings
from extender.http.asgi import App
from extender.http.limits import BindConnections, Limits, limits_of, people_limits, probe_limits, report_limits
from extender.http.server import Endpoint
from extender.http.server import serve as serve_endpoints
from extender.http.servertls import RotatingContext, only_peers
from extender.kube.api import NODES, PODS, QUOTAS, Api, Resource
from extender.kube.client import KubeApi
from extender.kube.connection.kubectloptions import KubectlOptions
from extender.kube.connection.resolve import resolve
from extender.kube.fields import digits
from extender.kube.jobkinds import KINDS
from extender.kube.podgroupkinds import GROUPS
from extender.kube.reflector import Reflector
from extender.kube.translate import Translator
from extender.kube.usage import UsagePoll
from extender.kube.watchbatch import WatchBatch
from extender.kubescheduler.wire import VERBS_PATH
from extender.leading.election import lease_of
from extender.leading.leaderterm import LeaderTerm
from extender.leading.lease import EVERYBODY
from extender.observe import metrics
from extender.page.loadhistory import History
from extender.page.routes import Page
from extender.routes import refused, rest, table
from extender.routes.problems import with_problems
from extender.routes.progress import Progress
from extender.routes.verbs import Verbs, VerbsFirst, too_long
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from extender.state.rules import policy_of, recorder_of, rules_of
from policy.cluster.events import Event, Synced

NEEDED: Final = (NODES, PODS)
"""The resources without which nothing can be decided: the service waits until it can read them. A kind of job that may
not be read is reported, and its jobs are left out.
"""


def resources() -> Iterable[Resource]:
    """Return the resources that are watched: nodes, pods, every kind of job and of pod group, and ResourceQuotas.

    All pods are watched, because foreign pods take room too.
    """
    return (*NEEDED, *(kind.resource for kind in KINDS.values()), *(group.resource for group in GROUPS), QUOTAS)


class Live:
    """The running service for one API server: it builds the parts and connects them."""

    def __init__(self, settings: Settings, api: Api, clock: Clock, chance: random.Random) -> None:
        self.settings = settings
        self.clock = clock
        self.metrics = metrics.Metrics()
        policy, rules = policy_of(settings), rules_of(settings)
        self.recorder = recorder_of(settings, policy, rules)
        record = self.recorder.write if self.recorder else None
        self.ledger = Ledger(policy, rules, clock, Journal(), settings.coalesce_seconds, record)
        self.ledger.record_with(self.metrics.observe_step)
        places = BindConnections(limits_of(settings))
        self.lease = lease_of(api, settings.lease, clock, chance)
        self.barrier = Barrier(
            self.ledger,
            api,
            places,
            self.metrics.observe_binding,
            self.metrics.observe_hold,
            self.lease.leading,
            self.lease.name,
        )
        self.translator = Translator(settings.scheduler_name)
        self.reflectors = [Reflector(api, one, clock, chance, optional=one not in NEEDED) for one in resources()]
        job_kinds = {kind.resource for kind in KINDS.values()}
        (pods,) = (one for one in self.reflectors if one.resource == PODS)
        jobs = [one for one in self.reflectors if one.resource in job_kinds]
        self.term = LeaderTerm(self.ledger, pods, jobs, elected=settings.lease.identity != EVERYBODY)
        comparisons = Comparisons(self.ledger, lambda: self.settings)
        self.questions = rest.Rest(self.ledger, lambda: self.settings, self.metrics, comparisons)
        history = History(self.ledger, lambda policy, *asked: policy.base.prices(*asked))
        self.page = Page(self.ledger, self.metrics, history, comparisons)
        self.metrics.watch(self.ledger, self.reflectors, self.barrier, self.lease, settings.lease.elect)
        self.verbs = Verbs(
            self.ledger,
            self.barrier,
            api,
            self.translator,
            settings.scheduler_name,
            self.metrics.observe_verb,
            self.lease.on_scheduler_call,
            elects=settings.lease.elect,
        )

    @property
    def synced(self) -> bool:
        """Tell whether each watched resource's first list has been delivered."""
        return all(reflector.synced for reflector in self.reflectors)

    def deliver(self, batch: WatchBatch) -> None:
        """Pass a reflector's batch to the ledger.

        The ledger applies the pages of a list at the list's end, and the changes of a watch after a short delay. A list
        of ResourceQuotas is also applied after a short delay, because it does not show that a job or pod is gone.
        """
        events = [e for change in batch.events for e in self.translator.events(batch.resource, change)]
        if batch.kind == "page":
            self.ledger.queue(*events)
        elif batch.kind == "end" and batch.resource != QUOTAS:
            if batch.resource == PODS:
                self.ledger.listed(batch.listed, digits(batch.resource_version))
                events += self._unlisted()
            self.ledger.step(*events)
            self.term.read()
        else:
            self.ledger.post(*events)
        if self.synced and not self.ledger.snapshot.synced:
            self.ledger.step(Synced())

    def _unlisted(self) -> list[Event]:
        """Return the events for pods that the ledger knows and the last list of pods does not have.

        Such a pod was only in a filter call, and was deleted before any watch saw it. A pod that is newer than the list
        is not among them: it was created while the list was being read.
        """
        known, lacks, gone = self.ledger.snapshot.pods, self.ledger.lacks, self.translator.pod_gone
        return [e for uid, pod in known.items() if lacks(uid, pod.version) for e in gone(uid, pod.namespace)]

    def rest(self) -> FastAPI:
        """Return the app that serves REST and the page.

        FastAPI's own page of routes is switched off, because it loads scripts from other servers.
        """
        return self._rest()

    def rest_and_outcomes(self) -> FastAPI:
        """Return the app that serves REST and the page, and accepts the controller's reports of refused writes.

        The app is for the listener of ``server.host``, which only the pod's own processes should reach.
        """
        return self._rest(refused.router(self.ledger))

    def _rest(self, *more: APIRouter) -> FastAPI:
        app = FastAPI(title="Kohort", docs_url=None, redoc_url=None)
        for routes in (table.router(self.questions), *more):
            app.include_router(routes)
        app.router.routes.extend(self.page.routes())
        with_problems(app)
        return app

    def guarded(self, reviewer: Reviewer) -> Guard:
        """Return the app that serves REST and the page to callers with a token, whose rights the API server checks."""
        api, clock = self.settings.api, self.clock
        tokens = Tokens(reviewer, clock, api.audiences, api.review_seconds)
        rights = Rights(reviewer, clock, api.review_seconds)
        allowed = f"one for {' or '.join(api.audiences) or 'the API server'}"
        access = Access(tokens, rights, self._namespaces, self._decides, api.review_seconds, allowed)
        return Guard(self.rest(), access)

    def _decides(self) -> bool:
        return self.ledger.snapshot.synced and self.ledger.snapshot.leading

    def _namespaces(self) -> Iterable[str]:
        return (job.namespace for job in self.ledger.snapshot.jobs.values())

    def with_verbs(self, others: App) -> App:
        """Return an app that serves the verbs, and ``others`` at all other paths."""
        return VerbsFirst(self.verbs, VERBS_PATH, others)

    def health(self) -> Starlette:
        """Return the app that serves probes and metrics, for the listener that the kubelet and Prometheus reach."""
        return metrics.health_app(self.metrics)

    async def close_connections(self) -> None:
        """Refuse the held binds and end the streams, because a stopping listener would wait for them."""
        self.questions.streams.close()
        await self.barrier.close()

    def apply_settings(self, settings: Settings) -> None:
        """Apply the changed settings that need no restart. ``settings``: all settings that are now in force."""
        self.settings = settings
        logging.getLogger().setLevel(settings.log_level.upper())
        policy = policy_of(settings)
        if self.recorder is not None and policy != self.ledger.policy:
            self.recorder.obey(policy)
        self.ledger.obey(policy)

    async def close(self) -> None:
        """Give the Lease back, and write the rest of the journal to disk.

        The Lease is given back first, because another replica waits for it and the disk may be slow.
        """
        try:
            await self.lease.release()
        finally:
            if self.recorder is not None:
                self.recorder.close()

    async def run(self) -> None:
        """Run the reflectors, the ledger's ticks, the Lease and the page's history until cancelled.

        If one of them fails, all of them end with its error.
        """
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run(self.deliver))
            tasks.create_task(self.ledger.tick(self.settings.tick_seconds))
            tasks.create_task(self.lease.run(self.term.led))
            tasks.create_task(self.page.history.run())
            if self.ledger.snapshot.rules.commit_first:
                tasks.create_task(self.barrier.events.run())


def endpoints(live: Live, reviewer: Reviewer | None = None) -> Sequence[Endpoint]:
    """Return the listeners: for verbs and REST, for probes and metrics; where enabled, also for REST with a token and
    for training code's reports.

    With TLS the verbs have a listener of their own. ``reviewer``: asks the API server about tokens and rights; without
    it there are no listeners that need a token. Raises OSError where certificates cannot be read.
    """
    server, limits, progress = live.settings.server, limits_of(live.settings), live.settings.progress
    reports = Progress(live.ledger, reviewer, progress).app() if reviewer is not None and progress.enabled else None
    return (
        *_verbs_and_rest(live, limits),
        Endpoint(live.health(), server.health_host, server.health_port, probe_limits(limits)),
        *(_for_people(live, reviewer) if reviewer is not None else ()),
        *((Endpoint(reports, progress.host, progress.port, report_limits(limits)),) if reports is not None else ()),
    )


def _verbs_and_rest(live: Live, limits: Limits) -> Sequence[Endpoint]:
    server, tls = live.settings.server, live.settings.server.tls
    if not tls.on:
        return (Endpoint(live.with_verbs(live.rest_and_outcomes()), server.host, server.port, limits, too_long),)
    files = RotatingContext(Path(tls.certificate), Path(tls.key), Path(tls.client_ca))
    return (
        Endpoint(live.with_verbs(Starlette()), tls.host, tls.port, limits, too_long, files, only_peers(tls.peers)),
        Endpoint(live.rest_and_outcomes(), server.host, server.port, limits),
    )


def _for_people(live: Live, reviewer: Reviewer) -> Sequence[Endpoint]:
    api = live.settings.api
    if not api.enabled:
        return ()
    files = None if api.without_tls else RotatingContext(Path(api.certificate), Path(api.key))
    return (Endpoint(live.guarded(reviewer), api.host, api.port, people_limits(limits_of(live.settings)), tls=files),)


async def serve(settings: Settings, file: Path | None = None) -> None:
    """Run ``kohort serve`` until SIGTERM, and follow the settings file where there is one.

    Raises OSError where a port is taken, or the error that made a part of the service fail.
    """
    clock, chance = Clock(), random.Random()
    connection = resolve(KubectlOptions(kubeconfig=settings.kubeconfig))
    deadline = settings.barrier.api_deadline_seconds
    async with KubeApi(connection, deadline=deadline, clock=clock, chance=chance) as api:
        live = Live(settings, api, clock, chance)
        running = asyncio.create_task(live.run())
        stop = asyncio.Event()
        running.add_done_callback(lambda _: stop.set())
        pulse = asyncio.create_task(_pulse(live, api))
        reload = Reload(settings, file, clock, live.apply_settings) if file is not None else None
        live.metrics.reloads(reload)
        following = asyncio.create_task(reload.run() if reload is not None else stop.wait())
        closing = asyncio.create_task(_close_at(stop, live))
        try:
            await serve_endpoints(list(endpoints(live, api)), stop=stop)
        finally:
            stop.set()
            await closing
            running.cancel()
            pulse.cancel()
            following.cancel()
            await asyncio.gather(running, pulse, following, return_exceptions=True)
            await live.close()
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error


async def _pulse(live: Live, api: KubeApi) -> None:
    """Measure the event loop's lag, the ledger's drift and the nodes' usage until cancelled.

    An error in these measurements does not end the service.
    """
    usage = UsagePoll(api, live.clock, lambda: live.ledger.snapshot.nodes, live.ledger.post)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(usage.run(live.settings.usage.interval_seconds))
        tasks.create_task(live.metrics.pulse.beat(live.clock))
        tasks.create_task(live.metrics.pulse.count(api, lambda: live.ledger.snapshot, live.clock))


async def _close_at(stop: asyncio.Event, live: Live) -> None:
    """Close the connections for which the listeners would wait, as soon as ``stop`` is set."""
    await stop.wait()
    await live.close_connections()
