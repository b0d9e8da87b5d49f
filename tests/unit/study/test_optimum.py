"""``kohort optimum`` when the solver runs out of time: the reported optimum is at least what OASiS earns."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from extender.cli import commands
from lab.sim.optimum import Optimum

SMALL = ("optimum", "--jobs", "4", "--servers", "2", "--slots", "6")


def said(*more: str) -> str:
    found = CliRunner().invoke(commands.app, [*SMALL, *more])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_no_optimum_is_below_what_oasis_earns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver has found a poor solution and no bound yet."""
    poor = Optimum(0.5, math.inf, False, {}, 6, 99)
    monkeypatch.setattr("lab.sim.optimum.optimum", lambda *_, **__: poor)
    (row,) = json.loads(said("--json", "-"))
    assert row["optimum"] == row["oasis"] > 0.5
    assert (row["bound"], row["proved"]) == (None, False)
    assert "sums: 1.000; this is a lower bound, as 1 of 1 are not proved: give more --seconds" in said()


def test_a_proved_optimum_stands_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.sim.optimum.optimum", lambda *_, **__: Optimum(1e6, 1e6, True, {}, 6, 99))
    (row,) = json.loads(said("--json", "-"))
    assert (row["optimum"], row["bound"], row["proved"]) == (1e6, 1e6, True)
    assert "not proved" not in said()
