"""Tell which tests execute a line, from the records of tests/mutation/recording.py."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from coverage import CoverageData

from tests.mutation.changes import CodeChange
from tests.mutation.recording import CODE, LINES, TESTS

AT_IMPORT: Final = ""  # coverage records lines that run at import, and not in a test, under this name.


class Executed:
    """The tests that executed each line of a tree, without those that failed on the unchanged code."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._tree = tree
        self._tests: dict[str, dict[str, float]] = json.loads((folder / TESTS).read_text())
        self._data = CoverageData(str(folder / LINES))
        self._data.read()
        self._importers = importers(tree)

    @property
    def failed(self) -> list[str]:
        """Return the tests that failed on the unchanged code."""
        return [name for name, told in self._tests.items() if not told["passed"]]

    @property
    def count(self) -> int:
        """Return the number of tests."""
        return len(self._tests)

    def tests(self, change: CodeChange) -> dict[str, dict[str, float]]:
        """Return the record of each test that executes the changed line, by its name."""
        lines = self._lines(change.file)
        found = lines.get(change.line) or lines.get(change.statement) or set()
        if change.at_import and found:
            found = self._of_file(change.file).union(*(self._of_file(file) for file in self._importers[change.file]))
        return {name: told for name, told in self._tests.items() if name in found and told["passed"]}

    def _lines(self, file: str) -> dict[int, set[str]]:
        lines = self._data.contexts_by_lineno(str(self._tree / file))
        return {line: set(contexts) for line, contexts in lines.items()}

    def _of_file(self, file: str) -> set[str]:
        return set[str]().union(*self._lines(file).values())


def importers(tree: Path) -> dict[str, set[str]]:
    """Return, for each file, the files that import it directly."""
    found = defaultdict[str, set[str]](set)
    for part in CODE:
        for path in (tree / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                for name in _imported(node):
                    if file := _file(tree, name):
                        found[file].add(str(path.relative_to(tree)))
    return found


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [one.name for one in names]
        case ast.ImportFrom(module=str(module), names=names):
            return [module, *(f"{module}.{one.name}" for one in names)]
        case _:
            return []


@cache
def _file(tree: Path, module: str) -> str:
    path = module.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if (tree / file).exists()), "")
