"""Calls that the import contracts of pyproject.toml cannot forbid: built-ins that do I/O, and clocks
passed as objects.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = (ROOT / "policy", ROOT / "lab" / "sim", ROOT / "lab" / "papers")

BUILTINS = {"breakpoint", "eval", "exec", "id", "input", "open", "print", "__import__"}
CLOCK_METHODS = {"monotonic", "monotonic_ns", "now", "perf_counter", "sleep", "time", "time_ns", "today", "utcnow"}
FILE_METHODS = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}


def impurities(source: str) -> list[str]:
    """Name each call that reads a clock, does I/O or hides what it runs, with its line."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    found = [(call.lineno, name) for call in calls if (name := _impure(call.func))]
    return [f"line {line}: {name}()" for line, name in sorted(found)]


def _impure(called: ast.expr) -> str | None:
    match called:
        case ast.Name(id=name) if name in BUILTINS:
            return name
        case ast.Attribute(attr=name) if name in CLOCK_METHODS | FILE_METHODS:
            return f".{name}"
    return None


@pytest.mark.parametrize(
    "path", sorted(path for room in PURE for path in room.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_policy_and_the_simulator_neither_read_a_clock_nor_do_io(path: Path) -> None:
    assert impurities(path.read_text()) == []


CASES = {
    "a file": ("open('x')", ["line 1: open()"]),
    "a file through an object": ("def f(path):\n    return path.read_text()", ["line 2: .read_text()"]),
    "a clock through an object": ("def f(clock):\n    return clock.now()", ["line 2: .now()"]),
    "output": ("print(1)\nprint(2)", ["line 1: print()", "line 2: print()"]),
    "time as an argument is what we want": ("def f(now):\n    return now + 1", []),
    "a field named time is no clock": ("def f(event):\n    return event.time", []),
}


@pytest.mark.parametrize(("source", "want"), CASES.values(), ids=CASES.keys())
def test_impurities(source: str, want: list[str]) -> None:
    assert impurities(source) == want
