"""``kohort paper``: the table and the JSON, the exit status, mutants, going on, and errors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli import commands
from lab.papers.experiment import Bar, Experiment, Mutant, OnData, Row, mean, worst
from lab.papers.published import Published, above, at_least, at_most, below, effect, level
from lab.study import papers, polluxfiles

CALLS: list[tuple[str, int]] = []


def _measure(seed: int) -> Row:
    CALLS.append(("", seed))
    return {"gain": float(seed % 10), "lost": 0.0}


def _broken(seed: int) -> Row:
    CALLS.append(("broken", seed))
    return {"gain": -1.0, "lost": 1.0}


def _fails(seed: int) -> Row:
    raise RuntimeError(f"no luck with {seed}")


def experiment(name: str = "toy-gain", **changes: Any) -> Experiment:
    given: dict[str, Any] = {
        "name": name,
        "system": "toy",
        "title": "A toy",
        "source": "Table 0",
        "measure": _measure,
        "bars": (
            Bar("mean gain", mean("gain"), at_least=1.0, unit="%", paper="2 %"),
            Bar("worst gain", worst("gain"), paper="-"),
        ),
        "seeds": 4,
        "mutants": (Mutant("broken", _broken, ("mean gain",)),),
        "assumed": ("that it is a toy",),
    }
    return Experiment(**(given | changes))


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, Experiment]:
    CALLS.clear()
    known = {"toy-gain": experiment()}
    monkeypatch.setattr(papers, "experiments", lambda: known)
    return known


def kohort(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, ["paper", "--workers", "1", *arguments])


@pytest.mark.usefixtures("toys")
def test_each_bar_stands_beside_the_papers_number_with_a_verdict() -> None:
    result = kohort("toy-gain")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert ["mean", "gain", "2", "%", "1.5", "%", "0.3", "to", "2.7", "-", "-", ">=", "1", "%", "met"] in lines
    assert ["worst", "gain", "-", "0", "-", "-", "-", "-", "reported"] in lines
    assert "assumed: that it is a toy" in result.output
    assert "seeds 1000-1003" in result.output
    assert result.output.splitlines()[-1] == "bars met: 1, missed: 0"


def _gain_of(seed: int, data: dict[str, float]) -> Row:
    return {"gain": data["gain"], "lost": float(seed)}


def _data_of(folder: str) -> dict[str, float]:
    return {"gain": 2.0 if folder.endswith("here") else 0.0}


@pytest.fixture
def on_data(toys: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch) -> None:
    toys["toy-data"] = experiment("toy-data", measure=OnData(_gain_of), mutants=(), data="the toys")
    monkeypatch.setattr(polluxfiles, "artifact", _data_of)
    monkeypatch.setattr(polluxfiles, "contents", str)
    monkeypatch.delenv("KOHORT_POLLUX_DATA", raising=False)


@pytest.mark.usefixtures("on_data")
def test_an_experiment_on_data_from_elsewhere_needs_its_folder() -> None:
    result = kohort("toy-data")
    assert result.exit_code == 2
    assert "toy-data needs the toys, which is not part of Kohort: give --data DIR" in result.output
    assert "toy-data" not in kohort("--all", "--json", "-").stdout
    assert "left out: toy-data, which needs --data with the toys" in kohort("--all").output


@pytest.mark.usefixtures("on_data")
def test_the_folder_comes_from_the_option_or_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = json.loads(kohort("toy-data", "--data", str(tmp_path / "here"), "--json", "-").stdout)
    assert [bar["value"] for bar in report["experiments"][0]["bars"]] == [2.0, 2.0]
    monkeypatch.setenv("KOHORT_POLLUX_DATA", str(tmp_path / "here"))
    assert kohort("toy-data").exit_code == 0


def test_a_measure_on_data_says_that_it_is_missing() -> None:
    with pytest.raises(ValueError, match="needs data that is not part of Kohort"):
        OnData(_gain_of)(1000)


REPRODUCED = {
    "a size is within a quarter of the effect": (effect(2.0), True, True),
    "a greater effect has the direction and not the size": (effect(1.0), True, False),
    "a smaller effect has the direction and not the size": (effect(8.0), True, False),
    "no gain where the paper has a loss": (effect(-2.0), False, False),
    "the effect of a ratio counts from 1": (effect(1.6, 1.0), True, True),
    "a level has no direction": (level(2.0), None, True),
    "a statement without a number has no size": (above(1.0), True, None),
    "above a value": (above(1.5), False, None),
    "below a value": (below(1.0), False, None),
    "all of a count": (at_least(2.0), False, None),
    "at most": (at_most(1.5), True, None),
    "a statement that no number can show": (Published(), None, None),
}


@pytest.mark.parametrize(("stated", "direction", "size"), REPRODUCED.values(), ids=REPRODUCED.keys())
def test_direction_and_size_of_the_papers_number_are_told_apart_from_the_bound(
    toys: dict[str, Experiment], stated: Published, direction: bool | None, size: bool | None
) -> None:
    words = {None: "-", True: "yes", False: "NO"}
    bar = Bar("mean gain", mean("gain"), at_least=1.0, paper="stated", published=stated)
    toys["toy-gain"] = experiment(bars=(bar,), mutants=())
    lines = kohort("toy").output.splitlines()
    row = ["mean", "gain", "stated", "1.5", "0.3", "to", "2.7", words[direction], words[size], ">=", "1", "met"]
    assert row in [line.split() for line in lines]
    (found,) = json.loads(kohort("toy", "--json", "-").output)["experiments"][0]["bars"]
    assert (found["direction_reproduced"], found["size_reproduced"]) == (direction, size)
    assert found["paper_number"] == stated.number


@pytest.mark.usefixtures("toys")
def test_the_summary_counts_the_statements_whose_direction_and_size_are_reproduced(
    toys: dict[str, Experiment],
) -> None:
    stated = (effect(2.0), effect(8.0), effect(-2.0), level(2.0), above(), Published())
    bars = [Bar(f"gain {at}", mean("gain"), paper="stated", published=one) for at, one in enumerate(stated)]
    toys["toy-gain"] = experiment(bars=tuple(bars), mutants=())
    assert kohort("toy").output.splitlines()[-2:] == [
        "the papers' statements: direction of 3 of 4 reproduced, size of 2 of 4 (within 25 % of the paper's effect)",
        "bars met: 0, missed: 0",
    ]


@pytest.mark.parametrize("name", papers.experiments())
def test_every_number_of_a_paper_is_compared(name: str) -> None:
    bars = papers.experiments()[name].bars
    assert [bar.claim for bar in bars if bool(bar.paper) != (bar.published is not None)] == []


def test_a_missed_bar_is_told_with_its_reason_and_the_exit_status_is_1(toys: dict[str, Experiment]) -> None:
    bar = Bar("mean gain", mean("gain"), at_least=5.0, reason="a toy gains little")
    toys["toy-gain"] = experiment(bars=(bar,), mutants=())
    result = kohort("--all")
    assert result.exit_code == 1
    assert "MISSED" in result.output
    assert "mean gain: a toy gains little" in result.output
    assert result.output.splitlines()[-1] == "bars met: 0, missed: 1"


def test_a_value_that_is_no_number_meets_no_bar(toys: dict[str, Experiment]) -> None:
    toys["toy-gain"] = experiment(bars=(Bar("none", lambda rows: float("nan"), at_most=5.0),), mutants=())
    result = kohort("toy", "--json", "-")
    assert result.exit_code == 1
    assert json.loads(result.output)["experiments"][0]["bars"][0]["value"] is None


@pytest.mark.usefixtures("toys")
def test_mutants_are_run_where_asked_and_counted_in_the_last_line() -> None:
    result = kohort("toy", "--mutants", "--seeds", "2", "--first-seed", "7")
    assert result.exit_code == 0
    assert CALLS == [("", 7), ("", 8), ("broken", 7), ("broken", 8)]
    assert "mutant A, broken: caught\n" in result.output
    assert "mean gain  -1 % *" in result.output
    assert result.output.splitlines()[-1] == "bars met: 1, missed: 0; mutants caught: 1 of 1"


def test_a_mutant_that_meets_its_bar_fails_the_command(toys: dict[str, Experiment]) -> None:
    toys["toy-gain"] = experiment(mutants=(Mutant("harmless", _measure, ("mean gain",)),))
    result = kohort("toy", "--mutants")
    assert result.exit_code == 1
    assert "mutant A, harmless: NOT CAUGHT\n" in result.output
    assert "mean gain  1.5 % !" in result.output


def test_a_mutant_that_no_bar_tells_is_shown_with_its_reason(toys: dict[str, Experiment]) -> None:
    toys["toy-gain"] = experiment(mutants=(Mutant("broken", _broken, reason="gains are not its business"),))
    result = kohort("toy", "--mutants")
    assert result.exit_code == 0
    assert "mutant A, broken: no bar depends on it: gains are not its business" in result.output
    assert result.output.splitlines()[-1] == "bars met: 1, missed: 0; without a bar: 1"
    assert "mean gain  -1 %\n" in result.output.replace(" \n", "\n")
    assert "no mutant is named for mean gain: UNTESTED" in result.output


def test_the_matrix_has_what_each_mutant_misses_besides_and_who_is_left_out(toys: dict[str, Experiment]) -> None:
    bars = (
        Bar("mean gain", mean("gain"), at_least=1.0, unit="%"),
        Bar("mean loss", mean("lost"), at_most=0.5),
        Bar("a seed", mean("gain"), at_least=-5.0, untested="holds of any toy"),
    )
    harmless = Mutant("harmless", _measure, ("mean loss",))
    toys["toy-gain"] = experiment(bars=bars, mutants=(Mutant("broken", _broken, ("mean gain",)), harmless))
    lines = [" ".join(line.split()) for line in kohort("toy", "--mutants").output.splitlines()]
    table = lines[lines.index("BAR A B") + 1 :][:3]
    assert table == ["mean gain -1 % * .", "mean loss 1 0 !", "a seed . ."]
    assert "no mutant is named for a seed: holds of any toy" in lines


@pytest.mark.parametrize(
    ("name", "claim"),
    [(one.name, bar.claim) for one in papers.experiments().values() for bar in one.bars if bar.bounded],
)
def test_every_bar_of_the_papers_is_named_by_a_mutant_or_says_why_not(name: str, claim: str) -> None:
    found = papers.experiments()[name]
    bar = next(bar for bar in found.bars if bar.claim == claim)
    named = [mutant.name for mutant in found.mutants if claim in mutant.misses]
    assert bool(named) != bool(bar.untested), named


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("oasis-load", "utility over RRH's, 400 jobs, price ratio 2e3"),
        ("oasis-optimum", "optimum over OASiS, worst instance"),
        ("specon-mixed-20", "best job"),
        ("specon-fixed", "average completion time"),
        ("kod2-ten-jobs", "mean JCT below locality-only's, a resize costs 30 s"),
        ("dragon-hundred", "run below locality, a job every 125 s"),
    ],
)
def test_every_bar_that_docs_results_says_is_missed_has_its_reason_with_the_number(name: str, claim: str) -> None:
    (bar,) = (bar for bar in papers.experiments()[name].bars if bar.claim == claim)
    assert re.search(r"\d is reached|\d % is reached", bar.reason)


def test_every_mutant_of_the_papers_names_bars_that_there_are_or_says_why_none_tells() -> None:
    for one in papers.experiments().values():
        bounded = {bar.claim for bar in one.bars if bar.bounded}
        for mutant in one.mutants:
            assert set(mutant.misses) <= bounded, (one.name, mutant.name)
            assert bool(mutant.misses) != bool(mutant.reason), (one.name, mutant.name)


def test_what_a_mutant_does_not_measure_is_as_in_the_experiments_own_row_of_that_seed(
    toys: dict[str, Experiment],
) -> None:
    lead = Bar("lead", lambda rows: min(row["gain"] - row["lost"] for row in rows), at_least=0.0)
    level = Mutant("loses what its own seed gains", lambda seed: {"lost": float(seed % 10)}, ("lead",))
    behind = Mutant("loses more", lambda seed: {"lost": seed % 10 + 0.5}, ("lead",))
    toys["toy-gain"] = experiment(bars=(lead,), mutants=(level, behind))
    result = kohort("toy", "--mutants")
    assert "mutant A, loses what its own seed gains: NOT CAUGHT" in result.output
    assert "mutant B, loses more: caught" in result.output
    assert ["lead", "0", "!", "-0.5", "*"] in [line.split() for line in result.output.splitlines()]


def test_a_mutant_that_names_no_bar_is_not_caught(toys: dict[str, Experiment]) -> None:
    toys["toy-gain"] = experiment(mutants=(Mutant("aimless", _broken, ("no such claim",)),))
    assert kohort("toy", "--mutants").exit_code == 1


@pytest.mark.usefixtures("toys")
def test_json_has_the_bars_the_rows_and_the_counts(tmp_path: Path) -> None:
    file = tmp_path / "paper.json"
    assert kohort("toy", "--json", str(file), "--mutants").exit_code == 0
    report = json.loads(file.read_text())
    assert {key: report[key] for key in ("met", "missed", "mutants_caught", "mutants_missed")} == {
        "met": 1, "missed": 0, "mutants_caught": 1, "mutants_missed": 0,
    }  # fmt: skip
    found = report["experiments"][0]
    assert found["bars"][0] == {
        "claim": "mean gain", "paper": "2 %", "unit": "%",
        "value": 1.5, "p10": pytest.approx(0.3), "p90": pytest.approx(2.7),
        "at_least": 1.0, "at_most": None, "met": True,
        "reason": "", "paper_number": None, "direction_reproduced": None, "size_reproduced": None,
    }  # fmt: skip
    assert found["rows"] == [{"gain": float(seed), "lost": 0.0} for seed in range(4)]
    assert found["seeds"] == [1000, 1001, 1002, 1003]


@pytest.mark.usefixtures("toys")
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    assert kohort("toy", "--seeds", "2", "--out", str(tmp_path)).exit_code == 1  # mean gain of seeds 0, 1 is 0.5
    assert [seed for _, seed in CALLS] == [1000, 1001]
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"case": "torn')
    assert kohort("toy", "--seeds", "4", "--out", str(tmp_path)).exit_code == 0
    assert [seed for _, seed in CALLS] == [1000, 1001, 1002, 1003]
    assert kohort("toy", "--seeds", "4", "--out", str(tmp_path)).exit_code == 0
    assert len(CALLS) == 4
    assert (tmp_path / "toy-gain.csv").read_text().splitlines()[:2] == ["seed,gain,lost", "1000,0.0,0.0"]


@pytest.mark.usefixtures("toys")
def test_rows_of_other_code_do_not_count(tmp_path: Path) -> None:
    stale = {"case": "paper toy-gain seed 1000", "code": "another", "row": {"gain": 99.0, "lost": 0.0}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(stale) + "\n")
    result = kohort("toy", "--json", "-", "--out", str(tmp_path))
    assert json.loads(result.output)["experiments"][0]["rows"][0]["gain"] == 0.0


def test_the_figure_is_drawn_from_the_rows(toys: dict[str, Experiment], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra sim is not installed")
    seen: list[Any] = []

    def draw(rows: Any, figure: Any) -> None:
        seen.extend(row["gain"] for row in rows)
        figure.subplots().plot(seen)

    toys["toy-gain"] = experiment(figure=draw)
    assert kohort("toy", "--out", str(tmp_path)).exit_code == 0
    assert seen == [0.0, 1.0, 2.0, 3.0]
    assert (tmp_path / "toy-gain.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("toys")
def test_the_list_says_which_there_are() -> None:
    result = kohort("--list")
    assert "toy-gain  toy     A toy  Table 0      4        1" in result.output
    assert json.loads(kohort("--list", "--json", "-").output) == [
        {"name": "toy-gain", "system": "toy", "title": "A toy"}
    ]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tou"], "kohort: NAME: 'tou' is not allowed; allowed: toy-gain; or a system: toy"),
        (
            [],
            "kohort: NAME: give names of experiments or systems, or --all, and not both; the experiments are toy-gain",
        ),
        (
            ["toy", "--all"],
            "kohort: NAME: give names of experiments or systems, or --all, and not both; the experiments are toy-gain",
        ),
        (["toy", "--scheduler", "tcp://127.0.0.1:1"], "kohort: --workers and --scheduler exclude each other"),
        (["toy", "--out", "/dev/null/x"], "kohort: --out: /dev/null"),
    ],
)
def test_what_is_wrong_with_the_command_is_said_with_status_2(arguments: list[str], said: str) -> None:
    result = kohort(*arguments)
    assert result.exit_code == 2
    assert result.output.startswith(said)


def test_a_seed_that_fails_is_named_with_status_1(toys: dict[str, Experiment]) -> None:
    toys["toy-gain"] = experiment(measure=_fails)
    result = kohort("toy")
    assert result.exit_code == 1
    assert result.output == "kohort: paper toy-gain seed 1000: RuntimeError: no luck with 1000\n"


def test_processes_give_the_same_rows_as_this_one() -> None:
    arguments = ["paper", "drs-equal", "--seeds", "2", "--json", "-"]
    one, two = (CliRunner().invoke(commands.app, [*arguments, "--workers", count]) for count in "12")
    assert json.loads(one.output) == json.loads(two.output)
