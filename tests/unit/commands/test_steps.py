"""A step of `make test` does not see the variables that make exports."""

from __future__ import annotations

import sys

import pytest

from tests.commands.steps import CommandStep, run, steps_of

SEEN = "import os, sys; sys.exit(' '.join(name for name in {names} if name in os.environ) or 0)"


def test_a_step_does_not_see_the_arguments_of_the_make_that_runs_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("ARGS", "MAKEFLAGS", "MAKELEVEL")
    for name in names:
        monkeypatch.setenv(name, " -- ARGS=--busy")
    step = CommandStep("names", (sys.executable, "-c", SEEN.format(names=names)))
    code = run(step, {"KOHORT_STEP": "1"})
    assert code == 0, capfd.readouterr().err


def test_a_step_sees_what_the_run_gives_it() -> None:
    reads = "import os, sys; sys.exit(os.environ['GIVEN_TO_STEP'] != 'yes')"
    assert run(CommandStep("reads", (sys.executable, "-c", reads)), {"GIVEN_TO_STEP": "yes"}) == 0


def test_the_full_run_selects_each_test_in_one_of_two_steps_and_those_that_measure_run_last_and_alone() -> None:
    together, alone = [step.command for step in steps_of("full") if step.tests]
    assert together[-2:] == ("-m", "not soak and not skew and not alone")
    assert "-n" in together
    assert alone[-2:] == ("-m", "alone")
    assert "-n" not in alone


def test_a_full_run_of_chosen_tests_is_one_step_because_they_may_all_be_of_one_kind() -> None:
    (tests,) = [step.command for step in steps_of("full", ["-k", "reaction"]) if step.tests]
    assert tests[-4:] == ("-m", "not soak and not skew", "-k", "reaction")
