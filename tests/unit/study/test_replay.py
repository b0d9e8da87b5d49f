"""``kohort replay``: the same decisions, byte for byte; what departs; and another policy beside the recorded one."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extender.cli import commands
from extender.state.record import head, line_of
from policy.cluster.actions import Decision
from policy.cluster.events import Synced
from policy.cluster.snapshot import Snapshot
from policy.systems.kod2 import Kod2
from tests.builders import START
from tests.hashseeds import printed


def kohort(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, list(arguments))


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "kod2.jsonl"
    result = kohort("simulate", "--policy", "kod2", "--trace", "kod2", "--first-seed", "3", "--journal", str(path))
    assert result.exit_code == 0, result.output
    return path


def test_a_simulation_runs_again_to_the_same_decisions(journal: Path) -> None:
    result = kohort("replay", str(journal))
    assert result.exit_code == 0
    assert result.output.endswith("decisions: all decisions are as recorded, byte for byte\n")
    found = json.loads(kohort("replay", str(journal), "--json", "-").output)
    assert (found["same"], found["departures"], found["stopped"]) == (True, [], "")
    assert found["steps"] == len(journal.read_text().splitlines()) - 1
    assert found["decisions"] > 20


WORLDS: dict[str, tuple[str, ...]] = {"jobs": (), "pods": ("--pods",)}
ALL = """
import json, sys
from extender.cli import commands
for arguments in json.loads(sys.argv[1]):
    if code := commands.app(arguments, standalone_mode=False):
        sys.exit(code)
"""


@pytest.fixture(scope="module")
def by_hash_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write both worlds' journals under hash seeds 0 and 1, and replay the journals of seed 0 under 1; return the
    folder.

    There is one process for each hash seed, since to start one takes longer than to simulate in it.
    """
    folder = tmp_path_factory.mktemp("hashes")
    simulate = ("simulate", "--policy", "kod2", "--trace", "kod2")
    runs = {
        seed: [[*simulate, *more, "--journal", f"{folder}/{world}-{seed}.jsonl"] for world, more in WORLDS.items()]
        for seed in ("0", "1")
    }
    runs["1"] += [["replay", f"{folder}/{world}-0.jsonl", "--json", f"{folder}/{world}.json"] for world in WORLDS]
    for seed, arguments in runs.items():
        printed(seed, "-c", ALL, json.dumps(arguments))
    return folder


@pytest.mark.parametrize("world", WORLDS)
def test_hash_seeds_change_neither_the_journal_nor_its_replay(by_hash_seed: Path, world: str) -> None:
    assert (by_hash_seed / f"{world}-0.jsonl").read_bytes() == (by_hash_seed / f"{world}-1.jsonl").read_bytes()
    replayed = json.loads((by_hash_seed / f"{world}.json").read_text())
    assert (replayed["same"], replayed["departures"]) == (True, [])
    assert replayed["decisions"] > 20


def test_a_decision_that_is_not_the_recorded_one_is_shown_with_its_line(journal: Path, tmp_path: Path) -> None:
    lines = journal.read_text().splitlines()
    line = next(number for number, text in enumerate(lines) if '"actions:Admit' in text or ":Admit" in text)
    entry = json.loads(lines[line])
    entry["effects"][0]["workers"] += 1
    lines[line] = json.dumps(entry)
    (tmp_path / "changed.jsonl").write_text("\n".join(lines) + "\n")
    result = kohort("replay", str(tmp_path / "changed.jsonl"))
    assert result.exit_code == 1
    assert f"line {line + 1}, at " in result.output
    assert "decisions: " in result.output
    found = json.loads(kohort("replay", str(tmp_path / "changed.jsonl"), "--json", "-").output)
    assert line + 1 in [departure["line"] for departure in found["departures"]]
    beside = kohort("replay", str(tmp_path / "changed.jsonl"), "--policy", "dragon")
    assert "this version decides differently from the record at " in beside.output
    told = json.loads(kohort("replay", str(tmp_path / "changed.jsonl"), "--policy", "dragon", "--json", "-").output)
    assert told["departures"] == len(found["departures"])


def test_another_policy_is_asked_about_the_same_state(journal: Path) -> None:
    result = kohort("replay", str(journal), "--policy", "kubeflow-spread", "--most", "1")
    assert result.exit_code == 0
    assert result.output.count("\nline") + result.output.startswith("line") == 1
    assert "  - start default/job-0" in result.output
    assert "  + start default/job-0" in result.output
    found = json.loads(kohort("replay", str(journal), "--policy", "kubeflow-spread", "--json", "-").output)
    assert found["counts"]["recorded"]["resize"] > 0
    assert "other: resize" not in found["counts"]


def test_the_recorded_policy_beside_itself_differs_nowhere(journal: Path) -> None:
    found = json.loads(kohort("replay", str(journal), "--policy", "kod2", "--json", "-").output)
    assert found["steps"] == []
    assert found["decided"] > 20


def dies(_: object, __: Snapshot, now: float) -> Decision:
    if now > START + 2:
        raise ValueError("boom")
    return Decision()


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a journal that ends with a step in which the policy raised an error; return its path."""
    monkeypatch.setattr("policy.systems.kod2.Kod2.decide", dies)
    path = tmp_path / "broken.jsonl"
    steps = [line_of(START + at, [Synced()], []) for at in range(3)]
    path.write_bytes(b"".join([head(Kod2(), Snapshot()), *steps, line_of(START + 3, [], [], "ValueError: boom")]))
    return path


def test_a_journal_that_ends_with_an_error_is_followed_to_it_by_either_way(broken: Path) -> None:
    for asked in ((), ("--policy", "kubeflow-spread")):
        result = kohort("replay", str(broken), *asked)
        assert (result.exit_code, result.exception) == (0, None)
        assert "the recorded process ended with an error" in result.output
        assert "ValueError: boom" in result.output


def test_another_error_than_the_recorded_one_is_a_departure(broken: Path) -> None:
    broken.write_bytes(broken.read_bytes().replace(b"ValueError: boom", b"KeyError: 'a'"))
    result = kohort("replay", str(broken))
    assert result.exit_code == 1
    assert """recorded {"error": "KeyError: 'a'"}, now ValueError: boom""" in result.output
    assert "and so did the replay" not in result.output


def test_an_error_where_none_was_recorded_is_a_departure(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policy.systems.kod2.Kod2.decide", dies)
    result = kohort("replay", str(journal))
    assert result.exit_code == 1
    assert "now ValueError: boom" in result.output
    assert "the recorded process ended" not in result.output
    found = json.loads(kohort("replay", str(journal), "--json", "-").output)
    assert (found["same"], found["stopped"]) == (False, "")


def test_an_error_that_does_not_come_again_is_shown(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policy.systems.kod2.Kod2.decide", lambda *_: Decision())
    result = kohort("replay", str(broken))
    assert result.exit_code == 1
    assert """recorded {"error": "ValueError: boom"}, now []""" in result.output


def test_another_policy_that_fails_is_named(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Decision:
        raise ValueError("boom")

    monkeypatch.setattr("policy.systems.baselines.KubeflowSpread.decide", fails)
    result = kohort("replay", str(journal), "--policy", "kubeflow-spread")
    assert result.exit_code == 2
    assert "line 2: the policy kubeflow-spread failed: ValueError: boom" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.jsonl"], "kohort: nowhere.jsonl: No such file or directory"),
        ([__file__], f"kohort: {__file__}, line 1: this line does not begin a journal"),
        ([__file__, "--policy", "x"], "kohort: --policy x: policy 'x' is not known; known are "),
    ],
)
def test_what_is_wrong_is_said_with_status_2(arguments: list[str], said: str) -> None:
    result = kohort("replay", *arguments)
    assert result.exit_code == 2
    assert result.output.startswith(said)


def test_a_journal_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    result = kohort("simulate", "--policy", "kod2", "--trace", "kod2", "--journal", str(tmp_path / "no" / "file"))
    assert result.exit_code == 2
    assert result.output.startswith("kohort: --journal: ")
