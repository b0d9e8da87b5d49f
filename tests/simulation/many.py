"""Run many seeds on all cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from lab.sim.objects import WorkloadKind
from tests.commands.fullstate import STATE
from tests.simulation.enough import empty_cells, idle_policies
from tests.simulation.faults import KINDS, kinds_for
from tests.simulation.run import SeedReport, Simulation, play
from tests.simulation.scenario import POLICIES, drawn

GATE_SEEDS: Final = range(1, 121)  # `make test` runs these seeds, 20 of each policy.
SEEDS_FOR_RESIZES: Final = 600  # From this many seeds on, running jobs of every kind must have been shrunk and grown.
RESIZES: Final = tuple(f"{kind.value}-{way}" for kind in WorkloadKind for way in ("shrunk", "grown"))


def run_seed(seed: int, mutant: str = "") -> SeedReport:
    """Run one seed; with a seeded defect, stop at the first violation."""
    if mutant:
        from tests.simulation.mutants import switched_on

        with switched_on(mutant):
            return _played(seed, impatient=True)
    return _played(seed)


def _played(seed: int, impatient: bool = False) -> SeedReport:
    try:
        return play(lambda: Simulation(drawn(seed), impatient=impatient))
    except Exception as error:
        found = traceback.format_exc().splitlines()
        return SeedReport(seed, violations=[f"the simulation broke: {error!r}"], run_log=found)


def run_seeds(
    seeds: Iterable[int], processes: int = 0, mutant: str = "", aside: bool = False
) -> Generator[SeedReport, None, None]:
    """Run the seeds in order on ``processes`` processes (0: one per core), and yield their reports.

    ``aside``: the processes have the lowest CPU priority.
    """
    processes = processes or len(os.sched_getaffinity(0))
    one = partial(run_seed, mutant=mutant)
    if processes == 1:
        yield from map(one, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _step_aside if aside else None) as pool:
        yield from pool.imap(one, seeds)


def _step_aside() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def table(reports: Iterable[SeedReport]) -> dict[str, Counter[str]]:
    """Return how often each kind of fault occurred, for each policy."""
    found = {policy: Counter[str]() for policy in POLICIES}
    for report in reports:
        if report.policy:
            found[report.policy].update(report.faults)
    return found


def shown(found: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table as text; a dash means that the fault cannot occur under the policy."""
    lines = [f"{'fault':26}" + "".join(f"{policy:>13}" for policy in found)]
    for kind in KINDS:
        cells = (str(counts[kind]) if kind in kinds_for(policy) else "-" for policy, counts in found.items())
        lines.append(f"{kind:26}" + "".join(f"{cell:>13}" for cell in cells))
    return "\n".join(lines)


def resizes(reports: Iterable[SeedReport]) -> str:
    """Return a text on how many running jobs of each kind were shrunk and grown under each policy."""
    did = {policy: Counter[str]() for policy in POLICIES}
    for report in reports:
        if report.policy:
            did[report.policy].update(report.did)
    lines = [f"{'jobs':26}" + "".join(f"{policy:>13}" for policy in did)]
    lines += [f"{what:26}" + "".join(f"{counts[what]:>13}" for counts in did.values()) for what in RESIZES]
    return "\n".join(lines)


def shortfall(reports: Sequence[SeedReport]) -> str:
    """Return a sentence on the faults and actions that occurred too rarely for the runs to prove anything, or ""."""
    if not reports or not sum(report.compared for report in reports):
        return "no ledger was compared with a rebuilt one"
    did = sum((report.did for report in reports), Counter[str]())
    rigid = [what for what in RESIZES if len(reports) >= SEEDS_FOR_RESIZES and not did[what]]
    missing = [*empty_cells(reports), *idle_policies(reports), *rigid]
    return f"never happened: {', '.join(missing)}" if missing else ""


def resumed(
    seeds: Sequence[int], file: Path | None, processes: int = 0, mutant: str = "", aside: bool = False
) -> Generator[SeedReport, None, None]:
    """Run the seeds that the file does not record yet, record those that pass, and yield the reports.

    Without a file, all seeds run.
    """
    done = {report.seed: report for report in remembered(file)} if file is not None else {}
    yield from (done[seed] for seed in seeds if seed in done)
    for report in run_seeds([seed for seed in seeds if seed not in done], processes, mutant, aside):
        if file is not None and not report.failure:
            remember(file, report)
        yield report


def state_of_full(name: str) -> Path | None:
    """Return the file in the folder from which a stopped `make full` continues, or None if there is none."""
    folder = os.environ.get(STATE)
    return Path(folder) / name if folder else None


def remembered(file: Path) -> list[SeedReport]:
    """Return the runs recorded in the file, without an incomplete last line; none if there is no file."""
    if not file.exists():
        return []
    whole, _, cut = file.read_text().rpartition("\n")
    if cut:
        file.write_text(whole + "\n" if whole else "")
    return [_report(json.loads(line)) for line in whole.splitlines()]


def _report(row: dict[str, Any]) -> SeedReport:
    own = {"marks": tuple(row["marks"]), "faults": Counter(row["faults"]), "did": Counter(row["did"])}
    return SeedReport(**{**row, **own})


def remember(file: Path, report: SeedReport) -> None:
    """Record a run, so that a long series can be continued."""
    kept = ("seed", "policy", "steps", "gangs", "jobs", "compared", "marks", "faults", "did", "violations")
    with file.open("a") as out:
        out.write(json.dumps({name: getattr(report, name) for name in kept}) + "\n")
