"""What a stopped `make full` has already done, so that the next one goes on from there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The environment variable with the folder, for the tests themselves. Not KOHORT_…: the services that the tests start
# read such a name as a setting of theirs, and refuse to start on one that they do not know.
STATE: Final = "FULL_RUN_STATE"


@dataclass(frozen=True, slots=True)
class FullState:
    """A folder named after what is checked out, with a list of the steps and a list of the tests that have passed."""

    folder: Path

    @classmethod
    def opened(cls, root: Path, key: str) -> FullState:
        """Return the state for what is checked out; that of any other commit or change is deleted."""
        for other in root.glob("*"):
            if other.name != key:
                shutil.rmtree(other)
        (root / key).mkdir(parents=True, exist_ok=True)
        state = cls(root / key)
        state.begin()
        return state

    def begin(self) -> None:
        """Fix which tests this run leaves out: every process of the run must leave out the same."""
        passed = self.folder / "passed.txt"
        (self.folder / "leave-out.txt").write_text(passed.read_text() if passed.exists() else "")

    def left_out(self) -> frozenset[str]:
        """Return the ids of the tests that passed in an earlier run."""
        return frozenset((self.folder / "leave-out.txt").read_text().splitlines())

    def passed(self, test: str) -> None:
        """Remember a test that has passed."""
        self._add("passed.txt", test)

    def done(self) -> frozenset[str]:
        """Return the names of the steps that need not be run again."""
        file = self.folder / "steps.txt"
        return frozenset(file.read_text().splitlines()) if file.exists() else frozenset()

    def finish(self, step: str) -> None:
        """Remember a step that has ended well."""
        self._add("steps.txt", step)

    def delete(self) -> None:
        """Forget everything."""
        shutil.rmtree(self.folder)

    def _add(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")
