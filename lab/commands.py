"""Define the laboratory's commands, which extender.cli.laboratory registers with `kohort`.

Each command imports its heavy modules when it is called, so that `kohort --help` stays fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from extender.cli.errors import CliError
from extender.cli.errors import errors as cli_errors
from extender.cli.options import OUTPUT, Asked, examples, shared

if TYPE_CHECKING:
    from lab.study.files import ReportTarget

app = typer.Typer(rich_markup_mode=None)


@app.command(
    short_help="Run the main job on a cluster in memory.",
    epilog=examples("kohort demo --json result.json"),
)
def demo(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the table at the end as JSON, too.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=1, max=240, help="At most so many seconds of cluster time per real second.")
    ] = 75,
    seed: Annotated[int, typer.Option(min=0, help="The seed from which the ten jobs are drawn.")] = 6,
    no_live: Annotated[bool, typer.Option("--no-live", help="Print progress lines instead of the live view.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The port on which Kohort answers `kohort jobs` and so on during the demo; 0: any free port. "
            "Default: 8900, or any free port if that is taken.",
        ),
    ] = None,
) -> None:
    """Run ten training jobs on clusters in memory, faster than real time: by Kohort and by the default scheduler."""
    with errors():
        from extender.http.server import AddressError
        from lab.demo import sides as shown

        try:
            shown.run(json_file, speed=speed, seed=seed, live=not no_live, port=port)
        except AddressError as error:
            raise CliError(f"--port {port}: {error}; choose a free port, or 0 for any free one") from None
        except OSError as error:
            why = strerror(error.errno or 0)
            raise CliError(f"--json: {error.filename or json_file}: {why}; name a file that can be written") from None


SeedsOption = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        min=1,
        max=100_000,
        metavar="N",
        help="How many seeds; default: compare 30, paper as its bars say, others 1.",
    ),
]
FirstSeedOption = Annotated[int, typer.Option("--first-seed", min=0, metavar="K", help="The first seed.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Write rows and figures to this folder, from which an interrupted run continues."
    ),
]
JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON to this file; -: to standard output."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=1024, metavar="N", help="How many processes to use; default: one per core."),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler instead."),
]


@app.command(
    epilog=examples("kohort paper --list", "kohort paper kod2", "kohort paper --all --mutants --out results"),
    short_help="Run a paper's experiments again and judge their bars.",
)
@shared(OUTPUT)
def paper(
    asked: Asked,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names of experiments, or of systems for all their experiments."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all experiments.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only list the experiments.")] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Also run with each mechanism switched off, which must miss its bars.")
    ] = False,
    seeds: SeedsOption = None,
    first_seed: FirstSeedOption = 1000,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            envvar="KOHORT_POLLUX_DATA",
            help="The folder with the data of the Pollux artifact, which the experiments of the system pollux need.",
        ),
    ] = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Print each bar with the paper's number and ours. Exit with 1 if a bar is missed or a mutant is not caught.

    Policies and simulator were tuned on seeds below 1000; the bars are checked on seeds from 1000 on.
    """
    with errors():
        from lab.study import papercommand as command
        from lab.study.pool import runner_of

        if listed:
            command.show_list(_report_target(json_file, asked))
            return
        target = _report_target(json_file, asked)
        plan = command.PaperOptions(tuple(names or ()), everything, mutants, seeds, first_seed, target, out, data)
        if not command.run(plan, runner_of(workers, scheduler)):
            raise typer.Exit(1)


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the policy, or sim.NAME of the simulator; may be repeated."
    ),
]
PodsOption = Annotated[
    bool, typer.Option("--pods", help="Simulate operator, kube-scheduler and kubelets pod by pod, which is slower.")
]


@app.command(
    epilog=examples(
        "kohort simulate --policy kod2 --trace kod2 --seeds 10",
        "kohort simulate --policy kod2 --set gate=strict --trace jobs.csv,nodes=3x10x32x1 --out results",
    ),
    short_help="Run a trace under a policy in the simulator.",
)
@shared(OUTPUT)
def simulate(
    asked: Asked,
    policy: Annotated[str, typer.Option("--policy", metavar="NAME[,PARAMETER=VALUE]...", help="The policy.")],
    trace: Annotated[str, typer.Option("--trace", metavar="NAME|FILE[,PARAMETER=VALUE]...", help="The trace.")],
    given: SetOption = None,
    pods: PodsOption = False,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Write a journal of the first seed, for kohort replay."),
    ] = None,
    seeds: SeedsOption = None,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, metavar="K", help="The first seed.")] = 0,
    json_file: JsonOption = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Run a trace under a policy and print every measure, over the seeds.

    A trace is one of the papers' by name, or a file in Kohort's own format, Philly's, Pollux's or openb's;
    docs/simulator.md lists them. Every trace takes speeds=saturating|shared-links|shared-cpu|linear or
    step_times=FOLDER, faults=FILE (faults of nodes, pods and jobs), migratable=true and sim.NAME=VALUE.
    """
    with errors():
        from lab.study import comparecommand as command
        from lab.study.pool import runner_of

        target = _report_target(json_file, asked)
        plan = command.plan_of([policy], [trace], first_seed, seeds or 1, given or [], pods, jobs=True)
        if journal is not None:
            command.record(plan, journal)
        command.run(plan, command.ComparisonOutput(out, target), runner_of(workers, scheduler))


@app.command(
    epilog=examples("kohort compare --policy kod2 --policy fifo-pod --trace kod2 --seeds 30 --out results"),
    short_help="Compare policies on traces over seeds.",
)
@shared(OUTPUT)
def compare(
    asked: Asked,
    policies: Annotated[
        list[str],
        typer.Option(
            "--policy", metavar="NAME[,PARAMETER=VALUE]...", help="Each policy; the others are compared with the first."
        ),
    ],
    traces: Annotated[list[str], typer.Option("--trace", metavar="NAME|FILE[,PARAMETER=VALUE]...", help="Each trace.")],
    given: SetOption = None,
    pods: PodsOption = False,
    measure: Annotated[str, typer.Option("--measure", help="The measure that the table shows.")] = ("mean_jct_seconds"),
    seeds: SeedsOption = None,
    first_seed: FirstSeedOption = 1000,
    json_file: JsonOption = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Print, for each trace and policy, the mean with p10-p90 and the paired difference to the first policy.

    The default is 30 seeds; a trace and policy without randomness are run once. With --out, a run that was interrupted
    continues where it stopped. Traces and their parameters are those of kohort simulate.
    """
    with errors():
        from lab.study import comparecommand as command
        from lab.study.pool import runner_of

        plan = command.plan_of(policies, traces, first_seed, seeds or 30, given or [], pods)
        command.run(
            plan,
            command.ComparisonOutput(out, _report_target(json_file, asked), measure),
            runner_of(workers, scheduler),
        )


@app.command(
    epilog=examples(
        "kohort replay journal-000001.jsonl", "kohort replay journal-000001.jsonl --policy kubeflow-spread"
    ),
    short_help="Run a recorded journal again, or ask another policy.",
)
@shared(OUTPUT)
def replay(
    asked: Asked,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A journal: setting journal.folder, or simulate --journal.")
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="NAME[,PARAMETER=VALUE]...", help="Ask this policy too, and show the differences."
        ),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=0, help="Show at most so many differences.")] = 20,
    json_file: JsonOption = None,
) -> None:
    """Run every step of a journal again. Exit with 1 if a decision differs from the recorded one in any byte.

    With --policy, ask another policy at each step what it would do. Its answers do not change the recorded state.
    """
    with errors():
        from lab.study import replaycommand as command

        if policy is not None:
            command.ask_other_policy(file, policy, most, _report_target(json_file, asked))
        elif not command.replay_journal(file, most, _report_target(json_file, asked)):
            raise typer.Exit(1)


@app.command(
    epilog=examples("kohort optimum --seeds 5", "kohort optimum --jobs 6 --servers 2 --slots 8 --json -"),
    short_help="The offline optimum of small OASiS instances, beside what OASiS earns.",
)
@shared(OUTPUT)
def optimum(
    asked: Asked,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=50, help="The number of jobs in an instance.")] = 10,
    servers: Annotated[
        int, typer.Option("--servers", min=1, max=20, help="The number of servers for workers, and of those for ps.")
    ] = 3,
    slots: Annotated[
        int, typer.Option("--slots", min=2, max=50, help="The number of time slots in the timespan (T).")
    ] = 10,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="The solver's time limit for one instance.")
    ] = 60.0,
    seeds: SeedsOption = None,
    first_seed: FirstSeedOption = 1000,
    json_file: JsonOption = None,
) -> None:
    """Solve each seed's instance exactly by MILP, which knows all jobs in advance, and compare OASiS, which does not.

    ``proved`` tells whether the solver proved its schedule to be the best; if not, the best schedule found is printed
    with an upper bound. In ``kohort paper oasis-optimum``, OASiS gets the constants U and L of all jobs in advance, so
    the ratios differ.
    """
    with errors():
        from lab.study import optimumcommand as command

        drawn = range(first_seed, first_seed + (seeds or 1))
        command.run(command.OptimumOptions(jobs, servers, slots, seconds, drawn), _report_target(json_file, asked))


def _report_target(json_file: str | None, asked: Asked) -> ReportTarget:
    from lab.study.files import ReportTarget

    target = ReportTarget(json_file, asked.shown)
    target.check()
    return target


@contextmanager
def errors() -> Iterator[None]:
    """Turn the errors of a study into a one-line message without a traceback.

    The exit status is 2 if the command was called wrongly, and 1 if its work failed.
    """
    from lab.study.studyerrors import StudyError

    with cli_errors():
        try:
            yield
        except StudyError as error:
            raise CliError(str(error), error.code) from None
