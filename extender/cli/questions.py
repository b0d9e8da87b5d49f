"""Has the commands that ask the service: the lists, the commands about one job, and the live view."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from extender.cli.options import JOB, LIST, ONLY, OUTPUT, TARGET, Asked, JobArgument, Output, examples, shared
from extender.cli.printing import show

if TYPE_CHECKING:
    from pydantic import BaseModel

    from extender.present.views.cluster import NodeView
    from extender.present.views.decisions import DecisionsView

app = typer.Typer(rich_markup_mode=None)
FOLLOW_SECONDS = 1.0
_View = TypeVar("_View", bound="BaseModel")


@app.command(
    short_help="List the jobs that wait, and why.",
    epilog=examples("kohort queue", "kohort queue -n team -w", "kohort queue -o json | jq '.jobs[].waits.reason'"),
)
@shared(TARGET, OUTPUT, LIST)
def queue(asked: Asked) -> None:
    """List the jobs that wait, in the policy's order: what each needs, why it waits and when it is expected to start.

    Below the table is what blocks the queue as a whole.
    """
    from extender.cli import tables
    from extender.present.views.jobs import QueueView

    def look() -> QueueView:
        return _only(_ask(asked, "/v1/queue", {"expected": "true"}, QueueView), asked)

    show(look, partial(tables.queue, within=asked.only), asked)


@app.command(
    short_help="List all jobs and their workers.",
    epilog=examples("kohort jobs", "kohort jobs -n team -o wide"),
)
@shared(TARGET, OUTPUT, LIST)
def jobs(asked: Asked) -> None:
    """List every job that opted in, with its workers, their minimum and maximum, and its state."""
    from extender.cli import tables
    from extender.present.views.jobs import JobsView

    show(lambda: _only(_ask(asked, "/v1/jobs", {}, JobsView), asked), partial(tables.jobs, within=asked.only), asked)


@app.command(
    short_help="List all nodes and the members on them.",
    epilog=examples("kohort nodes", "kohort nodes -n team -o wide"),
)
@shared(TARGET, OUTPUT, LIST)
def nodes(asked: Asked) -> None:
    """List every node with its free resources and, job by job, the ps and workers on it.

    With -n, members of other namespaces are counted in the column OTHERS, with the pods that Kohort does not schedule.
    """
    from extender.cli import tables
    from extender.present.views.cluster import NodesView

    def look() -> NodesView:
        view = _ask(asked, "/v1/nodes", {}, NodesView)
        if not (within := asked.only):
            return view
        return view.model_copy(update={"nodes": tuple(_guests_of(node, within) for node in view.nodes)})

    show(look, tables.nodes, asked)


@app.command(
    short_help="List the plans of admitted gangs.",
    epilog=examples("kohort plans -o wide"),
)
@shared(TARGET, OUTPUT, LIST)
def plans(asked: Asked) -> None:
    """List the plan of each admitted gang: its nodes, the pods that it waits for, and its members at the barrier."""
    from extender.cli import tables
    from extender.present.views.cluster import PlansView

    show(lambda: _only(_ask(asked, "/v1/plans", {}, PlansView), asked), partial(tables.plans, within=asked.only), asked)


@app.command(
    short_help="Show a live view of nodes, running jobs and the queue.",
    epilog=examples("kohort top", "kohort top --once", "kohort top -o json"),
)
@shared(TARGET, OUTPUT, LIST)
def top(
    asked: Asked,
    once: Annotated[bool, typer.Option("--once", help="Show the view once and exit, as in a pipe.")] = False,
) -> None:
    """Show a live view: how full the cluster is, running jobs as bars between minimum and maximum, and the jobs that
    wait.
    """
    from dataclasses import replace
    from sys import stdout

    from extender.cli import topview
    from extender.cli.service import ask
    from extender.present.views.cluster import NodesView
    from extender.present.views.jobs import JobsView, QueueView

    def look() -> topview.TopView:
        found = (
            ask(asked.target, path, {}, view) for path, view in
            (("/v1/nodes", NodesView), ("/v1/jobs", JobsView), ("/v1/queue", QueueView))
        )  # fmt: skip
        return topview.overview(*found, within=asked.only)  # type: ignore[arg-type]

    live = stdout.isatty() and not once and asked.shown in (Output.TABLE, Output.WIDE)
    show(look, topview.draw, replace(asked, watch=live or asked.watch))


@app.command(
    epilog=examples("kohort decisions --since 120 -o json", "kohort decisions --follow"),
    short_help="List the decisions, oldest first.",
)
@shared(TARGET, OUTPUT, ONLY)
def decisions(
    asked: Asked,
    since: Annotated[
        int | None, typer.Option(min=0, help="Show the decisions after this number; default: the newest thousand.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new decisions until Ctrl-C; with -o json, one per line.")
    ] = False,
) -> None:
    """List the decisions, oldest first: when, for which job and, with -o wide, from which figures."""
    from extender.cli import tables
    from extender.present.views.decisions import DecisionsView

    def look(after: int | None) -> DecisionsView:
        view = _ask(asked, "/v1/decisions", {} if after is None else {"since": str(after)}, DecisionsView)
        if not asked.namespace:
            return view
        kept = tuple(one for one in view.decisions if one.job is not None and one.job.namespace == asked.namespace)
        return view.model_copy(update={"decisions": kept})

    if follow:
        _follow(look, since, asked)
    else:
        show(lambda: look(since), partial(tables.decisions, within=asked.only), asked)


def _follow(look: Callable[[int | None], DecisionsView], since: int | None, asked: Asked) -> None:
    from extender.cli import tables
    from extender.cli.console import out, plain

    instance = ""
    while True:
        found = look(since)
        # With another instance the service has restarted, and its decisions are numbered from 1 again.
        if instance and found.instance != instance:
            instance, since = "", 0
            continue
        instance, since = found.instance, max(since or 0, found.latest)
        for one in found.decisions:
            if asked.shown in (Output.TABLE, Output.WIDE):
                out().print(tables.decision_line(one, wide=asked.shown is Output.WIDE))
            else:
                typer.echo(json.dumps(plain(one)))
        time.sleep(FOLLOW_SECONDS)


@app.command(
    epilog=examples("kohort describe team/mnist", "kohort describe mnist -n team -o yaml"),
    short_help="Describe a job, its members and its history.",
)
@shared(TARGET, OUTPUT, JOB)
def describe(asked: Asked, job: JobArgument) -> None:
    """Describe a job: its bounds, its roles, each member with its node, and every decision about it."""
    from extender.cli import jobtables
    from extender.cli.service import path_of
    from extender.present.views.explain import ExplainView

    path = path_of("explain", *asked.job(job))
    show(lambda: _ask(asked, path, {}, ExplainView), jobtables.describe, asked)


@app.command(
    epilog=examples("kohort explain team/mnist", "kohort explain mnist -n team -o json"),
    short_help="Explain why a job waits, or why it runs where it does.",
)
@shared(TARGET, OUTPUT, JOB)
def explain(asked: Asked, job: JobArgument) -> None:
    """Explain why a job waits, what would admit it now and when it may start; or why it runs where it does."""
    from extender.cli import jobtables
    from extender.cli.service import path_of
    from extender.present.views.explain import ExplainView

    path = path_of("explain", *asked.job(job))
    show(lambda: _ask(asked, path, {"unblock": "true"}, ExplainView), jobtables.explain, asked)


# -- The functions below send the questions and select what is shown. --------------------------------


def _ask(asked: Asked, path: str, query: Mapping[str, str], view: type[_View]) -> _View:
    from extender.cli import console
    from extender.cli.service import ask
    from policy.cluster.words import visible

    found = ask(asked.target, path, query, view)
    for warning in getattr(found, "warnings", ()):
        # A warning counts as printed by the text before its colon, because the figures after it may change.
        if (about := warning.partition(":")[0]) not in asked.warned:
            asked.warned.add(about)
            console.err().print(f"warning: {visible(warning)}", style="yellow")
    return found


def _guests_of(node: NodeView, within: str) -> NodeView:
    """Return the node with the members of jobs in the namespace ``within``; other members are counted as other pods."""
    kept = tuple(member for member in node.members if member.job.startswith(f"{within}/"))
    others = node.other_pods + len(node.members) - len(kept)
    return node.model_copy(update={"members": kept, "other_pods": others})


def _only(view: _View, asked: Asked) -> _View:
    """Return the view with only the jobs and plans of the namespace that the user asked for, if any."""
    if not (within := asked.only):
        return view
    lists = [name for name in ("jobs", "plans", "invalid", "unplaced") if hasattr(view, name)]
    kept = {name: tuple(one for one in getattr(view, name) if one.namespace == within) for name in lists}
    return view.model_copy(update=kept)
