"""Draws tables that fit the terminal: cells are folded at spaces, and columns are left out if folding is not enough.

A word is broken only if no further column may be left out and the longest words do not fit beside one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP: Final = 2
EASY: Final = 20  # a column is not made narrower than this many characters while another column can be left out instead


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table without border lines that fits itself to the width of the terminal.

    least: the heads of the columns that may be left out, in the order in which they are left out.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    least: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what Rich draws: the table, and a line that names the columns that are left out."""
        shown = self._shown(options.max_width)
        made = Table(box=None, pad_edge=False, header_style="bold")
        for at, width in zip(shown, self._widths(shown, options.max_width), strict=True):
            made.add_column(self.heads[at], overflow="fold", width=width)
        for row in self.rows:
            made.add_row(*(row[at] for at in shown))
        yield made
        if gone := [head for at, head in enumerate(self.heads) if at not in shown and head]:
            yield Text(
                f"left out, since the terminal is {options.max_width} wide: {', '.join(gone)}; -o json has all",
                style="dim",
            )

    def _shown(self, room: int) -> list[int]:
        """Return the indexes of the columns to show: those that fit into ``room`` characters at a readable width."""
        shown = list(range(len(self.heads)))
        for head in self.least:
            if _total([self._easy(at) for at in shown]) <= room:
                break
            shown = [at for at in shown if self.heads[at] != head]
        return shown

    def _widths(self, shown: Sequence[int], room: int) -> list[int]:
        """Return the width of each shown column, so that all fit into ``room`` characters.

        While they do not fit, the widest column loses one character: first down to its readable width (EASY), then down
        to its longest word, then down to one character.
        """
        widths = [self._whole(at) for at in shown]
        for floor in ([self._easy(at) for at in shown], [self._word(at) for at in shown], [1] * len(shown)):
            while _total(widths) > room:
                wide = [at for at, width in enumerate(widths) if width > floor[at]]
                if not wide:
                    break
                widths[max(wide, key=widths.__getitem__)] -= 1
        return widths

    def _cells(self, at: int) -> list[str]:
        return [self.heads[at], *(row[at] for row in self.rows)]

    def _whole(self, at: int) -> int:
        return max(cell_len(cell) for cell in self._cells(at)) or 1

    def _word(self, at: int) -> int:
        return max((cell_len(word) for cell in self._cells(at) for word in cell.split()), default=1)

    def _easy(self, at: int) -> int:
        return max(self._word(at), min(self._whole(at), EASY))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
