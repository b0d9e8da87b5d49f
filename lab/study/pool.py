"""Run a study's cases on all cores or on the workers of a Dask scheduler; the rows are the same either way."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lab.study.donerows import DoneRows, Row
from lab.study.studyerrors import StudyError

if TYPE_CHECKING:
    from concurrent.futures import Future


@dataclass(frozen=True, slots=True)
class StudyCase:
    """One row to compute, by calling ``call`` with ``arguments``; ``key`` identifies it.

    ``call`` must be a top-level function, because other processes import it, and must return a row that JSON can hold.
    """

    key: str
    call: Callable[..., Row]
    arguments: tuple[Any, ...]


Runner = Callable[[Sequence[StudyCase]], Iterator[tuple[StudyCase, Row]]]


class CaseError(StudyError):
    """A case failed; the rows of the cases that finished before are kept."""

    code = 1

    def __init__(self, case: StudyCase, error: BaseException) -> None:
        super().__init__(f"{case.key}: {type(error).__name__}: {error}")


def run(cases: Sequence[StudyCase], done: DoneRows, runner: Runner, to: Console | None = None) -> list[Row]:
    """Return the row of each case, in the order of the cases, and add new rows to ``done``.

    Cases whose row is in ``done`` are not run again. runner: computes the others. to: the console for the progress bar,
    if any. Raises CaseError at the first case that fails.
    """
    missing = [case for case in dict.fromkeys(cases) if done.get(case.key) is None]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=to, transient=True, disable=to is None or not to.is_terminal) as progress:
        bar = progress.add_task("cases", total=len(cases), completed=len(cases) - len(missing))
        for case, row in runner(missing):
            done.add(case.key, row)
            progress.advance(bar)
    return [found for case in cases if (found := done.get(case.key)) is not None]


def runner_of(workers: int | None, scheduler: str | None) -> Runner:
    """Return the runner that the options ask for. Raises StudyError if both options are given."""
    if scheduler is None:
        return processes(workers)
    if workers is not None:
        raise StudyError(
            "--workers and --scheduler exclude each other: give one of them, as Dask starts its own workers"
        )
    return dask(scheduler)


def processes(workers: int | None = None) -> Runner:
    """Return a runner that computes rows in this many processes (default: one for each core)."""
    return partial(_in_processes, workers or len(os.sched_getaffinity(0)))


def _in_processes(workers: int, cases: Sequence[StudyCase]) -> Iterator[tuple[StudyCase, Row]]:
    if workers == 1 or len(cases) <= 1:
        yield from _here(cases)
        return
    # The start method is not "fork", because it is unsafe to fork a process with threads, and the progress bar has one.
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(min(workers, len(cases)), mp_context=context) as pool:
        futures: dict[Future[Row], StudyCase] = {pool.submit(case.call, *case.arguments): case for case in cases}
        try:
            for future in as_completed(futures):
                yield futures[future], _row(futures[future], future.result)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _here(cases: Sequence[StudyCase]) -> Iterator[tuple[StudyCase, Row]]:
    for case in cases:
        yield case, _row(case, partial(case.call, *case.arguments))


def _row(case: StudyCase, ask: Callable[[], Row]) -> Row:
    try:
        return ask()
    except Exception as error:
        raise CaseError(case, error) from error


def dask(address: str) -> Runner:
    """Return a runner that computes rows on the workers of a Dask scheduler; they need the same version of Kohort.

    Raises StudyError if Dask is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise StudyError(
            "--scheduler needs Dask, which is not installed: install kohort[dask], or give --workers"
        ) from None
    return partial(_on_dask, distributed, address)


def _on_dask(distributed: Any, address: str, cases: Sequence[StudyCase]) -> Iterator[tuple[StudyCase, Row]]:
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise StudyError(
            f"--scheduler: no Dask scheduler answers at {address!r} ({error}); start one, or give --workers"
        ) from None
    with client:
        # With pure=True, Dask would reuse the result of an equal call that another study made with other code.
        futures = {client.submit(case.call, *case.arguments, pure=False): case for case in cases}
        for future in distributed.as_completed(futures):
            yield futures[future], _row(futures[future], future.result)
