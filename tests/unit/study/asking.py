"""Run the commands of studies in this process, with the arguments that a user types."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from extender.cli import commands


def kohort(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, [arguments[0], "--workers", "1", *arguments[1:]])


def answer(*arguments: str) -> Any:
    result = kohort(*arguments, "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def spreads(policy: str, trace: str, *more: str) -> Any:
    """Return the measures of `kohort simulate` for one policy on one trace, by their names."""
    return answer("simulate", "--policy", policy, "--trace", trace, *more)["lines"][0]["spreads"]


def mean(measure: str, policy: str, trace: str, *more: str) -> float:
    return float(spreads(policy, trace, *more)[measure]["mean"])
