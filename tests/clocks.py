"""Find the places where a test reads or waits for real time, so that a busy machine could make it fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

READS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
OF_TIME = {*READS, *(f"{name}_ns" for name in READS), "sleep"}
OF_DATETIME = {"now", "utcnow", "today"}


@dataclass(frozen=True, slots=True)
class ClockUse:
    """One call that reads or waits for a clock; ``where`` is the dotted name of the functions and classes around it."""

    where: str
    line: int
    call: str


def uses(source: str) -> list[ClockUse]:
    """Return every call that reads a real clock or sleeps on one.

    Code in virtual time does not count: functions with the decorator ``@virtual``, and the sleeps of coroutines in a
    module in which all asynchronous tests have this decorator.
    """
    tree = ast.parse(source)
    return sorted(_uses(tree, (), _Names(tree), all_virtual=_is_all_virtual(tree)), key=lambda use: use.line)


class _Names:
    """The names under which the module has the clocks, as after ``import time as t`` or ``from time import sleep as
    nap``.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.modules = {"time": "time", "asyncio": "asyncio", "datetime": "datetime"}
        self.functions: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.modules |= {one.asname: one.name for one in node.names if one.asname}
            elif isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio", "datetime"):
                self.functions |= {one.asname or one.name: (node.module, one.name) for one in node.names}

    def of(self, called: ast.expr) -> tuple[str, str] | None:
        """Return module and name of the called function, or None if they cannot be determined."""
        match called:
            case ast.Name(id=name):
                return self.functions.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.functions:
                # This is the call datetime.now after `from datetime import datetime`.
                return self.functions[name][1], attribute
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.modules:
                return self.modules[name], attribute
            case ast.Attribute(value=ast.Attribute(attr="datetime" | "date"), attr=attribute):
                return "datetime", attribute  # This is the call datetime.datetime.now.
            case ast.Attribute(attr="time"):
                return "loop", "time"
            case _:
                return None


def _is_virtual(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(one, ast.Name) and one.id == "virtual" for one in decorators)


def _is_all_virtual(tree: ast.Module) -> bool:
    tests = [one for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("test_")]
    return bool(tests) and all(map(_is_virtual, tests))


def _uses(parent: ast.AST, inside: tuple[str, ...], names: _Names, *, all_virtual: bool) -> Iterator[ClockUse]:
    for node in ast.iter_child_nodes(parent):
        if _is_virtual(node):
            continue
        within = inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = (*inside, node.name)
        if isinstance(node, ast.Call) and _is_real(node, names, all_virtual=all_virtual):
            yield ClockUse(".".join(inside), node.lineno, ast.unparse(node))
        yield from _uses(node, within, names, all_virtual=all_virtual)


def _is_real(call: ast.Call, names: _Names, *, all_virtual: bool) -> bool:
    match names.of(call.func):
        case "time", name:
            return name in OF_TIME
        case "datetime" | "date", name:
            return name in OF_DATETIME
        case "asyncio", "sleep":
            return not all_virtual and not _is_zero(call)
        case "loop", "time":
            return not all_virtual
        case _:
            return False


def _is_zero(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
