"""Small changes of a file by mutmut's operators, without those that cannot have an effect."""

from __future__ import annotations

import ast
import difflib
import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.mutators import mutation_operators

LOG_LEVELS: Final = {"debug", "info", "warning", "error", "exception"}
# In correct code, no caller can notice a change of these arguments.
UNNOTICED: Final = {"slots", "maxsize", "strict"}
TAKE_THEM: Final = {"dataclass", "lru_cache", "zip"}


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One small change of a file; ``line`` is the first changed line, ``statement`` the first line of its statement."""

    file: str
    line: int
    statement: int
    at_import: bool  # whether the changed code runs when the module is imported, because it is outside of functions
    operator: str
    source: str  # the content of the changed file
    diff: str


class Changes:
    """All small changes of one file."""

    def __init__(self, root: Path, file: str) -> None:
        self._file = file
        self._source = (root / file).read_text()
        self._meaning = meaning(self._source)
        self._tree = MetadataWrapper(cst.parse_module(self._source), unsafe_skip_copy=True)
        self._positions = self._tree.resolve(PositionProvider)
        self._parents = self._tree.resolve(ParentNodeProvider)
        self._by_operator = self._found()

    def draw(self, chance: random.Random) -> CodeChange | None:
        """Return a random change (first the operator, then the change), or None if it cannot have an effect."""
        if not self._by_operator:
            return None
        operator = chance.choice(sorted(self._by_operator))
        node, changed = chance.choice(self._by_operator[operator])
        source = cst.ensure_type(self._tree.module.deep_replace(node, changed), cst.Module).code
        if meaning(source) == self._meaning:
            return None
        above = self._above(node)
        statement = next(one for one in above if isinstance(one, cst.BaseStatement | cst.SimpleStatementLine))
        return CodeChange(
            file=self._file,
            line=first_difference(self._source, source),
            statement=self._positions[statement].start.line,
            at_import=not any(self._is_body(one) for one in above),
            operator=operator,
            source=source,
            diff=difference(self._source, source),
        )

    def _found(self) -> dict[str, list[tuple[cst.CSTNode, cst.CSTNode]]]:
        found = defaultdict[str, list[tuple[cst.CSTNode, cst.CSTNode]]](list)
        for node in self._parents:
            for kind, operator in mutation_operators:
                if isinstance(node, kind):
                    name = operator.__name__.removeprefix("operator_")
                    found[name].extend((node, changed) for changed in operator(node))
        return {name: changes for name, changes in found.items() if changes}

    def _above(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the node and all nodes around it, innermost first."""
        above = [node]
        while not isinstance(above[-1], cst.Module):
            above.append(self._parents[above[-1]])
        return above

    def _is_body(self, node: cst.CSTNode) -> bool:
        parent = self._parents.get(node)
        return isinstance(parent, cst.FunctionDef | cst.Lambda) and parent.body is node


def first_difference(before: str, after: str) -> int:
    """Return the number of the first line that differs."""
    pairs = zip_longest(before.splitlines(), after.splitlines())
    return next(number for number, (old, new) in enumerate(pairs, 1) if old != new)


def difference(before: str, after: str) -> str:
    """Return the lines that differ, as a diff without context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def meaning(source: str) -> str:
    """Return the syntax tree without the parts that no test of behaviour can depend on.

    Left out are docstrings, annotations, the arguments of log calls, the type in cast(), the arguments of TypeVar(),
    the arguments in UNNOTICED, and the content of a text with a space, which is for people.
    """
    return ast.dump(_Meaning().visit(ast.parse(source)))


class _Meaning(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and " " in node.value:
            return ast.Constant(" ")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node.func:
            case ast.Attribute(value=ast.Name(id="_log"), attr=level) if level in LOG_LEVELS:
                node.args, node.keywords = [], []
            case ast.Name(id="TypeVar"):
                node.args, node.keywords = [], []
            case ast.Name(id="cast"):
                node.args = node.args[1:]
            case ast.Name(id=name) if name in TAKE_THEM:
                node.keywords = [one for one in node.keywords if one.arg not in UNNOTICED]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815
