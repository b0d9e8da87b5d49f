"""Has the root command, and the commands that run a process or need no service.

Slow imports are inside the commands that need them, so that the others start quickly.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from extender.cli import laboratory, questions, rendering, whatif, writes
from extender.cli.errors import Commands, errors
from extender.cli.options import (
    OUTPUT,
    AllOption,
    AsExtraOption,
    AsGroupOption,
    Asked,
    AsOption,
    AsUidOption,
    ClusterOption,
    ConfigOption,
    ContextOption,
    KubeconfigOption,
    Output,
    OutputOption,
    RootCaOption,
    RootNamespaceOption,
    RootServerOption,
    RootServiceOption,
    RootTokenOption,
    TimeoutOption,
    UserOption,
    examples,
    shared,
)

EXITS = """Exit codes: 0 done; 1 it failed, was refused, or the answer is No; 2 the command, a file or the settings are
wrong; 130 interrupted."""

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    epilog=examples(
        "kohort demo              everything, on a laptop",
        "kohort queue             why jobs wait",
        "kohort explain team/job  why this job waits",
        "kohort queue -o json     for scripts",
    )
    + f"\n\n{EXITS}"
)
def _common(
    typed: typer.Context,
    server: RootServerOption = None,
    service: RootServiceOption = None,
    token_file: RootTokenOption = None,
    ca_file: RootCaOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    cluster: ClusterOption = None,
    user: UserOption = None,
    as_user: AsOption = None,
    as_uid: AsUidOption = None,
    as_group: AsGroupOption = None,
    as_user_extra: AsExtraOption = None,
    request_timeout: TimeoutOption = None,
    output: OutputOption = None,
    namespace: RootNamespaceOption = None,
    all_namespaces: AllOption = None,
) -> None:
    """Elastic gang scheduling for training jobs on the stock kube-scheduler."""
    typed.obj = Asked().overlaid_by(
        {name: value for name, value in typed.params.items() if name in {one.name for one in fields(Asked)}}
    )


@app.command(epilog=examples("kohort serve --config /etc/kohort/kohort.yaml"), short_help="Run the extender.")
def serve(config: ConfigOption = None) -> None:
    """Run the extender: the verbs for kube-scheduler, REST, and /livez, /readyz and /metrics."""
    with errors():
        from extender.cli import processes

        settings = processes.start(config)
        processes.say_largest_gang(settings)
        from extender import app as service
        from extender.http.limits import most_connections

        processes.allow_descriptors(most_connections(settings))
        processes.run("serve", lambda settings: service.serve(settings, processes.file_of(config)), settings)


@app.command(
    epilog=examples("kohort controller --config /etc/kohort/kohort.yaml"),
    short_help="Run the controller beside the extender.",
)
def controller(config: ConfigOption = None) -> None:
    """Run the controller beside the extender: it handles gates, wake-ups, nominations, replicas and releases."""
    with errors():
        from extender.cli import processes

        settings = processes.start(config)
        from extender.control import controllerprocess

        processes.allow_descriptors(controllerprocess.LIMITS.connections)
        processes.run("controller", controllerprocess.serve, settings)


app.add_typer(questions.app)
app.add_typer(whatif.app)
app.add_typer(writes.app)


@app.command(
    "check-config",
    epilog=examples(
        "kohort check-config /etc/kubernetes/kube-scheduler.yaml",
        "kohort check-config --config manifests/base/settings.yaml manifests/base/scheduler-config.yaml",
    ),
    short_help="Find what in kube-scheduler's configuration would break the gang.",
)
@shared(OUTPUT)
def check_config(
    asked: Asked,
    file: Annotated[
        Path, typer.Argument(help="A file with a KubeSchedulerConfiguration, or with a ConfigMap that holds one.")
    ],
    config: ConfigOption = None,
) -> None:
    """Check a KubeSchedulerConfiguration for what would break gang scheduling: print it, why, and how to fix it.

    Exit with 1 if something is found. Exit with 2 if there is nothing to check: the file does not exist, is not YAML,
    or is a ConfigMap without a KubeSchedulerConfiguration.
    """
    from extender.cli.console import data_of
    from extender.cli.processes import settings_of
    from extender.kubescheduler.checkconfig import check_file, refused, render, unreadable

    found = check_file(file, settings_of(config))
    told = {"good": not refused(found), "findings": found}
    typer.echo(render(found) if asked.shown in (Output.TABLE, Output.WIDE) else data_of(told, asked.shown))
    if refused(found):
        raise typer.Exit(2 if unreadable(found) else 1)


app.add_typer(rendering.app)


@app.command(
    short_help="Print the version of Kohort.",
    epilog=examples("kohort version -o json"),
)
@shared(OUTPUT)
def version(asked: Asked) -> None:
    """Print the version of Kohort."""
    from importlib.metadata import version as installed
    from platform import python_version

    from extender.cli.console import data_of

    told = {"kohort": installed("kohort"), "python": python_version()}
    table = asked.shown in (Output.TABLE, Output.WIDE)
    typer.echo(f"kohort {told['kohort']}" if table else data_of(told, asked.shown))


app.add_typer(laboratory.commands())
