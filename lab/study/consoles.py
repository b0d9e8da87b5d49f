"""Consoles for a study's output: as wide as the terminal, or wide enough for every line if it is a pipe."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

PIPE_WIDTH: Final = 400


def out() -> Console:
    """Return the console for results (standard output)."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """Return the console for the progress bar and for hints (standard error)."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)
