"""``python -m tests.commands test|full|runs``: what `make test` and `make full` run, and the log of past runs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.commands.fullstate import STATE, FullState
from tests.commands.places import FULL, RUNS, tree_key
from tests.commands.readiness import NotReadyError, check_space, only_run
from tests.commands.retries import retries_since
from tests.commands.runs import LoggedRun, busy_loops, note, noted, table
from tests.commands.steps import run, steps_of


def main() -> int:
    """Run one command; return the exit code of the first failed step, or 2 if the run could not begin."""
    given, pytest_arguments = _parser().parse_known_args()
    if given.command == "runs":
        print(table(noted(given.log)))
        return 0
    try:
        check_space()  # The space is checked before the lock is taken, because the lock is a file, too.
        with only_run(f"make {given.command}"):
            for _ in range(given.times):
                if code := _logged(given.command, given.busy, given.log, pytest_arguments):
                    return code
    except NotReadyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m tests.commands", description=__doc__,
        epilog="Other options go to pytest.",
    )  # fmt: skip
    parser.add_argument("command", choices=("test", "full", "runs"))
    parser.add_argument("--times", type=int, default=1, help="run it so many times in a row, until one fails")
    parser.add_argument("--busy", type=int, default=0, help="keep so many busy loops beside it")
    parser.add_argument(
        "--log", type=Path, default=RUNS, help="file that each whole run is added to, and that `runs` prints"
    )
    return parser


def _logged(command: str, busy: int, log: Path, pytest_arguments: Sequence[str]) -> int:
    """Run the steps once, add the run to the log, and return the exit code."""
    tree, began = tree_key(), time.time()
    with busy_loops(busy):
        code = _steps(command, tree, pytest_arguments)
    # Only whole runs are logged, because a run of selected tests says nothing about the others.
    if not pytest_arguments:
        note(LoggedRun(command, tree, began, time.time() - began, busy, code, retries_since(began)), log)
    return code


def _steps(command: str, tree: str, pytest_arguments: Sequence[str]) -> int:
    """Run the steps; after a failure, run only those steps that are tests, so that one run shows all failed tests."""
    state = FullState.opened(FULL, tree) if command == "full" else None
    environment = {STATE: str(state.folder)} if state is not None else {}
    done = state.done() if state is not None else frozenset[str]()
    first_failure = 0
    for step in steps_of(command, pytest_arguments):
        if step.name in done:
            print(f"== {step.name}: done by an earlier run", flush=True)
            continue
        code = run(step, environment)
        if code and not step.tests:
            return code
        first_failure = first_failure or code
        # Only a run of all tests shows that a step is done.
        if state is not None and not code and not (step.tests and pytest_arguments):
            state.finish(step.name)
    if state is not None and not first_failure:
        state.delete()  # All steps have passed, so the next run starts from the beginning.
    return first_failure


if __name__ == "__main__":
    sys.exit(main())
