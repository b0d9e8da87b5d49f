"""The steps of `make test` and of `make full`, each a command of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.commands.places import CHECKOUT

# Four processes run the tests that wait, and two the tests that compute (tests/commands/spreading.py).
PROCESSES: Final = 6
EVERYTHING: Final = "not soak and not skew"
BESIDE_OTHERS: Final = f"{EVERYTHING} and not alone"
# make exports these variables. A test that runs make itself must not inherit them, because they hold this run's
# options.
OF_MAKE: Final = frozenset({"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"})


@dataclass(frozen=True, slots=True)
class CommandStep:
    """One command, run in the checkout. ``tests`` says whether it is a run of pytest."""

    name: str
    command: tuple[str, ...]
    tests: bool = False


def steps_of(command: str, pytest_arguments: Sequence[str] = ()) -> tuple[CommandStep, ...]:
    """Return the steps of `make test` (command "test") or `make full` ("full").

    `make full` runs the tests marked `alone` one after another, when all others have ended. If pytest has arguments,
    they may select any test, so one step runs all that they select.
    """
    made = (
        CommandStep("control plane (built once, then cached)", (sys.executable, "-m", "tests.controlplane", "build")),
        CommandStep("Chromium", (sys.executable, "-m", "tests.browser.chromium")),
        CommandStep("checks", ("make", "check")),
    )
    pytest = (sys.executable, "-m", "pytest")
    together = (*pytest, "-n", str(PROCESSES))
    if command == "full" and not pytest_arguments:
        return (
            *made,
            CommandStep("tests", (*together, "-m", BESIDE_OTHERS), tests=True),
            CommandStep("tests that run alone", (*pytest, "-m", "alone"), tests=True),
        )
    chosen = ("-m", EVERYTHING) if command == "full" else ()
    return (*made, CommandStep("tests", (*together, *chosen, *pytest_arguments), tests=True))


def run(step: CommandStep, environment: Mapping[str, str]) -> int:
    """Run a step and return its exit code. Print its name before it and its duration after it.

    No duration is printed after tests, so that pytest's closing line is the last line of the whole run.
    """
    print(f"== {step.name}", flush=True)
    began = time.monotonic()
    own = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    code = subprocess.run(step.command, cwd=CHECKOUT, env={**own, **environment}, check=False).returncode
    if not step.tests:
        print(f"== {step.name}: {'done' if code == 0 else 'FAILED'} after {time.monotonic() - began:.0f} s", flush=True)
    return code
