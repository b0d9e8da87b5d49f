"""Has the commands that write: to the API server, with the user's own rights, and never through the service.

Each command reads the job first and writes with the UID and resourceVersion that it read as preconditions. If the job
was changed in between, the command reads the job again and repeats the write.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli.errors import CliError
from extender.cli.options import CLUSTER, JOB, OUTPUT, Asked, JobArgument, Output, examples, shared

if TYPE_CHECKING:
    from extender.kube.api import Json, Ref
    from extender.kube.client import KubeApi
    from extender.kube.jobkinds import JobKind
    from policy.cluster.job import Job

app = typer.Typer(rich_markup_mode=None)
TRIES = 3

KindOption = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="The job's kind, where jobs of two kinds have that name.")
]
SchedulerOption = Annotated[
    str, typer.Option("--scheduler-name", metavar="NAME", help="The spec.schedulerName by which pods opt in.")
]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a command that writes: the job and the field that the command changed.

    before, after: the field's values, which are equal if nothing had to be changed. note: advice for the user.
    """

    namespace: str
    name: str
    kind: str
    field: str
    before: Any
    after: Any
    note: str = ""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job object as the API server returned it."""

    kind: JobKind
    ref: Ref
    item: Json

    @property
    def key(self) -> str:
        """Return the job's ``namespace/name``."""
        return f"{self.ref.namespace}/{self.ref.name}"


Change = tuple[WriteResult, Mapping[str, Any] | None]
"""What a command would change: the result to print, and the merge patch that makes it; the patch is None if nothing has
to be written.
"""


@app.command(
    short_help="Set the number of a job's workers.",
    epilog=examples("kohort scale team/mnist --workers 4", "kohort scale mnist -n team --workers 2 -o json"),
)
@shared(CLUSTER, OUTPUT, JOB)
def scale(
    asked: Asked,
    job: JobArgument,
    workers: Annotated[int, typer.Option("--workers", min=0, metavar="N", help="The new number of workers.")],
    kind: KindOption = None,
    scheduler_name: SchedulerOption = "kohort",
) -> None:
    """Set the number of a job's workers, within its bounds, and name the command that shows what the policy does then.

    A lower number takes effect at once and is kept for the cool-down. A higher number is set back: only the policy
    gives workers, once there is room and no other job comes first. To get more workers for good, raise
    kohort.dev/utility.
    """
    _report(asked, job, kind, lambda found: scaling(found, workers, scheduler_name))


@app.command(
    short_help="Suspend a job: its pods are deleted until it is resumed.",
    epilog=examples("kohort suspend team/mnist", "kohort resume team/mnist"),
)
@shared(CLUSTER, OUTPUT, JOB)
def suspend(asked: Asked, job: JobArgument, kind: KindOption = None) -> None:
    """Suspend a job: its operator deletes the pods, other jobs get the resources, and the job leaves the queue."""
    _report(asked, job, kind, lambda found: suspension(found, on=True))


@app.command(
    short_help="Resume a suspended job.",
    epilog=examples("kohort resume team/mnist", "kohort explain team/mnist"),
)
@shared(CLUSTER, OUTPUT, JOB)
def resume(asked: Asked, job: JobArgument, kind: KindOption = None) -> None:
    """Resume a suspended job: it queues again and keeps its first arrival time."""
    _report(asked, job, kind, lambda found: suspension(found, on=False))


# -- The functions below make the patches. -----------------------------------------------------------


def scaling(found: FoundJob, workers: int, scheduler_name: str) -> Change:
    """Return the result and the patch that set the number of workers; the patch is None if nothing has to be changed.

    Raise CliError if the job's kind or bounds forbid that number.
    """
    from extender.kube.fields import part
    from extender.kube.jobobjects import read_job

    kind, spec = found.kind, part(found.item, "spec")
    if not kind.resizes:
        raise CliError(
            f"the workers of an existing {kind.kind} cannot be changed; delete {found.key} and create it again"
        )
    role = spec if kind.counts else part(part(spec, kind.replicas_at), kind.worker)
    if not role:
        raise CliError(f"{kind.kind} {found.key} has no {kind.worker}; name a job that has workers of its own")
    before = role.get(kind.counts[0] if kind.counts else "replicas", kind.workers)
    job = read_job(found.item, kind, scheduler_name)
    if job is not None:
        _check_bounds(found, job, workers)
    written = _written(found, kind.workers_at, before, workers)
    return written, None if before == workers else kind.workers_patch(workers)


def _check_bounds(found: FoundJob, job: Job, workers: int) -> None:
    if job.invalid:
        raise CliError(f"{found.key} is malformed: {job.invalid}; correct that first")
    if job.note:
        raise CliError(f"{found.key} cannot be resized while it runs: {job.note}; see docs/jobkinds.md")
    if job.elastic and not job.min_workers <= workers <= job.max_workers:
        raise CliError(
            f"--workers: {workers} is not allowed; allowed: {job.min_workers} to {job.max_workers}, the bounds of "
            f"{found.key}; change its {_bounds_field(found)} first",
            2,
        )


def _bounds_field(found: FoundJob) -> str:
    """Return the field that states the job's bounds: the annotations, or without them a field of the kind's own."""
    from extender.kube.jobkinds import MAX_WORKERS, MIN_WORKERS

    notes, own = found.item["metadata"].get("annotations") or {}, found.kind.bounds_at
    if own and not {MIN_WORKERS, MAX_WORKERS} & notes.keys() and found.item["spec"].get(own):
        return f"spec.{own}"
    return f"{MIN_WORKERS} or {MAX_WORKERS}"


def suspension(found: FoundJob, *, on: bool) -> Change:
    """Return the result and the patch that suspend the job, or with ``on`` False resume the job.

    The patch is None if nothing has to be changed. Raise CliError if the job's kind cannot be suspended, or if a job
    should be resumed that Kohort itself has suspended.
    """
    from extender.kube.fields import part
    from extender.kube.jobkinds import RELEASED

    kind, spec = found.kind, part(found.item, "spec")
    if not kind.suspends:
        raise CliError(
            f"jobs of kind {kind.kind} cannot be suspended; delete {found.key}, or take all of its replicas away with "
            "kubectl scale"
        )
    ours = RELEASED in part(part(found.item, "metadata"), "annotations")
    if not on and ours:
        raise CliError(
            f"{found.key} is suspended by Kohort itself, until the pods of its released gang are gone; it goes on by "
            f"itself. See `kohort explain {found.key}`"
        )
    *above, last = kind.suspend_at
    before = reduce(part, above, spec).get(last) is True
    if on and ours:
        # Without Kohort's annotation the suspension counts as the user's, so that Kohort does not resume the job.
        written = _written(found, kind.suspended_by, "by Kohort", on)
        return written, {**kind.suspend_patch(on), "metadata": {"annotations": {RELEASED: None}}}
    written = _written(found, kind.suspended_by, before, on)
    return written, None if before == on else kind.suspend_patch(on)


def _written(found: FoundJob, field: str, before: Any, after: Any) -> WriteResult:
    note = f"`kohort explain {found.key}` says what the policy makes of it"
    return WriteResult(found.ref.namespace, found.ref.name, found.kind.kind, field, before, after, note)


# -- The functions below read the job and write the patches. -----------------------------------------


def _report(asked: Asked, job: str, kind: str | None, change: Callable[[FoundJob], Change]) -> None:
    from extender.cli.console import data_of
    from policy.cluster.words import visible

    written = asyncio.run(_write(asked, *asked.job(job), kind, change))
    if asked.shown not in (Output.TABLE, Output.WIDE):
        typer.echo(data_of(written, asked.shown))
        return
    what = f"{written.kind} {written.namespace}/{written.name}: {written.field}"
    before, after = json.dumps(written.before), json.dumps(written.after)
    typer.echo(visible(f"{what} is {after} already" if before == after else f"{what} {before} -> {after}"))
    typer.echo(visible(f"{written.note}"))


async def _write(
    asked: Asked, namespace: str, name: str, kind: str | None, change: Callable[[FoundJob], Change]
) -> WriteResult:
    from extender.kube.api import ClusterError
    from extender.kube.userapi import connect

    try:
        async with connect(asked.given) as api:
            for _ in range(TRIES):
                found = await _find(api, namespace, name, kind)
                written, patch = change(found)
                if patch is None or await _patched(api, found, patch):
                    return written
    except ClusterError as error:
        raise CliError(_in_words(error)) from None
    raise CliError(f"{namespace}/{name} was changed by others during each of {TRIES} attempts; try again")


async def _patched(api: KubeApi, found: FoundJob, patch: Mapping[str, Any]) -> bool:
    """Send the patch, and tell whether it was written: False if the job has changed since it was read.

    Raise CliError for any other refusal.
    """
    from extender.kube.api import Refused, Unknown

    meta = found.item["metadata"]
    outcome = await api.patch(found.ref, patch, uid=meta["uid"], resource_version=meta["resourceVersion"])
    if isinstance(outcome, Unknown):
        raise CliError(
            f"it is not known whether the change was written ({outcome.why}); see `kohort describe {found.key}`"
        )
    if isinstance(outcome, Refused) and not outcome.outdated:
        helps = (
            f"; ask for the right to patch {found.ref.resource}"
            if outcome.status == 403 and not outcome.denied
            else "; correct what it names"
        )
        raise CliError(f"the API server refuses: {outcome.message or outcome.reason}{helps}")
    return not isinstance(outcome, Refused)


async def _find(api: KubeApi, namespace: str, name: str, kind: str | None) -> FoundJob:
    """Return the one job of that name. Raise CliError if there is none, or more than one."""
    from extender.kube.api import Ref
    from extender.kube.jobkinds import KINDS

    if kind is not None and kind not in KINDS:
        raise CliError(f"--kind: {kind!r} is not allowed; allowed: {', '.join(sorted(KINDS))}", 2)
    looked = [KINDS[kind]] if kind is not None else list(KINDS.values())
    refs = [(one, Ref(one.resource, namespace, name)) for one in looked]
    found = [FoundJob(one, ref, item) for one, ref in refs if (item := await api.get(ref)) is not None]
    if not found and kind is None and await _is_pod(api, namespace, name):
        raise CliError(
            f"{namespace}/{name} is a pod without a job: nothing resizes or suspends it; delete it, or give it an owner"
        )
    if not found:
        kinds = ", ".join(sorted(one.kind for one in looked))
        raise CliError(f"there is no {kinds} {namespace}/{name}; `kohort jobs` lists the jobs that there are")
    if len(found) > 1:
        raise CliError(f"{namespace}/{name} is {' and '.join(one.kind.kind for one in found)}; name one by --kind", 2)
    return found[0]


async def _is_pod(api: KubeApi, namespace: str, name: str) -> bool:
    """Tell whether a pod has that name. Return False if the user may not read pods."""
    from extender.kube.api import PODS, ClusterError, Ref

    try:
        return await api.get(Ref(PODS, namespace, name)) is not None
    except ClusterError:
        return False


def _in_words(error: Any) -> str:
    from extender.kube.connection.target import CREDENTIALS, NO_CLUSTER

    if error.reason == CREDENTIALS:
        return str(error.message)
    if error.reason == NO_CLUSTER:
        return f"no kubeconfig names a cluster ({error.message}); set KUBECONFIG, or give --kubeconfig FILE"
    if error.status == 403:
        return f"the API server refuses: {error.message}; ask for the right to get and patch jobs of that kind"
    return f"the API server cannot be asked ({error}); is it up, and --context right?"
