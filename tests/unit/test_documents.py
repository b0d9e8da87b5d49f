"""Generated documentation is current and complete; ``python -m tests.documents`` writes it again."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from extender.clock import Clock
from extender.control import eventreasons, jobevents
from extender.kube import jobkinds
from extender.kube.trainingannotation import read_training
from extender.observe.health import Heartbeat, extender_readiness
from policy.cluster.actions import Effect, What
from policy.cluster.snapshot import Snapshot
from tests.documents.blocks import ANNOTATIONS, EVENTS, TRAINING_EXAMPLE, table
from tests.documents.pages import BLOCKS, DOCS, made

MADE: Mapping[Path, str] = made()


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_a_made_page_is_current(path: Path) -> None:
    assert path.read_text() == MADE[path], "the code has changed: python -m tests.documents"


def test_every_block_is_used() -> None:
    used = {name for path in MADE for name in re.findall(r"<!-- made: (\w+) -->", path.read_text())}
    assert used == BLOCKS.keys()


def test_every_name_of_ours_is_explained() -> None:
    named = {value for value in vars(jobkinds).values() if isinstance(value, str) and value.startswith("kohort.dev/")}
    assert named - ANNOTATIONS.keys() == set()


def test_the_example_of_a_training_is_read() -> None:
    block = TRAINING_EXAMPLE.partition("|\n")[2].removesuffix("```")
    assert read_training(textwrap.dedent(block)).is_timed


def test_every_event_is_explained() -> None:
    there = {word for word in vars(eventreasons).values() if isinstance(word, eventreasons.EventReason)}
    assert {word.reason for word in there} == EVENTS.keys()
    used = set(re.findall(r"reasons\.([A-Z_]+)\b", Path(jobevents.__file__).read_text())) - {"OF_WAITING", "OF_ACTIONS"}
    by_action = {*eventreasons.OF_ACTIONS.values()}
    # the code writes an Event for each of these reasons
    assert {getattr(eventreasons, name) for name in used} | by_action == there
    told = {kind.__name__ for kind in get_args(Effect)} | {*get_args(What)}
    assert eventreasons.OF_ACTIONS.keys() <= told, "every action with a word is one that a step tells"


def test_every_check_is_explained() -> None:
    clock, text = Clock(), (DOCS / "operations.md").read_text()
    names = {check.name for check in extender_readiness(Snapshot(), [], True, Heartbeat(clock), clock).checks}
    assert {name for name in names if f"\n| `{name}` | " not in text} == set()


def test_a_bar_does_not_break_a_table() -> None:
    assert table(("a",), [("x|y",)]).splitlines()[-1] == "| x\\|y |"


ROOT = DOCS.parent
ROOMS = "policy|extender|lab|tests|benchmarks|manifests|docs"
PATH = re.compile(rf"`((?:{ROOMS})/[\w./-]+\.(?:py|json|toml|yaml|md))`")
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "tests").rglob("*.md"))]
HISTORY = {"CHANGELOG.md", "found.md"}  # these files name other files as they were called at the time


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.stem)
def test_a_file_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in PATH.findall(page.read_text()) if "NAME" not in path and not (ROOT / path).exists()] == []


def test_pages_name_files() -> None:
    assert sum(len(PATH.findall(page.read_text())) for page in PAGES) > 50
