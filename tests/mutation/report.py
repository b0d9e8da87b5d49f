"""Keep the results of the changes, and show them as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GATE: Final = "the gate"
FULL: Final = "full only"
SURVIVED: Final = "nobody"
NOT_EXECUTED: Final = "nobody: not executed"
LABORATORY: Final = ("lab/",)
BAR: Final = 0.8  # `make test` must catch at least this share of the changes that all tests of `make full` catch


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The result of one change of the code.

    ``caught`` is the command (`make test` or `make full`) that catches the change, or says that none does. ``test`` is
    the test that fails, and ``tests`` the number of tests that execute the changed line.
    """

    head: str
    seed: int
    number: int
    file: str
    line: int
    operator: str
    diff: str
    caught: str
    test: str
    tests: int

    @property
    def said(self) -> str:
        """Return the result as one line of text."""
        by = f"{self.caught}, {self.test}" if self.test else self.caught
        return f"{self.file}:{self.line} {self.operator}, run by {self.tests} tests: caught by {by}"


def share(results: Sequence[MutationResult]) -> tuple[int, int]:
    """Return the number of changes that `make test` has caught, and the number that all tests of `make full` have
    caught.
    """
    gate = sum(one.caught == GATE for one in results)
    return gate, gate + sum(one.caught == FULL for one in results)


def reached(results: Sequence[MutationResult]) -> bool:
    """Tell whether `make test` catches the required share of the changes."""
    gate, full = share(results)
    return gate >= BAR * full


def tables(results: Sequence[MutationResult]) -> str:
    """Return Markdown tables of all results, of the sums, and of the changes that no test has caught."""
    rows = [f"| {one.file}:{one.line} | {one.operator} | {one.caught} | {_code(one.test)} |" for one in results]
    left = [one for one in results if one.caught in (SURVIVED, NOT_EXECUTED)]
    return "\n".join(
        [
            "| file and line | operator | caught by | test |\n| --- | --- | --- | --- |",
            *rows,
            "\n| changes of | executed | caught by the gate | by all units | by nobody | not executed |",
            "| --- | --- | --- | --- | --- | --- |",
            *_sums(results),
            *(f"\n{one.file}:{one.line} {one.operator}: {one.caught}\n{one.diff}" for one in left),
        ]
    )


def _sums(results: Sequence[MutationResult]) -> list[str]:
    laboratory = [one for one in results if one.file.startswith(LABORATORY)]
    product = [one for one in results if one not in laboratory]
    parts = {"the product": product, "simulator, study, demo": laboratory, "all": results}
    return [_sum(name, part) for name, part in parts.items()]


def _sum(name: str, results: Sequence[MutationResult]) -> str:
    gate, full = share(results)
    survived = sum(one.caught == SURVIVED for one in results)
    of_full = f" ({gate / full:.0%})" if full else ""
    missed = sum(one.caught == NOT_EXECUTED for one in results)
    return f"| {name} | {full + survived} | {gate}{of_full} | {full} | {survived} | {missed} |"


def _code(text: str) -> str:
    return f"`{text.replace('|', '/')}`" if text else ""
