"""Carry out ``kohort compare`` and ``kohort simulate``: run the plan, print the table, write the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from extender.state.record import head, line_of
from lab.study import files, plots, show
from lab.study.cases import policy_of, result_of, rules_of_run
from lab.study.consoles import err, out
from lab.study.donerows import DoneRows, Row
from lab.study.hints import hints
from lab.study.policycomparison import ComparisonLine, ComparisonPlan, compare
from lab.study.pool import Runner
from lab.study.pool import run as run_cases
from lab.study.scenes import SIM, scene, stamped
from lab.study.specs import NamedSpec, Value, settings, spec
from lab.study.studyerrors import StudyError, refuse
from lab.study.tracefiles import files_of
from policy.cluster.snapshot import Snapshot

RESULTS = ("rows.jsonl", "runs.csv", "jobs.csv", "comparison.json")  # The folder of --out gets these files of data.


@dataclass(frozen=True, slots=True)
class ComparisonOutput:
    """Where the result goes.

    out: the folder for rows and figures. measure: the measure that the table of a comparison shows.
    """

    out: Path | None
    report: files.ReportTarget
    measure: str = "mean_jct_seconds"


def plan_of(
    policies: Sequence[str],
    traces: Sequence[str],
    first_seed: int,
    seeds: int,
    given: Sequence[str],
    pods: bool = False,
    jobs: bool = False,
) -> ComparisonPlan:
    """Return the plan that the options describe, and check it. Raises StudyError.

    Each text in ``given`` (option --set) is ``name=value`` for a parameter of all policies, or ``sim.name=value`` for a
    setting of the job-level simulator.
    """
    changes = settings(given, "--set")
    simulator = tuple((name.removeprefix(SIM), value) for name, value in changes.items() if name.startswith(SIM))
    mine = {name: value for name, value in changes.items() if not name.startswith(SIM)}
    chosen = tuple(_with(spec(text, "--policy"), mine) for text in policies)
    plan = ComparisonPlan(
        policies=chosen,
        traces=tuple(stamped(spec(text, "--trace")) for text in traces),
        seeds=range(first_seed, first_seed + seeds),
        simulator=simulator,
        pods=pods,
        jobs=jobs,
    )
    plan.check()
    return plan


def run(plan: ComparisonPlan, where: ComparisonOutput, runner: Runner) -> None:
    """Run every case, print the table and write the files. Raises StudyError."""
    for hint in hints(plan):
        err().print(f"kohort: warning: {hint}", soft_wrap=True)
    plan.check_measure(where.measure)
    _keep_inputs(plan, "--out", [where.out / name for name in RESULTS] if where.out else [])
    _keep_inputs(plan, "--json", [Path(where.report.file)] if where.report.file else [])
    folder = files.folder(where.out) if where.out else None
    done = DoneRows(folder / "rows.jsonl" if folder else None)
    try:
        cases = plan.cases()
        found = dict(zip([case.key for case in cases], run_cases(cases, done, runner, err()), strict=True))
    finally:
        done.close()
    lines = compare(plan, found)
    for line in lines:  # A line may lack a measure, such as lateness if no job with a target has finished.
        if where.measure not in line.spreads:
            raise refuse("--measure", where.measure, ", ".join(line.spreads))
    report = {
        "first_policy": plan.policies[0].label,
        "interval": "95 %, paired percentile bootstrap over the seeds, 2,000 resamples",
        "lines": [asdict(line) for line in lines],
    }
    where.report.write(report)
    if where.report.people:
        (_show_one if len(lines) == 1 else partial(_show_many, where.measure))(out(), lines)
    if folder is not None:
        _write(plan, folder, report, lines, found)


def record(plan: ComparisonPlan, path: Path) -> None:
    """Run the plan's first case in this process and write its journal to ``path``. Raises StudyError."""
    _keep_inputs(plan, "--journal", [path])
    run = plan.runs(plan.policies[0], plan.traces[0])[0]
    at = scene(run.trace, run.seed, run.simulator)
    try:
        with path.open("wb") as file:
            policy = policy_of(run.policy, run.seed, at.settings.slot_seconds)
            file.write(head(policy, Snapshot(rules=rules_of_run(run, at, policy))))
            result_of(run, at, lambda step: file.write(line_of(step.at, step.events, step.effects)))
    except OSError as error:
        raise StudyError(f"--journal: {path}: {error.strerror}; name a file that can be written") from None


def _keep_inputs(plan: ComparisonPlan, option: str, written: Sequence[Path]) -> None:
    """Raise StudyError if a result would overwrite a file that the study reads, such as a trace named jobs.csv."""
    read = {file.resolve() for trace in plan.traces for file in files_of(trace)}
    if lost := next((path for path in written if path.resolve() in read), None):
        raise StudyError(f"{option}: {lost} is a file of the trace and would be overwritten; name another place")


def _show_one(to: Console, lines: Sequence[ComparisonLine]) -> None:
    line = lines[0]
    to.print(f"{line.policy} on {line.trace}: {_seeds(line)}")
    rows = [(name, *map(show.number, (s.mean, s.p10, s.p90, s.low, s.high))) for name, s in line.spreads.items()]
    show.table(to, ("MEASURE", "MEAN", "P10", "P90", "LOWEST", "HIGHEST"), rows)


def _show_many(measure: str, to: Console, lines: Sequence[ComparisonLine]) -> None:
    first = lines[0].policy
    title = (f"MEAN {measure}", "P10-P90", f"AGAINST {first}", "95 % INTERVAL", "FINISHED", "UTILISATION")
    show.table(to, ("TRACE", "POLICY", "SEEDS", *title), [_cells(line, measure) for line in lines], 2)
    to.print(f"AGAINST: the mean paired difference to {first}, and its share of the mean of {first}; INTERVAL:")
    to.print("a paired percentile bootstrap of 2,000 resamples; * marks a difference whose interval excludes zero")


def _cells(line: ComparisonLine, measure: str) -> tuple[str, ...]:
    s, difference = line.spreads[measure], line.differences.get(measure)
    against, interval = "-", "-"
    if difference is not None:
        base = s.mean - difference.mean
        share = f" ({difference.mean / base:+.1%})" if base else ""
        against = f"{difference.mean:+.4g}{share}{'*' if difference.clear and line.pairs > 1 else ' '}"
        interval = f"{difference.low:+.4g} to {difference.high:+.4g}" if line.pairs > 1 else "one seed"
    finished, jobs = line.spreads["finished"].mean, line.spreads["jobs"].mean
    return (
        line.trace,
        line.policy,
        str(line.seeds),
        show.number(s.mean),
        f"{show.number(s.p10)}-{show.number(s.p90)}",
        against,
        interval,
        f"{show.number(finished)} of {show.number(jobs)}",
        _busiest(line),
    )


def _busiest(line: ComparisonLine) -> str:
    """Return the resource that computing gangs use most, with the share that they use, such as ``54% gpu``."""
    prefix = "utilisation_"
    shares = {name.removeprefix(prefix): s.mean for name, s in line.spreads.items() if name.startswith(prefix)}
    name = max(sorted(shares), key=lambda one: shares[one], default="cpu")
    return f"{shares.get(name, line.spreads['utilisation'].mean):.0%} {name.rpartition('/')[2]}"


def _seeds(line: ComparisonLine) -> str:
    return "one run" if line.seeds == 1 else f"{line.seeds} seeds"


def _write(
    plan: ComparisonPlan, folder: Path, report: object, lines: Sequence[ComparisonLine], found: dict[str, Row]
) -> None:
    files.write_json(folder / "comparison.json", report)
    rows: list[Row] = []
    jobs: list[Row] = []
    for trace in plan.traces:
        for policy in plan.policies:
            for run in plan.runs(policy, trace):
                head = {"trace": trace.label, "policy": policy.label, "seed": run.seed}
                row = dict(found[run.key])
                jobs += [head | job for job in row.pop("jobs_table", [])]
                rows.append(head | row)
    files.write_rows(folder / "runs", rows)
    if jobs:
        files.write_rows(folder / "jobs", jobs)
    if files.can_draw():
        files.write_figure(folder / "comparison.png", partial(plots.draw_comparison, lines))
        if jobs:
            files.write_figure(folder / "jct.png", partial(plots.draw_completion, jobs))


def _with(found: NamedSpec, parameters: dict[str, Value]) -> NamedSpec:
    """Return the policy with the parameters of --set added; a parameter that the policy states itself wins."""
    if not parameters:
        return found
    merged = parameters | dict(found.parameters)
    text = ",".join([found.name, *(f"{name}={value}" for name, value in merged.items())])
    return NamedSpec(found.name, tuple(merged.items()), text)
