"""A step of `make test` does not see the variables that make exports."""

from __future__ import annotations

import sys

import pytest

from tests.commands.steps import CommandStep, run

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
