"""The progress of an interrupted `make full`, from which the next run continues."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The environment variable that gives the tests this folder. Its name must not begin with KOHORT_: the services that the
# tests start would read it as a setting, and refuse to start with an unknown one.
STATE: Final = "FULL_RUN_STATE"


@dataclass(frozen=True, slots=True)
class FullState:
    """A folder named after the checked-out state, with lists of the steps and of the tests that have passed."""

    folder: Path

    @classmethod
    def opened(cls, root: Path, key: str) -> FullState:
        """Return the state of `make full` for the checked-out commit and changes (``key``), and delete the states of
        all others.
        """
        for other in root.glob("*"):
            if other.name != key:
                shutil.rmtree(other)
        (root / key).mkdir(parents=True, exist_ok=True)
        state = cls(root / key)
        state.begin()
        return state

    def begin(self) -> None:
        """Write the list of tests that this run leaves out, so that all processes of the run leave out the same
        tests.
        """
        passed = self.folder / "passed.txt"
        (self.folder / "leave-out.txt").write_text(passed.read_text() if passed.exists() else "")

    def left_out(self) -> frozenset[str]:
        """Return the ids of the tests that passed in an earlier run."""
        return frozenset((self.folder / "leave-out.txt").read_text().splitlines())

    def passed(self, test: str) -> None:
        """Record a test that has passed."""
        self._add("passed.txt", test)

    def done(self) -> frozenset[str]:
        """Return the names of the steps that an earlier run has passed, so that they need not run again."""
        file = self.folder / "steps.txt"
        return frozenset(file.read_text().splitlines()) if file.exists() else frozenset()

    def finish(self, step: str) -> None:
        """Record a step that has passed."""
        self._add("steps.txt", step)

    def delete(self) -> None:
        """Delete all records."""
        shutil.rmtree(self.folder)

    def _add(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")
