"""Runs the command line ``kohort`` and ``kubectl kohort``; ``python -m extender`` runs it too."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; exit with 0 for success, 1 for failure or a negative answer, 2 for a wrong command or
    settings.
    """
    _open_streams()
    from extender.cli.commands import app

    as_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl kohort" if as_plugin else "kohort")


def _open_streams() -> None:
    """Open the null device for each standard stream that was closed before the start, as by `kohort queue >&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - the file stays open until the process ends


if __name__ == "__main__":
    main()
