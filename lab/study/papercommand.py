"""Carry out ``kohort paper``: run the papers' experiments and check our results against their bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.papers.experiment import Experiment, Mutant
from lab.study import files, papers, show
from lab.study.consoles import err, out
from lab.study.donerows import DoneRows, Row
from lab.study.papers import ExperimentOutcome, MutantOutcome
from lab.study.pool import Runner, StudyCase
from lab.study.pool import run as run_cases
from lab.study.studyerrors import StudyError


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """The command's options.

    seeds: the number of seeds; None: each experiment runs the number of seeds for which its bars are stated. data: the
    folder with the data that some experiments need; None: it is not there.
    """

    names: tuple[str, ...]
    everything: bool
    mutants: bool
    seeds: int | None
    first_seed: int
    report: files.ReportTarget
    out: Path | None
    data: Path | None = None


def show_list(target: files.ReportTarget) -> None:
    """Print the list of experiments."""
    known = list(papers.experiments().values())
    target.write([{"name": e.name, "system": e.system, "title": e.title} for e in known])
    if target.people:
        rows = [(e.name, e.system, e.title, e.source, str(e.seeds), str(len(e.mutants))) for e in known]
        show.table(out(), ("NAME", "SYSTEM", "TITLE", "SOURCE", "SEEDS", "MUTANTS"), rows, 4)


def run(asked: PaperOptions, runner: Runner) -> bool:
    """Run the experiments, print and write the results; return whether all bars are met and all mutants are caught."""
    chosen = _chosen(asked)
    folder = files.folder(asked.out) if asked.out else None
    done = DoneRows(folder / "rows.jsonl" if folder else None)
    try:
        _run_all(asked, chosen, done, runner)
        found = []
        for experiment in chosen:
            found.append(_outcome(asked, experiment, done, runner))
            if asked.report.people:
                show.outcome(out(), found[-1])
    finally:
        done.close()
    _write(asked, folder, found)
    if asked.report.people:
        out().print(show.summary(found))
    return all(one.good for one in found)


def _chosen(asked: PaperOptions) -> list[Experiment]:
    if asked.everything == bool(asked.names):
        known = ", ".join(papers.experiments())
        raise StudyError(
            f"NAME: give names of experiments or systems, or --all, and not both; the experiments are {known}"
        )
    if not asked.everything:
        return _with_data(asked, papers.named(asked.names))
    every = papers.experiments().values()
    left_out = [one for one in every if one.data and asked.data is None]
    for one in left_out:
        err().print(f"left out: {one.name}, which needs --data with {one.data}")
    return [one for one in every if one not in left_out]


def _with_data(asked: PaperOptions, chosen: list[Experiment]) -> list[Experiment]:
    """Return the experiments. Raises StudyError if one of them needs data and the options name no folder with it."""
    if asked.data is None and (one := next((one for one in chosen if one.data), None)):
        raise StudyError(f"NAME: {one.name} needs {one.data}, which is not part of Kohort: give --data DIR")
    return chosen


def _cases(asked: PaperOptions, experiment: Experiment, mutant: Mutant | None = None) -> list[StudyCase]:
    data = str(asked.data.absolute()) if asked.data is not None else ""
    return papers.cases(experiment, _seeds(asked, experiment), mutant, data)


def _seeds(asked: PaperOptions, experiment: Experiment) -> range:
    return range(asked.first_seed, asked.first_seed + (asked.seeds or experiment.seeds))


def _mutants(asked: PaperOptions, experiment: Experiment) -> Sequence[Mutant]:
    return experiment.mutants if asked.mutants else ()


def _run_all(asked: PaperOptions, chosen: Sequence[Experiment], done: DoneRows, runner: Runner) -> None:
    """Compute the rows of all experiments in one batch, so that no core idles while an experiment's last seed runs.

    The rows are kept in ``done``.
    """
    variants = [(one, mutant) for one in chosen for mutant in (None, *_mutants(asked, one))]
    run_cases([case for one, mutant in variants for case in _cases(asked, one, mutant)], done, runner, err())


def _outcome(asked: PaperOptions, experiment: Experiment, done: DoneRows, runner: Runner) -> ExperimentOutcome:
    def rows(mutant: Mutant | None = None) -> list[Row]:
        return run_cases(_cases(asked, experiment, mutant), done, runner)

    ours = rows()
    mutants: list[MutantOutcome] = [
        papers.mutant_outcome(experiment, mutant, ours, rows(mutant)) for mutant in _mutants(asked, experiment)
    ]
    seeds = tuple(_seeds(asked, experiment))
    return ExperimentOutcome(experiment, seeds, tuple(ours), papers.judge(experiment.bars, ours), tuple(mutants))


def _write(asked: PaperOptions, folder: Path | None, found: Sequence[ExperimentOutcome]) -> None:
    report = {"experiments": [one.to_dict() for one in found], **show.counts(found)}
    asked.report.write(report)
    if folder is None:
        return
    files.write_json(folder / "paper.json", report)
    for one in found:
        name = one.experiment.name
        files.write_rows(folder / name, [{"seed": s, **row} for s, row in zip(one.seeds, one.rows, strict=True)])
        if one.experiment.figure is not None and files.can_draw():
            files.write_figure(folder / f"{name}.png", partial(one.experiment.figure, one.rows))
