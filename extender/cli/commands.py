"""The commands. Each is thin: read the options, ask or run, show; what is heavy is imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from extender.cli import studies

if TYPE_CHECKING:
    from pydantic import BaseModel

DEFAULT_SERVER = "http://127.0.0.1:8900"
_View = TypeVar("_View", bound="BaseModel")


class Output(StrEnum):
    """How an answer is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Common:
    """The options before the command."""

    server: str
    output: Output


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help=f"Address of the service; default {DEFAULT_SERVER}.")
]
OutputOption = Annotated[Output | None, typer.Option("--output", "-o", help="How to show the answer.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings; default: the file that KOHORT_CONFIG names.")
]


@app.callback(
    epilog="Examples: `kohort demo` shows everything on a laptop; `kohort queue` tells why jobs wait; "
    "`kohort explain team/job` tells it of one job; `kohort queue -o json` is for scripts."
)
def _common(context: typer.Context, server: ServerOption = None, output: OutputOption = None) -> None:
    """Elastic gang scheduling for training jobs on the stock kube-scheduler."""
    context.obj = Common(server or DEFAULT_SERVER, output or Output.TABLE)


# -- processes -----------------------------------------------------------------------------------


@app.command(epilog="Example: kohort serve --config /etc/kohort/kohort.yaml", short_help="Run the extender.")
def serve(config: ConfigOption = None) -> None:
    """Run the extender: the verbs for kube-scheduler, REST, and /livez, /readyz, /metrics."""
    with _errors():
        from extender.cli import processes

        settings = processes.start(config)
        processes.say_largest_gang(settings)
        from extender import app as service

        processes.run("serve", service.serve, settings)


@app.command(
    epilog="Example: kohort controller --config /etc/kohort/kohort.yaml",
    short_help="Run the controller beside the extender.",
)
def controller(config: ConfigOption = None) -> None:
    """Run the controller beside the extender: gates, wake-ups, nominations, replicas, releases."""
    with _errors():
        from extender.cli import processes

        settings = processes.start(config)
        from extender.control import sidecar

        processes.run("controller", sidecar.serve, settings)


@app.command(short_help="Run the main job on a cluster in memory.", epilog="Example: kohort demo --json result.json")
def demo(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the table at the end as JSON, too.")
    ] = None,
    speed: Annotated[float, typer.Option(min=1, max=240, help="Seconds of the clusters in one real second.")] = 75,
    seed: Annotated[int, typer.Option(min=0, help="Which ten jobs: sizes and work are drawn from it.")] = 6,
    no_live: Annotated[bool, typer.Option("--no-live", help="Print progress lines instead of the live view.")] = False,
) -> None:
    """Run ten training jobs on a cluster in memory, faster than real, by Kohort and by the default scheduler."""
    with _errors():
        from extender.cli.service import CliError
        from extender.demo import run as shown

        try:
            shown.run(json_file, speed=speed, seed=seed, live=not no_live)
        except OSError as error:
            raise CliError(f"{error.strerror}: {error.filename}") from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


# -- questions -----------------------------------------------------------------------------------


@app.command(short_help="Which jobs wait, and why.")
def queue(context: typer.Context, server: ServerOption = None, output: OutputOption = None) -> None:
    """Which jobs wait, in which order, for what, and why; and what keeps the whole queue from moving."""
    with _errors():
        from extender.cli import tables
        from extender.present.views import QueueView

        view = _ask(context, server, output, "/v1/queue", {}, QueueView, tables.show_queue)
        for warning in view.warnings:
            tables.err().print(f"warning: {tables.clean(warning)}", style="yellow")


@app.command(short_help="Every job and its workers.")
def jobs(context: typer.Context, server: ServerOption = None, output: OutputOption = None) -> None:
    """Every job that opted in: workers now, minimum and maximum, state."""
    with _errors():
        from extender.cli import tables
        from extender.present.views import JobsView

        _ask(context, server, output, "/v1/jobs", {}, JobsView, tables.show_jobs)


@app.command(short_help="Every node and who is on it.")
def nodes(context: typer.Context, server: ServerOption = None, output: OutputOption = None) -> None:
    """Every node: what is free on it, and each ps and worker by job."""
    with _errors():
        from extender.cli import tables
        from extender.present.views import NodesView

        _ask(context, server, output, "/v1/nodes", {}, NodesView, tables.show_nodes)


@app.command(short_help="What is intended for each admitted gang.")
def plans(context: typer.Context, server: ServerOption = None, output: OutputOption = None) -> None:
    """What is intended for each admitted gang: its nodes, what it waits for, its place at the barrier."""
    with _errors():
        from extender.cli import tables
        from extender.present.views import PlansView

        _ask(context, server, output, "/v1/plans", {}, PlansView, tables.show_plans)


@app.command(epilog="Example: kohort decisions --since 120 -o json", short_help="What was decided, oldest first.")
def decisions(
    context: typer.Context,
    since: Annotated[int, typer.Option(min=0, help="Show entries after this number.")] = 0,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """What was decided, when and for which job, oldest first."""
    with _errors():
        from extender.cli import tables
        from extender.present.views import DecisionsView

        query = {"since": str(since)}
        _ask(context, server, output, "/v1/decisions", query, DecisionsView, tables.show_decisions)


@app.command(
    epilog="Examples: kohort explain team/mnist; kohort explain mnist -n team", short_help="Why a job is where it is."
)
def explain(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The job.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Its namespace; else default.")] = None,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Why a job is where it is."""
    with _errors():
        from extender.cli import tables
        from extender.cli.service import path_of
        from extender.present.views import ExplainView

        path = path_of("explain", *_job_of(job, namespace))
        _ask(context, server, output, path, {"unblock": "true"}, ExplainView, tables.show_explanation)


@app.command(
    "what-if",
    epilog="Examples: kohort what-if -f job.yaml; kohort what-if --remove-node n1; kohort what-if --add-nodes n1=2; "
    "kohort what-if --policy kubeflow-spread",
    short_help="What would happen, without doing it.",
)
def what_if(
    context: typer.Context,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A job's manifest, YAML or JSON.")] = None,
    cordon: Annotated[list[str] | None, typer.Option(metavar="NODE", help="If this node were cordoned.")] = None,
    uncordon: Annotated[list[str] | None, typer.Option(metavar="NODE", help="If it took pods again.")] = None,
    remove_node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="If it were gone.")] = None,
    add_nodes: Annotated[
        list[str] | None, typer.Option(metavar="LIKE=COUNT", help="If there were so many more like that one.")
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help="If another policy decided.")] = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Say which jobs would start, shrink, grow or wait if this were so. Nothing is changed."""
    with _errors():
        from extender.cli import tables
        from extender.cli.service import manifest, more_nodes, post
        from extender.present.views import WhatIfView

        question = {
            "job": manifest(file) if file is not None else None,
            "cordon": cordon or [],
            "uncordon": uncordon or [],
            "remove_nodes": remove_node or [],
            "add_nodes": [more_nodes(text) for text in add_nodes or []],
            "policy": policy,
        }
        common: Common = context.obj
        found = post(server or common.server, "/v1/what-if", question, WhatIfView)
        _show(found, tables.show_what_if, output or common.output)


def _job_of(job: str, namespace: str | None) -> tuple[str, str]:
    from extender.cli.service import CliError

    before, slash, name = job.rpartition("/")
    if not name or (slash and not before) or "/" in before:
        raise CliError(f"{job!r} is not allowed; allowed: NAMESPACE/NAME, or NAME with -n NAMESPACE", 2)
    if before and namespace not in (None, before):
        raise CliError(f"two namespaces, {before} and {namespace}; give one of them", 2)
    return before or namespace or "default", name


def _ask(
    context: typer.Context,
    server: str | None,
    output: Output | None,
    path: str,
    query: Mapping[str, str],
    view: type[_View],
    show: Callable[[_View, Any], None],
) -> _View:
    from extender.cli.service import ask

    common: Common = context.obj
    found = ask(server or common.server, path, query, view)
    _show(found, show, output or common.output)
    return found


def _show(found: _View, show: Callable[[_View, Any], None], output: Output) -> None:
    from extender.cli import tables

    if output is Output.TABLE:
        show(found, tables.out())
    else:
        typer.echo(tables.as_data(found, output.value))


# -- the rest ------------------------------------------------------------------------------------


@app.command(
    "check-config",
    epilog="Example: kohort check-config /etc/kubernetes/kube-scheduler.yaml",
    short_help="Find what in a kube-scheduler's file would break the gang.",
)
def check_config(
    file: Annotated[Path, typer.Argument(help="A KubeSchedulerConfiguration, or a ConfigMap that holds one.")],
    config: ConfigOption = None,
) -> None:
    """Say what in a KubeSchedulerConfiguration would break the gang, why, and how to mend it; exit 1 if so."""
    with _errors():
        from extender.cli.processes import settings_of
        from extender.kubescheduler.checkconfig import check_file, refused, render

        found = check_file(file, settings_of(config))
        typer.echo(render(found))
        if refused(found):
            raise typer.Exit(1)


@app.command(short_help="Which version this is.")
def version() -> None:
    """Say which version this is."""
    from importlib.metadata import version as installed

    typer.echo(f"kohort {installed('kohort')}")


app.add_typer(studies.app)


@contextmanager
def _errors() -> Iterator[None]:
    """Tell a fault in one clear sentence, without a traceback, and set the exit code."""
    from extender.cli.service import CliError

    try:
        yield
    except CliError as error:
        typer.echo(f"kohort: {error}", err=True)
        raise typer.Exit(error.code) from None
