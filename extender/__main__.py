"""Runs the command line ``kohort`` and ``kubectl kohort``; ``python -m extender`` runs it too."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command line; exit with 0 for success, 1 for failure or a negative answer, 2 for a wrong command or
    settings.
    """
    from extender.cli.commands import app

    as_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl kohort" if as_plugin else "kohort")


if __name__ == "__main__":
    main()
