"""A private copy of the last commit, in which one file is changed and the tests run on the changed code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.mutation import choosing, recording
from tests.mutation.changes import CodeChange

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = ("tests/unit", "tests/property", "tests/papers", "tests/fuzz", "tests/simulation")
# The files of tests/simulation that run seeds; they are not run on changes.
SIMULATED: Final = ("test_seeds.py", "test_mutants.py", "test_scenarios.py", "test_digests.py")
MARKED: Final = "not soak and not skew"
START: Final = 120  # pytest may take this many seconds to collect the tests, on a busy machine, too.
IMPORT_FAILS: Final = "the import of a test fails"
TOO_LONG: Final = "the tests take too long"


def head() -> str:
    """Return the last commit of this checkout."""
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


class Tree:
    """A copy of the last commit, in a folder that also has the tests' records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "tree"

    def copy(self) -> None:
        """Write every file of the last commit, so that a change left by a killed run is undone."""
        self.path.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", self.path], input=archive, check=True)

    def record(self, log: Path) -> None:
        """Run the tests of UNITS once on the unchanged code, and record which lines each executes."""
        ignored = [f"--ignore=tests/simulation/{file}" for file in SIMULATED]
        code = self._pytest(["-v", "-m", MARKED, "-p", recording.__name__, *UNITS, *ignored], log, {}, None)
        if not (self.folder / recording.TESTS).exists():
            raise RuntimeError(f"pytest ended with {code} before it had run the tests: see {log}")

    @contextmanager
    def changed(self, change: CodeChange) -> Iterator[None]:
        """Change the file for as long as the context lasts."""
        file = self.path / change.file
        before, then = file.read_bytes(), file.stat()
        file.write_text(change.source)
        try:
            yield
        finally:
            file.write_bytes(before)
            # The file gets its old time back, so that its compiled bytecode is valid again.
            os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))

    def play(self, tests: Mapping[str, Mapping[str, float]]) -> str:
        """Run these tests until one fails; return its name, or "" if all pass.

        If an import fails or the tests take too long, return a text that says so.
        """
        (self.folder / choosing.CHOSEN).write_text(json.dumps(tests))
        failed = self.folder / choosing.FAILED
        failed.unlink(missing_ok=True)
        files = sorted({name.partition("::")[0] for name in tests})
        options = ["-x", "-q", "-m", "", "-p", choosing.__name__, *files]
        most = START + sum(choosing.most_seconds(told["seconds"]) for told in tests.values())
        try:
            # Python writes no bytecode here: the bytecode of a changed file would be used for the next change, if the
            # file then has the same size and is written within the same second.
            code = self._pytest(options, self.folder / "last.log", {"PYTHONDONTWRITEBYTECODE": "1"}, most)
        except subprocess.TimeoutExpired:
            return TOO_LONG
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise RuntimeError(f"pytest found none of {list(tests)[:3]}")
        if failed.exists():
            return str(json.loads(failed.read_text()))
        return IMPORT_FAILS if code else ""

    def _pytest(self, options: list[str], log: Path, environment: dict[str, str], most: float | None) -> int:
        """Run pytest and return its exit code.

        If waiting for it is interrupted or takes more than ``most`` seconds, kill pytest and the processes that the
        tests started.
        """
        # PYTHONPATH makes all processes of the tests import the copy and not the installed package.
        told = {"PYTHONPATH": str(self.path), recording.FOLDER: str(self.folder)}
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *options]
        with log.open("w") as out:
            process = subprocess.Popen(
                command,
                cwd=self.path,
                env=os.environ | environment | told,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            return process.wait(most)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
