"""The command ``what-if``: what would happen if a job came, nodes changed, or another policy decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from extender.cli.errors import CliError, RefusedError
from extender.cli.options import JOB, OUTPUT, TARGET, Asked, examples, shared
from extender.cli.printing import show

if TYPE_CHECKING:
    from extender.present.views.whatif import WhatIfView

app = typer.Typer(rich_markup_mode=None)
NOTHING_ASKED: Final = (
    "the question is empty; give -f FILE or --workers N for a job, --cordon, --uncordon, --remove-node or --add-nodes "
    "for nodes, or --policy NAME"
)
FILE_HELP: Final = "A file with a job's manifest, as YAML or JSON; -: standard input."
REQUESTS_HELP: Final = "What each member of that job requests; default: cpu=1."
ADDED_HELP: Final = "Suppose that there are COUNT more nodes like LIKE."
SNAPSHOT_HELP: Final = "Ask about the state at the end of this journal, in place of the service."

FileOption = Annotated[Path | None, typer.Option("--file", "-f", help=FILE_HELP)]
WorkersOption = Annotated[int | None, typer.Option(help="In place of a file: the number of workers of the job.")]
PsOption = Annotated[int, typer.Option(help="The number of ps of that job.")]
RequestsOption = Annotated[str, typer.Option(metavar="NAME=AMOUNT,...", help=REQUESTS_HELP)]
LeastOption = Annotated[int | None, typer.Option("--min", help="The minimum of workers.")]
MostOption = Annotated[int | None, typer.Option("--max", help="The maximum of workers.")]
CordonOption = Annotated[list[str] | None, typer.Option(metavar="NODE", help="Suppose that this node is cordoned.")]
UncordonOption = Annotated[list[str] | None, typer.Option(metavar="NODE", help="Suppose that this node is uncordoned.")]
RemoveOption = Annotated[list[str] | None, typer.Option(metavar="NODE", help="Suppose that this node is removed.")]
AddOption = Annotated[list[str] | None, typer.Option(metavar="LIKE=COUNT", help=ADDED_HELP)]
PolicyOption = Annotated[str, typer.Option(metavar="NAME", help="Suppose that this policy decides.")]
SnapshotOption = Annotated[Path | None, typer.Option(metavar="FILE", help=SNAPSHOT_HELP)]


@app.command(
    "what-if",
    epilog=examples(
        "kohort what-if -f job.yaml",
        "kohort what-if -f - < job.yaml",
        "kohort what-if --remove-node n1",
        "kohort what-if --add-nodes n1=2",
        "kohort what-if --policy dragon",
        "kohort what-if --workers 4 --ps 1 --requests cpu=2,memory=4Gi --min 2",
        "kohort what-if -f job.yaml --snapshot journal-000001.jsonl",
    ),
    short_help="Say what would happen, without doing it.",
)
@shared(TARGET, OUTPUT, JOB)
def what_if(
    asked: Asked,
    file: FileOption = None,
    workers: WorkersOption = None,
    ps: PsOption = 0,
    requests: RequestsOption = "",
    least: LeastOption = None,
    most: MostOption = None,
    cordon: CordonOption = None,
    uncordon: UncordonOption = None,
    remove_node: RemoveOption = None,
    add_nodes: AddOption = None,
    policy: PolicyOption = "",
    snapshot: SnapshotOption = None,
) -> None:
    """Say which jobs would start, shrink, grow or wait if the given changes were made. Nothing is changed.

    The job's namespace is the one in its manifest, else the one of -n, else that of the kubeconfig's context, else
    default.
    """
    from extender.cli import tables
    from extender.cli.whatifoptions import more_nodes

    question = _job(asked, file, _shape(workers, ps, requests, least, most)) | {
        "cordon": cordon or [],
        "uncordon": uncordon or [],
        "remove_nodes": remove_node or [],
        "add_nodes": [more_nodes(text) for text in add_nodes or []],
        "policy": policy,
    }
    if all(value in (None, [], "") for value in question.values()):
        raise CliError(NOTHING_ASKED, 2)
    found = _answer(asked, question, file, snapshot)
    show(lambda: found, tables.what_if, asked)


def _shape(workers: int | None, ps: int, requests: str, least: int | None, most: int | None) -> dict[str, Any] | None:
    """Return the job that --workers, --ps, --requests, --min and --max describe, in the form of REST's ``shape``.

    Return None without --workers. Raise CliError if one of the other options is given without --workers.
    """
    from extender.cli.whatifoptions import amounts_of

    if workers is not None:
        each = amounts_of(requests or "cpu=1")
        return {"workers": workers, "ps": ps, "requests": each, "min_workers": least, "max_workers": most}
    if ps or requests or least is not None or most is not None:
        raise CliError("--ps, --requests, --min and --max describe the job of --workers; give --workers too", 2)
    return None


def _job(asked: Asked, file: Path | None, shape: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fields of the question that describe a job: ``job`` for a manifest in a file, ``shape`` for --workers.

    The key ``shape`` is left out without --workers, because an older service refuses a question with that key. Raise
    CliError if the options contradict one another.
    """
    if file is not None and shape is not None:
        raise CliError("-f and --workers exclude one another; give one of them", 2)
    if file is not None:
        return {"job": _job_in(file, asked)}
    if shape is not None:
        return {"job": None, "shape": {**shape, "namespace": asked.own_namespace()}}
    if asked.namespace:
        raise CliError(
            "-n is the namespace of a job, and the question has no job; give -f or --workers, or leave -n out", 2
        )
    return {"job": None}


def _job_in(file: Path, asked: Asked) -> dict[str, Any]:
    from extender.cli import console
    from extender.cli.whatifoptions import manifest
    from policy.cluster.words import visible

    job, others = manifest(file)
    if others:
        console.err().print(f"ignored, because they are not jobs: {visible(', '.join(others))}", style="yellow")
    return asked.placed(job)


def _answer(asked: Asked, question: dict[str, Any], file: Path | None, snapshot: Path | None) -> WhatIfView:
    """Return the answer to a what-if question.

    The service answers, or, if the file ``snapshot`` of a journal is given, the policy for the state at its end. Raise
    CliError for a wrong question.
    """
    from extender.cli.service import post
    from extender.cli.whatifoptions import by_option
    from extender.present.views.whatif import WhatIfView

    try:
        if snapshot is None:
            return post(asked.target, "/v1/what-if", question, WhatIfView)
        from extender.cli.whatifsaved import ask_saved

        return ask_saved(snapshot, question)
    except RefusedError as error:
        raise by_option(error, file) from None
