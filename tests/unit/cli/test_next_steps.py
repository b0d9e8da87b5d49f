"""Every error of a command says what to do next, and every command runs for people and for scripts."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner, Result

from extender.cli import commands

ROOT = Path(__file__).parents[3]
ROOMS = ("extender/cli", "extender/install", "extender/comparison", "lab")
ERRORS = {"CliError", "StudyError", "ManifestError", "ComparisonError"}
NEXT = re.compile(
    r"allowed: |(?:; |[.?] |, or |: )"
    r"(?:`?kohort |`kubectl |[Ss]ee |ask|change|check|choose|correct|create|delete|give|install|it goes on by itself|"
    r"name|nor at|raise|set|start|take|there are|the service's log tells|try|use|Dask's workers are)|{helps}"
)
HANDED_ON = re.compile(r"^\{(_unreachable\(.*\)|[^{]*)\}$|_in_words")
"""What another part has worded, and nothing beside it; tested where it is worded."""


def text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) for value in values)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case _:
            return f"{{{ast.unparse(node)}}}"


def refusals() -> Iterator[tuple[str, str]]:
    """Yield each text that ends a command, with its place in the code."""
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        constants = re.findall(r'^([A-Z_]+)(?:: \w+)? = "(.*)"$', path.read_text(), re.MULTILINE)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args:
                text = text_of(node.args[0])
                for name, value in constants:
                    text = text.replace(f"{{{name}}}", value)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


@pytest.mark.parametrize(("where", "text"), list(refusals()), ids=lambda found: str(found)[:60])
def test_a_refusal_says_what_to_do_next(where: str, text: str) -> None:
    assert NEXT.search(text) or HANDED_ON.search(text), f"{where}: {text}"


def test_a_refusal_that_says_nothing_is_found() -> None:
    for said in ("the file cannot be used", "--token-file: {file} cannot be read: {error}", "{file}: {error}"):
        assert not any(rule.search(said) for rule in (NEXT, HANDED_ON)), said
    assert len(list(refusals())) > 60


Run = Callable[..., Result]
WRONG = [
    (("simulate", "--seeds", "several"), "'--seeds': 'several': Input should be a valid integer"),
    (("scale", "mnist", "--workers", "-3"), "'--workers': '-3': Input should be greater than or equal to 0"),
    (("queue", "-o", "xml"), "'-o': 'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
    (("-o", "xml", "queue"), "'-o': 'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[" ".join(given) for given, _ in WRONG])
def test_a_wrong_option_is_told_with_its_value_and_what_is_allowed(given: tuple[str, ...], told: str) -> None:
    found = CliRunner().invoke(commands.app, list(given))
    assert found.exit_code == 2
    assert told in found.output


JOB = ("team/mnist",)
KOD2 = ("--trace", "kod2", "--seeds", "1", "--first-seed", "3")
BOTH: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    # arguments, arguments for scripts, a word in the output for people, a key in the output for scripts
    "queue": ((), ("-o", "json"), "WHY", "jobs"),
    "jobs": ((), ("-o", "json"), "STATE", "jobs"),
    "nodes": ((), ("-o", "json"), "NODE", "nodes"),
    "plans": ((), ("-o", "json"), "PLAN", "plans"),
    "top": ((), ("-o", "json"), "big", "queue"),
    "decisions": ((), ("-o", "json"), "started with 2 workers", "decisions"),
    "describe": (("team/big",), ("-o", "json"), "team/big (TFJob)", "history"),
    "explain": (("team/big",), ("-o", "json"), "add 2 nodes like n1", "unblock"),
    "what-if": (("--cordon", "n1"), ("-o", "json"), "WOULD BE", "jobs"),
    "version": ((), ("-o", "json"), "kohort 0.", "kohort"),
    "check-config": (("manifests/base/scheduler-config.yaml",), ("-o", "json"), "good for Kohort", "findings"),
    "render": ((), ("-o", "json"), "kind: Deployment", "items"),
    "scale": ((*JOB, "--workers", "4"), ("-o", "json"), "replicas is 4 already", "field"),
    "suspend": (JOB, ("-o", "json"), "suspend", "field"),
    "resume": (JOB, ("-o", "json"), "suspend", "field"),
    "simulate": (("--policy", "kod2", *KOD2), ("-o", "json"), "kod2", "lines"),
    "compare": (("--policy", "fifo", "--policy", "kod2", *KOD2), ("-o", "json"), "kod2", "lines"),
    "replay": (("JOURNAL",), ("-o", "json"), "as recorded", "same"),
    "paper": (("--list",), ("--json", "-"), "kod2", ""),
    "optimum": (("--jobs", "2", "--servers", "1", "--slots", "4", "--seeds", "1"), ("-o", "json"), "PROVED", ""),
}  # fmt: skip
# The demo takes a minute, so the named file tests it, with its table and its JSON.
ELSEWHERE = {"demo": "tests/unit/embedded/test_demo.py"}
RUN_FOR_EVER = {"serve", "controller"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("journal") / "kod2.jsonl"
    made = CliRunner().invoke(commands.app, ["simulate", "--policy", "kod2", *KOD2, "--journal", str(path)])
    assert made.exit_code == 0, made.output
    return str(path)


def test_every_command_is_there() -> None:
    there = set(get_command(commands.app).commands)  # type: ignore[attr-defined]
    assert BOTH.keys() | ELSEWHERE.keys() | RUN_FOR_EVER == there
    assert all((ROOT / file).exists() for file in ELSEWHERE.values())


@pytest.mark.parametrize("command", BOTH)
def test_it_answers_people_and_scripts(
    kohort: Run, kubeconfig: Path, journal: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(ROOT)
    given, scripts, word, key = BOTH[command]
    arguments = [journal if one == "JOURNAL" else one for one in given]
    people = kohort(command, *arguments)
    assert people.exit_code == 0, people.output
    assert word in people.output
    assert people.output.strip()
    told = kohort(command, *arguments, *scripts)
    assert told.exit_code == 0, told.output
    assert key in json.loads(told.stdout) if key else json.loads(told.stdout)
    with pytest.raises(json.JSONDecodeError):
        json.loads(people.stdout)


STUDIES = ("simulate", "compare", "replay", "paper", "optimum")


@pytest.mark.parametrize("command", STUDIES)
def test_a_study_is_told_as_yaml_and_beside_that_as_json_in_a_file(
    kohort: Run, journal: str, tmp_path: Path, command: str
) -> None:
    given = [journal if one == "JOURNAL" else one for one in BOTH[command][0]]
    found = kohort(command, *given, "-o", "yaml", "--json", str(tmp_path / "found.json"))
    assert found.exit_code == 0, found.output
    with pytest.raises(json.JSONDecodeError):
        json.loads(found.stdout)
    assert yaml.safe_load(found.stdout) == json.loads((tmp_path / "found.json").read_text())
