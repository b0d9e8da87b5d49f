"""The part of the command line that all benchmarks share: common options, and printing, writing and judging the
report.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import bounds
from benchmarks.report import BenchmarkReport


def positive(text: str) -> int:
    """Return the text as a whole number above zero. Raises ArgumentTypeError."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above zero")
    return value


def parser(
    name: str, doc: str | None, nodes: Sequence[int], rounds: int, *, several: bool = True
) -> argparse.ArgumentParser:
    """Return a parser of a benchmark's command line with the common options.

    ``several`` tells whether one run can measure several numbers of nodes. Without ``nodes`` the number is fixed.
    """
    made = argparse.ArgumentParser(
        allow_abbrev=False, prog=f"python -m benchmarks.{name}", description=(doc or "").split("\n", 1)[0]
    )
    if several:
        made.add_argument("--nodes", type=positive, nargs="+", default=list(nodes), help="numbers of nodes")
    elif nodes:
        made.add_argument("--nodes", type=positive, default=nodes[0], help="number of nodes")
    made.add_argument("--rounds", type=positive, default=rounds, help="rounds; the median of them is reported")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    made.add_argument("--check", action="store_true", help="exit 1 when a bound of benchmarks/bounds.toml is missed")
    return made


def finish(report: BenchmarkReport, options: argparse.Namespace) -> int:
    """Print the report, write it to a file if asked to, and with --check compare it with its bounds; return the exit
    code.
    """
    console = Console()
    report.show(console)
    if options.json:
        report.write(options.json)
    if not options.check:
        return 0
    lines, good = bounds.judge(report, bounds.read().get(report.name, []))
    console.print("\n".join(lines), highlight=False)
    return 0 if good else 1


def run(made: argparse.ArgumentParser, measure: Callable[[argparse.Namespace], BenchmarkReport]) -> None:
    """Run a benchmark as a command: parse the options with ``made``, measure, and exit with the code that `finish`
    returns.
    """
    options = made.parse_args()
    raise SystemExit(finish(measure(options), options))
