"""REST under /v1 for people, the CLI and the controller: reads of the current snapshot, and one long poll.

Nothing here changes state or calls the API server. A wrong request gets a problem that names the field, its value and
what is allowed. A client that already has the current revision gets a 304.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Protocol
from zlib import crc32

from fastapi import Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel

from extender.access.guard import may_not
from extender.access.redaction import Redaction
from extender.access.visibility import Caller, caller_of
from extender.comparison.comparisons import ComparisonError, Comparisons, UnknownPolicyError
from extender.config.settings import Settings
from extender.http.headers import CONTROLLER
from extender.observe.health import Heartbeat, Readiness, gated_pods
from extender.present.clusterviews import nodes_view, plans_view
from extender.present.decisionviews import decisions_view
from extender.present.explainview import explain_view, explanation
from extender.present.jobviews import invalid_jobs, job_detail, jobs_view, queue_view, unplaced_members
from extender.present.names import job_named
from extender.present.orders import desired_view
from extender.present.views.cluster import NodesView, PlansView
from extender.present.views.comparison import ComparisonView
from extender.present.views.decisions import DecisionsView
from extender.present.views.explain import ExplainView
from extender.present.views.jobs import JobDetail, JobsView, QueueView
from extender.present.views.orders import DesiredView
from extender.present.views.whatif import WhatIfView
from extender.routes.problems import Paged, ProblemError, list_page, wrong
from extender.routes.restparameters import (
    Client,
    ComparisonParameters,
    DecisionsParameters,
    DesiredParameters,
    ExplainParameters,
    LastEvent,
    Name,
    Namespace,
    NoParameters,
    QueueParameters,
)
from extender.routes.stream import MOST_STREAMS, Streams
from extender.routes.whatifquestion import WhatIf, answer
from extender.state.ledger import Ledger
from policy.answers.explain import held_room
from policy.answers.explanation import Start
from policy.answers.foresee import foresee
from policy.cluster.job import Job
from policy.cluster.snapshot import Snapshot
from policy.cluster.words import listed
from policy.desired import desired
from policy.systems.base import Policy

Asker = Annotated[Caller, Depends(caller_of)]
FOLLOWS: Final = "leading: this replica does not lead and decides nothing; ask the pod that the Lease names"


class HealthSource(Protocol):
    """The type of objects that know the results of the service's health checks, and when the controller last sent a
    request (its heartbeat).
    """

    @property
    def controller(self) -> Heartbeat | None:
        """Return the heartbeat that each request of the controller renews; None: no controller is expected."""

    def readiness(self) -> Readiness:
        """Return the results of the health checks that ``/readyz`` shows."""


class Rest:
    """The handlers of REST's routes. Each reads the snapshot once, so that its answer is consistent."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Callable[[], Settings],
        vitals: HealthSource,
        comparisons: Comparisons | None = None,
    ) -> None:
        """Choose a random name for this process; by it clients notice a restart, after which numbers begin at 1 again.

        settings: returns the current settings.
        """
        self._comparisons = comparisons or Comparisons(ledger, settings)
        self.instance = secrets.token_hex(8)
        self._ledger = ledger
        self._settings = settings
        self._vitals = vitals
        self._desired: DesiredView | None = None
        # _one_at_a_time is held while an answer that takes long is computed, and _turn while an answer is made by
        # `_on_thread`.
        self._one_at_a_time, self._turn = asyncio.Lock(), asyncio.Lock()
        self._known_starts: tuple[int, Mapping[str, Start]] | None = None
        self.streams = Streams(ledger, self.instance)

    def revision(self) -> str:
        """Return a text that changes with every step of the ledger and with the warnings."""
        return f"{self.instance}.{self._ledger.snapshot.generation}.{crc32(repr(self._warnings()).encode()):x}"

    async def _on_thread(self, make: Callable[[], BaseModel]) -> Response:
        """Call ``make`` and return its answer as JSON.

        Both are done on a thread, so that the event loop can answer kube-scheduler meanwhile.
        """
        async with self._turn:
            text = await asyncio.to_thread(lambda: make().model_dump_json(by_alias=True))
        return Response(text, media_type="application/json")

    async def jobs(self, parameters: Annotated[Paged, Query()], caller: Asker) -> Response:
        """Return every job that opted in, in order of arrival."""
        ledger, snapshot, warnings = self._ledger, self._ledger.snapshot, self._warnings_for(caller)

        def make() -> JobsView:
            found = Redaction(caller.visibility).entries(jobs_view(snapshot, ledger.policy, ledger.now()))
            page = list_page([job.uid for job in found], parameters)
            return JobsView(generation=snapshot.generation, warnings=warnings, jobs=page.of(found), **page.fields)

        return await self._on_thread(make)

    async def job(
        self, namespace: Namespace, name: Name, parameters: Annotated[NoParameters, Query()], caller: Asker
    ) -> JobDetail:
        """Return one job with its roles and members."""
        ledger = self._ledger
        found = job_detail(ledger.snapshot, self._job_named(namespace, name), ledger.policy, ledger.now())
        return Redaction(caller.visibility).view(found.model_copy(update={"warnings": self._warnings_for(caller)}))

    async def queue(self, parameters: Annotated[QueueParameters, Query()], caller: Asker) -> Response:
        """Return the waiting jobs in the policy's order, why each waits, and what blocks the queue as a whole."""
        snapshot, redaction = self._ledger.snapshot, Redaction(caller.visibility)
        asked = (snapshot, self._ledger.policy, self._ledger.now())
        starts = await self._expected_starts(*asked) if parameters.expected and snapshot.leading else {}
        warnings = self._warnings_for(caller)

        def make() -> QueueView:
            found = redaction.entries(queue_view(*asked, starts))
            page = list_page([job.uid for job in found], parameters)
            return QueueView(
                generation=snapshot.generation,
                gated_pods=gated_pods(snapshot, caller.visibility.sees),
                warnings=warnings,
                jobs=page.of(found),
                held=redaction.entries(held_room(snapshot)),
                invalid=redaction.entries(invalid_jobs(snapshot)),
                unplaced=redaction.entries(unplaced_members(snapshot)),
                **page.fields,
            )

        return await self._on_thread(make)

    async def _expected_starts(self, snapshot: Snapshot, policy: Policy, now: float) -> Mapping[str, Start]:
        """Return when each waiting job may start, by UID.

        The result needs dozens of trial decisions, so it is reused for all requests about the same snapshot.
        """
        async with self._one_at_a_time:
            if self._known_starts is None or self._known_starts[0] != snapshot.generation:
                self._known_starts = snapshot.generation, await asyncio.to_thread(foresee, snapshot, policy, now)
            return self._known_starts[1]

    async def nodes(self, parameters: Annotated[Paged, Query()], caller: Asker) -> Response:
        """Return every node with what is free on it and the members on it."""
        snapshot, redaction, warnings = self._ledger.snapshot, Redaction(caller.visibility), self._warnings_for(caller)

        def make() -> NodesView:
            found, held = redaction.entries(nodes_view(snapshot)), redaction.entries(held_room(snapshot))
            page = list_page([node.name for node in found], parameters)
            return NodesView(
                generation=snapshot.generation, warnings=warnings, nodes=page.of(found), held=held, **page.fields
            )

        return await self._on_thread(make)

    async def plans(self, parameters: Annotated[Paged, Query()], caller: Asker) -> Response:
        """Return the plans of admitted gangs."""
        snapshot, now, warnings = self._ledger.snapshot, self._ledger.now(), self._warnings_for(caller)

        def make() -> PlansView:
            found = Redaction(caller.visibility).entries(plans_view(snapshot, now))
            page = list_page([plan.uid for plan in found], parameters)
            return PlansView(generation=snapshot.generation, warnings=warnings, plans=page.of(found), **page.fields)

        return await self._on_thread(make)

    async def desired(
        self,
        parameters: Annotated[DesiredParameters, Query()],
        client: Client = "",
    ) -> DesiredView:
        """Return the desired state that the controller should bring about."""
        beating = self._vitals.controller if client == CONTROLLER else None
        if beating is not None:
            beating.beat()
        ledger = self._ledger
        # Wait only if the client has the current generation. Any other number may come from an earlier process, and
        # this process might never reach it.
        if parameters.timeout_seconds and parameters.after == ledger.snapshot.generation:
            await ledger.changed(parameters.after, parameters.timeout_seconds)
        if beating is not None:
            beating.beat()
        return self._desired_now()

    def _desired_now(self) -> DesiredView:
        snapshot = self._ledger.snapshot
        if self._desired is None or self._desired.generation != snapshot.generation:
            wanted = desired(snapshot, self._settings().nominate_above_nodes)
            self._desired = desired_view(snapshot, wanted, self._settings().gate, self.instance)
        return self._desired

    async def decisions(self, parameters: Annotated[DecisionsParameters, Query()], caller: Asker) -> Response:
        """Return the journal's entries after `since`, or else the newest ones; oldest first."""
        entries = tuple(self._ledger.journal.since())
        older = entries[: -parameters.limit]
        newest = older[-1].sequence if older else 0
        since, warnings = newest if parameters.since is None else parameters.since, self._warnings_for(caller)
        at = self._ledger.now()

        def make() -> DecisionsView:
            found = decisions_view(entries, since, parameters.limit)
            latest = found[-1].sequence if found else since
            seen = Redaction(caller.visibility).decisions(entries, found)
            return DecisionsView(instance=self.instance, at=at, warnings=warnings, latest=latest, decisions=seen)

        return await self._on_thread(make)

    async def explain(
        self, namespace: Namespace, name: Name, parameters: Annotated[ExplainParameters, Query()], caller: Asker
    ) -> Response:
        """Explain why the job waits or runs where it does, and what would help."""
        ledger, job, redaction = self._ledger, self._job_named(namespace, name), Redaction(caller.visibility)
        asked, entries = (ledger.snapshot, job, ledger.policy, ledger.now()), ledger.journal.since()
        warnings, told = self._warnings_for(caller), None
        if parameters.unblock:
            # the lock lets at most one long answer be computed at a time beside the event loop
            async with self._one_at_a_time:
                told = await asyncio.to_thread(explanation, *asked, trials=True)

        def make() -> ExplainView:
            view = explain_view(*asked, redaction.journal(entries), told)
            return redaction.view(view.model_copy(update={"warnings": warnings}))

        return await self._on_thread(make)

    async def what_if(self, question: WhatIf, caller: Asker) -> WhatIfView:
        """Return the jobs that would change if a job was added, nodes changed, or another policy decided.

        Nothing is written.
        """
        ledger, name = self._ledger, self._settings().scheduler_name
        if not ledger.snapshot.synced:
            raise ProblemError(
                503, "the ledger is still being rebuilt, so there is no answer yet; ask again in a moment"
            )
        if (namespace := question.namespace) is not None:
            caller = await caller.with_namespace(namespace)
            if not caller.visibility.sees(namespace):
                raise may_not(caller, f"namespace {namespace[:63]}")
        elif caller.visibility.sees_nothing:
            raise may_not(caller, "any namespace that has jobs now")
        async with self._one_at_a_time:
            asked = (question, ledger.snapshot, ledger.policy, name, ledger.now())
            return Redaction(caller.visibility).view(await asyncio.to_thread(answer, *asked))

    async def comparison(self, parameters: Annotated[ComparisonParameters, Query()]) -> ComparisonView:
        """Return what another policy would have decided on the recorded journal: decision by decision, and in total.

        It is computed in another process within journal.compare_seconds, and kept for later requests.
        """
        try:
            return await self._comparisons.compare(parameters.policy)
        except UnknownPolicyError as error:
            raise wrong("policy", parameters.policy, str(error)) from None
        except ComparisonError as error:
            raise ProblemError(503 if self._comparisons.records else 404, str(error)) from None

    async def stream(
        self, parameters: Annotated[NoParameters, Query()], caller: Asker, last: LastEvent = ""
    ) -> Response:
        """Send server-sent events: one for each revision of the ledger, with the decisions that led to the revision."""
        if self.streams.full:
            raise ProblemError(503, f"too many streams are open; allowed: {MOST_STREAMS} at once; try again later")
        return self.streams.answer(last, caller)

    def _job_named(self, namespace: str, name: str) -> Job:
        """Return the job of that name. Raise ProblemError if there is none."""
        if (job := job_named(self._ledger.snapshot, namespace, name)) is not None:
            return job
        here = sorted(job.name for job in self._ledger.snapshot.jobs.values() if job.namespace == namespace)
        allowed = (
            f"one of {listed(here, 20)}" if here else f"none, since no job of namespace {namespace!r} has opted in"
        )
        message = f"name: no job {namespace}/{name} is known; allowed: {allowed}"
        if not self._ledger.snapshot.synced:
            message += "; the ledger is still being rebuilt: ask again in a moment"
        raise ProblemError(404, message, "name", name, allowed)

    def _warnings_for(self, caller: Caller) -> tuple[str, ...]:
        return Redaction(caller.visibility).warnings(self._warnings())

    def _warnings(self) -> tuple[str, ...]:
        readiness = self._vitals.readiness()
        failing = [f"{check.name}: {check.detail}" for check in readiness.checks if check.fatal and not check.ok]
        gate = [f"gate: {one.text}" for one in self._ledger.snapshot.refused_writes.get("", ())]
        following = [] if self._ledger.snapshot.leading else [FOLLOWS]
        return (*failing, *gate, *following, *readiness.warnings)
