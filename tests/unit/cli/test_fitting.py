"""Tables on a narrow terminal: names and words stay whole, lines fold at spaces, and columns that are left out are
named.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from rich.console import Console, RenderableType

from extender.cli import tables, topview
from extender.cli.fitting import FittedTable
from extender.present.views.cluster import NodesView
from extender.present.views.jobs import JobsView, QueueView
from tests.unit.cli.bodies import ANSWERS

NAMES = ("mnist-heavy", "bert-large-v2", "gpu-node-0012")


def drawn(what: RenderableType, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def renamed(path: str) -> Any:
    """Return an answer with names and details as long as real ones."""
    found = copy.deepcopy(ANSWERS[path])
    for job in found.get("jobs", ()):
        job |= {
            "name": {"big": NAMES[0], "run": NAMES[1]}[job["name"]],
            "note": "its bounds of workers are not used: why",
        }
        if job["waits"]:
            job["waits"]["detail"] = "12 cpu and 48Gi more on nodes that are ready and take pods of its kind"
    for node in found.get("nodes", ()):
        node["name"] = NAMES[2]
    return found


def words_of(lines: Iterable[str]) -> set[str]:
    return {word for line in lines for word in line.split()}


def top(*, wide: bool = False) -> RenderableType:
    jobs = JobsView.model_validate(renamed("/v1/jobs"))
    running = [job.model_copy(update={"workers": 3, "state": "running"}) for job in jobs.jobs]
    nodes, queue = NodesView.model_validate(renamed("/v1/nodes")), QueueView.model_validate(renamed("/v1/queue"))
    return topview.draw(topview.overview(nodes, jobs.model_copy(update={"jobs": tuple(running)}), queue), wide=wide)


SHOWN: dict[str, Callable[[bool], RenderableType]] = {
    "queue": lambda wide: tables.queue(QueueView.model_validate(renamed("/v1/queue")), wide=wide),
    "jobs": lambda wide: tables.jobs(JobsView.model_validate(renamed("/v1/jobs")), wide=wide),
    "top": lambda wide: top(wide=wide),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("command", SHOWN)
def test_names_reasons_and_heads_are_whole_on_eighty_columns(command: str, wide: bool) -> None:
    lines = drawn(SHOWN[command](wide))
    assert max(map(len, lines)) <= 80
    words = words_of(lines) - {
        "left",
        "out,",
        "since",
        "the",
        "terminal",
        "is",
        "80",
        "wide:",
        "-o",
        "json",
        "has",
        "all",
    }
    assert "WaitingForRoom" in words
    assert any(name in word for name in NAMES for word in words)
    whole = words_of(drawn(SHOWN[command](wide), 1000))
    assert {word.strip(",;") for word in words} <= {word.strip(",;") for word in whole}, "none is a part of one"


def test_what_is_left_out_is_said_and_nothing_where_there_is_room() -> None:
    lines = drawn(SHOWN["queue"](True))
    assert any(line.startswith("left out, since the terminal is 80 wide: ") and "GATED" in line for line in lines)
    assert not any("left out" in line for line in drawn(SHOWN["queue"](True), 400))


def test_columns_go_in_their_order_and_only_as_many_as_need_to() -> None:
    table = FittedTable(("A", "B", "C"), [("a" * 30, "b" * 30, "c" * 30)], ("B", "C"))
    assert drawn(table, 94)[1].split() == ["a" * 30, "b" * 30, "c" * 30]
    assert drawn(table, 93)[1].split() == ["a" * 30, "c" * 30]
    assert drawn(table, 93)[2] == "left out, since the terminal is 93 wide: B; -o json has all"


def test_texts_fold_at_spaces_before_a_word_is_broken() -> None:
    table = FittedTable(("NAME", "WHY"), [("n" * 20, "one two three four five six seven eight")])
    lines = drawn(table, 40)
    assert lines[1].split() == ["n" * 20, "one", "two", "three", "four"]
    assert drawn(FittedTable(("NAME",), [("n" * 50,)]), 40)[1:] == ["n" * 40, "n" * 10], "there is no other way"
