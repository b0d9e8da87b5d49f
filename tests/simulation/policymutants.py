"""Seeded defects in what only some policies do: memory, moves, pauses, reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from extender.control import calls
from extender.kube import jobs
from extender.kube.jobkinds import TFJOB
from extender.kube.progress import ReportBody
from extender.routes import progress
from policy import desired
from policy.cluster.actions import Resize
from policy.cluster.orders import NoteOrder, ReplicaOrder
from policy.systems import drs, kod2, specon
from policy.systems.growth import Progress
from policy.systems.growthtext import read_progress
from policy.systems.oasis import execute, plans
from policy.systems.oasis import policy as oasis
from policy.transitions import carry

Patch = tuple[object, str, object]


def memory_forgotten_at_a_restart() -> list[Patch]:
    """Kueue #1654, in our words: what was decided for good is decided again by the next process."""
    return [(oasis.Oasis, "recalled", _nothing)]


def _nothing(*_: Any) -> dict[str, object]:
    return {}


def growth_forgotten_at_a_restart() -> list[Patch]:
    """The same of SpeCon: a job's growth begins anew with the next process, and it may be moved once more."""
    return [(specon.SpeCon, "recalled", _nothing)]


def move_forgotten_at_a_restart() -> list[Patch]:
    """The next process knows how a job grows, and not that it has had its only move."""

    def read(written: object) -> Progress | None:
        told = _READ(written)
        return None if told is None else replace(told, moved=False, balanced=False, restart=None)

    return [(specon, "read_progress", read)]


_READ = read_progress


def moved_against_its_users_word() -> list[Patch]:
    """Whether a job may be moved is not read."""
    return [(jobs, "_boolean_of", lambda notes, name: True)]


def reports_for_anybody() -> list[Patch]:
    """KAI CVE-2026-24176, in our words: the path says whose report it is, and nobody looks whose token."""

    def job(self: progress.Progress, pod: Any, path: Any) -> Any:
        known = self._ledger.snapshot.jobs
        named = (
            one for one in known.values() if path and (one.namespace, one.name) == (path["namespace"], path["name"])
        )
        return next(named, None) or _JOB(self, pod, {})

    return [(progress.Progress, "_job", job)]


_JOB = progress.Progress._job


def absurd_reports_taken() -> list[Patch]:
    """A body that cannot be read counts as progress."""
    return [(progress, "read_report_body", lambda body: ReportBody(metric=0.0, step=1, steps=1))]


def one_worker_too_few() -> list[Patch]:
    """A shrink goes one below what was decided (Acto: bounds are the place to look)."""

    def resize(draft: Any, action: Resize, now: float) -> None:
        fewer = action.workers < draft.gang(action.job_uid).workers
        _RESIZE(draft, replace(action, workers=action.workers - 1) if fewer else action, now)

    return [(carry, "_resize", resize)]


_RESIZE = carry._resize


def no_cool_down() -> list[Patch]:
    """S3: a job is grown as soon as there is room, however lately it was shrunk."""

    def rested(self: Any, job: Any) -> bool:
        return bool(self.may_grow(job))

    return [(kod2.Kod2Cycle, "_rested", rested), (drs.DrsCycle, "_rested", rested)]


def ps_shrunk_with_the_workers() -> list[Patch]:
    """S4: a shrink takes a ps as well."""

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
    """Who was suspended to give room up is never let go on."""

    def suspensions(snapshot: Any, job: Any, gang: Any) -> Iterator[Any]:
        yield from (order for order in _SUSPENSIONS(snapshot, job, gang) if order.suspend)

    return [(desired, "_suspensions", suspensions)]


_SUSPENSIONS = desired._suspensions


def plans_outlive_their_bounds() -> list[Patch]:
    """OASiS keeps to a plan that its job's user has since forbidden. It was ours."""
    return [(plans.Plans, "obey_edits", lambda self: None), (execute, "within", lambda job, shift: True)]


def memory_without_a_version() -> list[Patch]:
    """A late writer's memory of a job replaces a newer one."""

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
