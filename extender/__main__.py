"""``kohort`` and ``kubectl kohort``; ``python -m extender`` is the same."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command line; exit 0 done, 1 it failed or the answer is No, 2 the command or the settings are wrong."""
    from extender.cli.commands import app

    as_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl kohort" if as_plugin else "kohort")


if __name__ == "__main__":
    main()
