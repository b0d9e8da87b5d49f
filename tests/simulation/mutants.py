"""Seeded defects (faults put into the code on purpose), most of them from other schedulers' issue trackers.

Each is made by replacing a few functions. Its docstring names the project and the issue where the defect was found, and
is its description in docs/reliability/defects.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any, Final

from extender import app, barrier
from extender.control import calls, controller
from extender.control.callkinds import Wake
from extender.kube import jobobjects, ownerindex, reflector, templates, translate
from extender.kube.api import ClusterError, Done, Refused
from extender.kube.binding import create_binding
from extender.kube.watchbatch import WatchBatch
from extender.leading import election, lease
from extender.routes import verbs
from extender.state import ledger
from policy import desired
from policy.cluster import draft as drafts
from policy.cluster.actions import Bind
from policy.cluster.events import BindDone, BindRefused, BindUnknown, PodGone
from policy.cluster.gang import Deadline, State
from policy.cluster.job import queued, releasing
from policy.cluster.lifecycle import Awaits, Move
from policy.cluster.reasons import Reason
from policy.transitions import barrier as bars
from policy.transitions import facts, findings, settle
from policy.transitions.deadlines import expiry
from tests.simulation.othermutants import OTHER_MUTANTS
from tests.simulation.policymutants import POLICY_MUTANTS, Patch


@contextmanager
def put(owner: object, name: str, value: object) -> Iterator[None]:
    """Set the owner's attribute of that name to ``value`` for as long as the context lasts."""
    before = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def switched_on(name: str) -> Iterator[None]:
    """Apply the defect of that name for as long as the context lasts."""
    with ExitStack() as stack:
        for owner, attribute, value in MUTANTS[name]():
            stack.enter_context(put(owner, attribute, value))
        yield


def rollback_on_ambiguous_bind() -> list[Patch]:
    """HAMi #2645: a bind call whose answer was lost counts as refused."""

    def post(self: ledger.Ledger, *events: Any) -> None:
        changed = [BindRefused(e.uid, "lost") if isinstance(e, BindUnknown) else e for e in events]
        _POST(self, *changed)

    return [(ledger.Ledger, "post", post)]


_POST = ledger.Ledger.post


def leaked_reservation() -> list[Patch]:
    """HAMi #2308: the reservation of a failed binding is never released."""

    def landed(draft: drafts.Draft, uid: str) -> None:
        pod = draft.now.pods.get(uid)
        if pod is not None and pod.node:
            _LANDED(draft, uid)

    return [(bars, "_landed", landed), (facts, "land", lambda draft, gang, uid: gang)]


_LANDED = bars._landed


def partial_permit() -> list[Patch]:
    """Coscheduling #930: a gang is bound as soon as its first members have arrived."""

    def complete(job: Any, slots: Any, workers: int, servers: int | None = None) -> bool:
        return bool(slots)

    return [(bars, "complete", complete)]


def plan_of_a_hopeless_gang_kept() -> list[Patch]:
    """Coscheduling #713: a plan whose members do not arrive keeps its reservation for ever."""
    return [
        (expiry, "_end_deadline", lambda draft, gang, over, now, *, gives_back: []),
        (expiry, "_end_window", lambda draft, gang, now: []),
    ]


def hold_and_wait() -> list[Patch]:
    """Coscheduling #117, Koordinator #872: a released gang keeps the members that are bound."""

    def suspensions(snapshot: Any, job: Any, gang: Any) -> Any:
        return (order for order in _SUSPENSIONS(snapshot, job, gang) if not order.suspend)

    return [(desired, "_releases", lambda snapshot, job, gang: ()), (desired, "_suspensions", suspensions)]


_SUSPENSIONS = desired._suspensions


def stale_spec_while_scaling() -> list[Patch]:
    """Volcano #6010: a resize is sent without the resource version on which it was decided."""

    async def set_replicas(api: Any, order: Any, leader: str) -> Any:
        unconditional: Any = _Unconditional(api)
        return await _SET_REPLICAS(unconditional, order, leader)

    return [(calls, "_set_replicas", set_replicas)]


_SET_REPLICAS = calls._set_replicas


class _Unconditional:
    def __init__(self, api: Any) -> None:
        self._api = api

    async def patch(self, ref: Any, patch: Any, *, subresource: str = "", **_: Any) -> Any:
        return await self._api.patch(ref, patch, subresource=subresource)


def stale_decision_lands() -> list[Patch]:
    """Volcano #6010: an outdated resize is sent with the newest resource version, so that it is accepted."""

    async def set_replicas(api: Any, order: Any, leader: str) -> Any:
        newest: Any = _Newest(api)
        return await _SET_REPLICAS(newest, order, leader)

    return [(calls, "_set_replicas", set_replicas)]


class _Newest:
    def __init__(self, api: Any) -> None:
        self._api = api

    async def patch(self, ref: Any, patch: Any, *, resource_version: str = "", **others: Any) -> Any:
        with suppress(ClusterError):  # A read that fails is not part of the defect.
            if (found := await self._api.get(ref)) is not None:
                resource_version = found["metadata"]["resourceVersion"]
        return await self._api.patch(ref, patch, resource_version=resource_version, **others)


def repaired_gang_starves() -> list[Patch]:
    """Volcano #5805: a gang that has lost members is not considered again."""
    from policy import step
    from policy.systems.elastic import ElasticCycle

    blind = {(State.RUNNING, found): settle.PLAN for found in set(findings.Finding) - _NOT_PODS}
    return [(step, "repair", lambda draft, now, *, gives_back: []), (ElasticCycle, "mend", lambda self, offers: None),
            (settle, "FOLLOWS", {**settle.FOLLOWS, **blind})]  # fmt: skip


_NOT_PODS = {findings.Finding.FINISHED, findings.Finding.WITHDRAWN}


def finished_jobs_admitted_again() -> list[Patch]:
    """Kueue #1654: the translator does not read whether a job has finished."""

    def read_job(*given: Any) -> Any:
        job = _READ_JOB(*given)
        return None if job is None else replace(job, finished=False)

    return [(translate, "read_job", read_job)]


_READ_JOB = jobobjects.read_job


def usage_not_counted_after_restart() -> list[Patch]:
    """Kueue PR 5334: pods that were bound before the process started are not charged."""

    def deliver(self: app.Live, batch: WatchBatch) -> None:
        if batch.kind == "page" and str(batch.resource) == "pods":
            waiting = [e for e in batch.events if not e["object"].get("spec", {}).get("nodeName")]
            batch = replace(batch, events=waiting)
        _DELIVER(self, batch)

    return [(app.Live, "deliver", deliver)]


_DELIVER = app.Live.deliver


def failing_bind_wins_each_cycle() -> list[Patch]:
    """KAI #2075: a refused bind call is repeated for ever, and the window of its gang never ends."""

    async def bind(self: barrier.Barrier, effect: Bind) -> None:
        outcome = await create_binding(self._api, effect, self._notes(effect))
        if isinstance(outcome, Done):
            self._ledger.post(BindDone(effect.uid, effect.node))
            self._answer(effect.uid, "")
        # The defect sends a refused bind call again at once, for ever.
        elif isinstance(outcome, Refused) and not self._closed:
            await self._ledger.clock.sleep(0.05)
            await bind(self, effect)

    return [(barrier.Barrier, "_bind", bind)]


def cleanup_on_stale_cache() -> list[Patch]:
    """KAI PR 1387: objects that a list lacks are deleted, however old the list is."""

    def unlisted(self: app.Live) -> list[Any]:
        return [PodGone(uid) for uid in self.ledger.snapshot.pods if uid not in self.ledger._listed]

    return [(app.Live, "_unlisted", unlisted)]


def unlisted_pod_stays_a_member() -> list[Patch]:
    """Once in Kohort: a pod that only filter has shown, and that the next list lacks, stays in its gang."""

    def unlisted(self: app.Live) -> list[Any]:
        return [PodGone(uid) for uid, pod in self.ledger.snapshot.pods.items() if self.ledger.lacks(uid, pod.version)]

    return [(app.Live, "_unlisted", unlisted)]


def pods_beyond_the_minimum_go_first() -> list[Patch]:
    """Once in Kohort: a pod group's pods beyond its minimum are bound although its minimum does not run."""
    return [(ownerindex, "waiting_slots", lambda owned: {})]


def success_after_failure() -> list[Patch]:
    """KAI PR 2155: the bind call of a failed binding is answered with success."""

    def answer(self: barrier.Barrier, uid: str, text: str) -> None:
        failed = text.startswith(Reason.BIND_FAILED.text) or text == barrier.UNKNOWN_OUTCOME
        _ANSWER(self, uid, "" if failed else text)

    return [(barrier.Barrier, "_answer", answer)]


_ANSWER = barrier.Barrier._answer


def key_is_the_name() -> list[Patch]:
    """Sieve, stale state: the deletion of a pod counts as that of its successor, which has the same name."""

    def page(self: reflector.Reflector, items: Any, listed: Any) -> Iterator[Any]:
        return (event for event in _PAGE(self, items, listed) if event["type"] != "DELETED")

    def lose(draft: drafts.Draft, uid: str, now: float) -> Any:
        pod = draft.now.pods.get(uid)
        same = [p.uid for p in draft.now.pods.values() if pod and (p.namespace, p.name) == (pod.namespace, pod.name)]
        return [effect for one in same or [uid] for effect in _LOSE_POD(draft, one, now)]

    return [(reflector.Reflector, "_page", page), (facts, "lose_pod", lose)]


_PAGE = reflector.Reflector._page
_LOSE_POD = facts.lose_pod


def wall_clock_in_a_timeout() -> list[Patch]:
    """Deadlines are measured on the wall clock, which can be set to another time."""
    return [(ledger.Ledger, "now", lambda self: self.clock.now())]


def swallowed_exception() -> list[Patch]:
    """An exception that is swallowed: events that the ledger cannot apply at once are lost."""

    def post(self: ledger.Ledger, *events: Any) -> None:
        if self._timer is None:
            _POST(self, *events)

    return [(ledger.Ledger, "post", post)]


def error_that_a_retry_heals() -> list[Patch]:
    """A verb fails now and then, and succeeds when kube-scheduler asks again."""
    calls = count(1)

    async def fails(self: verbs.Verbs, request: Any) -> Any:
        if next(calls) % 50 == 0:
            raise RuntimeError("seeded")
        return await _FILTER(self, request)

    return [(verbs.Verbs, "_filter", fails)]


_FILTER = verbs.Verbs._filter


def no_wake_up() -> list[Patch]:
    """When there is room, kube-scheduler is not told to try the refused members again."""
    return [(controller, "calls", lambda desired: (c for c in calls.calls(desired) if not isinstance(c, Wake)))]


def force_bind() -> list[Patch]:
    """HiveD: when the window ends, the members that have arrived are bound without the others."""

    def end(draft: drafts.Draft, gang: Any, now: float) -> Any:
        job = draft.now.jobs.get(gang.job_uid)
        if gang.state is State.PLANNED and job is not None and queued(job):
            return bars.send_held(draft, gang, Move.COMMIT, deadline=Deadline(Awaits.BINDINGS, now + 30.0))
        return _END_WINDOW(draft, gang, now)

    return [(expiry, "_end_window", end)]


_END_WINDOW = expiry._end_window


def bind_without_plan() -> list[Patch]:
    """HAMi #3030: every bind call is carried out, whether or not there is a plan."""

    async def hold(self: barrier.Barrier, uid: str, node: str, gone: Any) -> str:
        asyncio.ensure_future(gone).cancel()
        pod = self._ledger.snapshot.pods[uid]
        outcome = await self._api.bind(pod.namespace, pod.name, uid, node, {"kohort.dev/plan": "none"})
        return "" if isinstance(outcome, Done) else "no"

    return [(barrier.Barrier, "hold", hold)]


def the_asked_node_is_bound() -> list[Patch]:
    """A member is bound to the node that kube-scheduler names, although its plan has changed since filter."""

    async def hold(self: barrier.Barrier, uid: str, node: str, leaving: Any) -> str:
        vars(self).setdefault("asked", {})[uid] = node
        return await _HOLD(self, uid, node, leaving)

    async def bind(self: barrier.Barrier, effect: Bind) -> None:
        asked = vars(self).get("asked", {})
        await _BIND(self, replace(effect, node=asked.get(effect.uid, effect.node)))

    return [(barrier.Barrier, "_hold", hold), (barrier.Barrier, "_bind", bind),
            (bars, "_move_member", lambda draft, gang, pod, slot, node: gang)]  # fmt: skip


_HOLD = barrier.Barrier._hold
_BIND = barrier.Barrier._bind


def released_by_deletion() -> list[Patch]:
    """A gang is released by deleting its members, for which the training operator fails the job."""

    def ours(job: Any, gang: Any) -> bool:
        return bool(queued(job))

    return [(desired, "_suspensions", lambda snapshot, job, gang: ()), (desired, "_ours_to_delete", ours)]


def goes_on_too_early() -> list[Patch]:
    """A released job is resumed while its members still terminate, which the operator counts as failures."""

    def suspensions(snapshot: Any, job: Any, gang: Any) -> Iterator[Any]:
        if releasing(job) and any(pod.terminating for pod in snapshot.every_pod_of(job.uid)):
            yield desired._suspend_order(job, suspend=False)
        yield from _SUSPENSIONS(snapshot, job, gang)

    return [(desired, "_suspensions", suspensions)]


_SUSPENSIONS = desired._suspensions


def users_suspension_undone() -> list[Patch]:
    """Every suspended job counts as suspended by Kohort, and is resumed."""

    def read(item: Any, kind: Any) -> Any:
        job = _BARE_JOB(item, kind)
        return replace(job, released=job.suspended or job.released, suspended=False)

    return [(jobobjects, "_bare_job", read)]


_BARE_JOB = jobobjects._bare_job


def old_leader_writes() -> list[Patch]:
    """Known of etcd 3.4.3 (Jepsen): a former leader acts as the leader until it reads that it is not."""
    return [(lease.Lease, "leading", lambda self: self._always or self._ours)]


def renewal_dated_by_its_reading() -> list[Patch]:
    """Once in Kohort: a renewal of the Lease counts from when it is read, not from when it was made."""

    def note(self: lease.Lease, spec: Any, asked: float) -> None:
        self._looked = asked
        _NOTE(self, spec, asked)

    return [(lease.Lease, "_note", note)]


_NOTE = lease.Lease._note


def lease_taken_too_early() -> list[Patch]:
    """Kohort's own election takes a Lease over before it has expired."""
    return [(election, "DURATION_SECONDS", 6)]


def lease_written_blindly() -> list[Patch]:
    """Kohort's own election writes the Lease without a precondition."""

    async def write(self: election.Election, found: Any, spec: Any) -> bool:
        return isinstance(await self._api.patch(self._ref, {"spec": spec}), Done)

    return [(election.Election, "_write", write)]


def binds_without_asking_who_leads() -> list[Patch]:
    """After a pause the barrier binds before the Lease has been read again."""

    def make(self: barrier.Barrier, *given: Any, **_: Any) -> None:
        _BARRIER(self, *given[:5])

    return [(barrier.Barrier, "__init__", make)]


_BARRIER = barrier.Barrier.__init__


def follower_decides() -> list[Patch]:
    """A replica that does not lead admits and resizes jobs too."""
    return [(facts, "lead", lambda draft, leading, now: []), (lease.Lease, "leading", lambda self: True)]


def stale_deletion_costs() -> list[Patch]:
    """Once in Kohort: the number and the deletion cost of a Deployment's pod are never updated."""
    return [(desired, "_misnumbered", lambda snapshot, job: iter(()))]


def users_stop_undone() -> list[Patch]:
    """A StatefulSet or Deployment that its user has scaled to 0 counts as one that has lost its workers."""

    def read(spec: Any, kind: Any) -> bool:
        return bool(kind.suspends and _IS_SUSPENDED(spec, kind))

    def count(value: Any, field: str, default: int) -> int:
        return max(1, _COUNT(value, field, default)) if field == "spec.replicas" else _COUNT(value, field, default)

    return [(jobobjects, "_is_suspended", read), (templates, "_count", count)]


def completed_indices_not_read() -> list[Patch]:
    """Indices that an Indexed Job has completed are waited for once their pods are gone."""
    return [(jobobjects, "_ended_slots", lambda status: ())]


_IS_SUSPENDED = jobobjects._is_suspended
_COUNT = templates._count


MUTANTS: Final[dict[str, Callable[[], list[Patch]]]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        rollback_on_ambiguous_bind, leaked_reservation, bind_without_plan, partial_permit,
        plan_of_a_hopeless_gang_kept, hold_and_wait, stale_spec_while_scaling, stale_decision_lands,
        repaired_gang_starves,
        finished_jobs_admitted_again, usage_not_counted_after_restart, failing_bind_wins_each_cycle,
        cleanup_on_stale_cache, unlisted_pod_stays_a_member,
        pods_beyond_the_minimum_go_first, success_after_failure, key_is_the_name,
        wall_clock_in_a_timeout, force_bind,
        swallowed_exception, error_that_a_retry_heals, no_wake_up, the_asked_node_is_bound,
        released_by_deletion, goes_on_too_early,
        users_suspension_undone, old_leader_writes, renewal_dated_by_its_reading,
        lease_taken_too_early, lease_written_blindly, binds_without_asking_who_leads, follower_decides,
        stale_deletion_costs, users_stop_undone, completed_indices_not_read,
        *POLICY_MUTANTS, *OTHER_MUTANTS,
    )
}  # fmt: skip
