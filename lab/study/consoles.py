"""Where a study speaks: as wide as the terminal; wide enough for every line where it is a pipe."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

PIPE_WIDTH: Final = 400


def out() -> Console:
    """For results."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """For the progress bar, and for hints."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)
