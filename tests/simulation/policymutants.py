"""Seeded defects (faults put into the code on purpose) in what only some policies do: memory, moves, pauses,
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from extender.control import calls
from extender.kube import jobobjects
from extender.kube.jobkinds import TFJOB
from extender.kube.reportbody import ReportBody
from extender.routes import progress
from policy import desired
from policy.cluster.actions import Resize
from policy.cluster.orders import NoteOrder, ReplicaOrder
from policy.systems import drs, kod2, specon
from policy.systems.growth import Progress, read_progress
from policy.systems.oasis import execute, plans
from policy.systems.oasis import policy as oasis
from policy.transitions import carry

Patch = tuple[object, str, object]


def memory_forgotten_at_a_restart() -> list[Patch]:
    """Like Kueue #1654: OASiS's final decisions on a job are made again by the next process."""
    return [(oasis.Oasis, "recalled", _nothing)]


def _nothing(*_: Any) -> dict[str, object]:
    return {}


def growth_forgotten_at_a_restart() -> list[Patch]:
    """Like Kueue #1654: the next process forgets a job's progress under SpeCon, so it may move the job again."""
    return [(specon.SpeCon, "recalled", _nothing)]


def move_forgotten_at_a_restart() -> list[Patch]:
    """The next process knows a job's progress, but not that the job has had its only move."""

    def read(written: object) -> Progress | None:
        told = _READ(written)
        return None if told is None else replace(told, moved=False, balanced=False, restart=None)

    return [(specon, "read_progress", read)]


_READ = read_progress


def moved_against_its_users_word() -> list[Patch]:
    """The user's word that a job may not be moved is not read, so the job is moved."""
    return [(jobobjects, "_boolean_of", lambda notes, name: True)]


def reports_for_anybody() -> list[Patch]:
    """Like KAI CVE-2026-24176: the path names the report's job, and the token is not compared with it."""

    def job(self: progress.Progress, pod: Any, path: Any) -> Any:
        known = self._ledger.snapshot.jobs
        named = (
            one for one in known.values() if path and (one.namespace, one.name) == (path["namespace"], path["name"])
        )
        return next(named, None) or _JOB(self, pod, {})

    return [(progress.Progress, "_job", job)]


_JOB = progress.Progress._job


def absurd_reports_taken() -> list[Patch]:
    """A report whose body is invalid counts as progress."""
    return [(progress, "read_report_body", lambda body: ReportBody(metric=0.0, step=1, steps=1))]


def one_worker_too_few() -> list[Patch]:
    """A shrink takes one worker more than was decided (Acto: errors are found at the bounds)."""

    def resize(draft: Any, action: Resize, now: float) -> None:
        fewer = action.workers < draft.gang(action.job_uid).workers
        _RESIZE(draft, replace(action, workers=action.workers - 1) if fewer else action, now)

    return [(carry, "_resize", resize)]


_RESIZE = carry._resize


def no_cool_down() -> list[Patch]:
    """Rule S3: a job grows as soon as there is room, however recently it was shrunk."""

    def rested(self: Any, job: Any) -> bool:
        return bool(self.may_grow(job))

    return [(kod2.Kod2Cycle, "_rested", rested), (drs.DrsCycle, "_rested", rested)]


def ps_shrunk_with_the_workers() -> list[Patch]:
    """Rule S4: a shrink takes a ps too."""

    class WithPs:
        def __init__(self, api: Any) -> None:
            self._api = api

        async def patch(self, ref: Any, patch: Any, **more: Any) -> Any:
            if TFJOB.replicas_at not in patch["spec"]:
                return await self._api.patch(ref, patch, **more)
            roles = {**patch["spec"][TFJOB.replicas_at], "PS": {"replicas": 0}}
            return await self._api.patch(ref, {**patch, "spec": {TFJOB.replicas_at: roles}}, **more)

    async def set_replicas(api: Any, order: ReplicaOrder, leader: str) -> Any:
        api_of: Any = WithPs(api)
        return await _SET_REPLICAS(api_of, order, leader)

    return [(calls, "_set_replicas", set_replicas)]


_SET_REPLICAS = calls._set_replicas


def pause_without_an_end() -> list[Patch]:
    """A job that was suspended to make room is never resumed."""

    def suspensions(snapshot: Any, job: Any, gang: Any) -> Iterator[Any]:
        yield from (order for order in _SUSPENSIONS(snapshot, job, gang) if order.suspend)

    return [(desired, "_suspensions", suspensions)]


_SUSPENSIONS = desired._suspensions


def plans_outlive_their_bounds() -> list[Patch]:
    """Once in Kohort: OASiS keeps a plan outside the bounds that the job's user has set since."""
    return [(plans.Plans, "obey_edits", lambda self: None), (execute, "within", lambda job, shift: True)]


def memory_without_a_version() -> list[Patch]:
    """An outdated write of a job's memory replaces a newer one."""

    class AnyVersion:
        def __init__(self, api: Any) -> None:
            self._api = api

        async def patch(self, ref: Any, patch: Any, *, uid: str, **_: Any) -> Any:
            return await self._api.patch(ref, patch, uid=uid)

    async def note(api: Any, order: NoteOrder, leader: str) -> Any:
        api_of: Any = AnyVersion(api)
        return await _NOTE(api_of, order, leader)

    return [(calls, "_note", note)]


_NOTE = calls._note

POLICY_MUTANTS: Final[tuple[Callable[[], list[Patch]], ...]] = (
    memory_forgotten_at_a_restart, growth_forgotten_at_a_restart, move_forgotten_at_a_restart,
    moved_against_its_users_word, reports_for_anybody, absurd_reports_taken,
    one_worker_too_few, no_cool_down, ps_shrunk_with_the_workers, pause_without_an_end, plans_outlive_their_bounds,
    memory_without_a_version,
)  # fmt: skip
