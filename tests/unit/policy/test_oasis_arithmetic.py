"""Tests that OASiS's arithmetic gives the same bits on each processor, and that nothing in policy/ goes around it."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from policy.systems.oasis.arithmetic import dot, exp, ln

ROOT = Path(__file__).parents[3]
# numpy computes these with vector instructions or a BLAS kernel that depend on the processor.
BY_PROCESSOR = {"dot", "einsum", "exp", "exp2", "expm1", "inner", "log", "log10", "log1p", "log2", "matmul", "power"}

SCHEDULE = """
import numpy as np
from policy.systems.oasis.dp import SlotRole, offer
draw = np.random.default_rng(7)
free, price = draw.uniform(0, 9, (40, 7)), draw.uniform(0, 1, (40, 7))
nodes, counts = np.ones(40, dtype=bool), np.arange(60)
roles = tuple(SlotRole(name, draw.uniform(0, 1, 7), nodes, counts) for name in ("worker", "ps"))
print(*[float(cost).hex() for cost in offer(free, price, roles).cost])
"""


def costs(kernel: str) -> str:
    """Return the costs of a drawn job, computed in a process in which BLAS uses the kernel of that processor."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCHEDULE]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_costs_of_a_job_do_not_depend_on_the_kernel_of_blas() -> None:
    assert costs("Nehalem") == costs("Haswell") != ""


def test_the_product_adds_in_order() -> None:
    # A fused multiply-add would not round 0.1 * 3 before it adds.
    assert dot(np.array([[0.1, 1.0]]), np.array([3.0, -0.3])).tolist() == [0.1 * 3.0 - 0.3]


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.34657, -0.34658, 20.5, -575.0, 700.0, -708.0, -744.0])
def test_exp_is_right_to_one_unit_in_the_last_place(value: float) -> None:
    found = float(exp(np.array([value]))[0])
    assert abs(found - math.exp(value)) <= math.ulp(math.exp(value))


def test_exp_of_drawn_values_is_right_and_never_falls() -> None:
    values = np.sort(np.random.default_rng(1).uniform(-600.0, 50.0, 20_000))
    wanted = [math.exp(value) for value in values.tolist()]
    found = exp(values)
    assert np.abs(found / wanted - 1.0).max() <= 2.0**-51
    assert (np.diff(found) >= 0).all()


def test_exp_of_infinitely_little_is_nothing() -> None:
    assert exp(np.array([-math.inf, -800.0, 0.0])).tolist() == [0.0, 0.0, 1.0]


def test_ln_of_nothing_is_infinitely_little() -> None:
    assert ln(np.array([[0.0, 1.0], [math.e, 10.0]])).tolist() == [[-math.inf, 0.0], [1.0, math.log(10.0)]]


@pytest.mark.parametrize("path", sorted((ROOT / "policy").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_policy_computes_by_processor(path: Path) -> None:
    assert by_processor(path.read_text()) == []


def by_processor(source: str) -> list[str]:
    """Name each matrix product and each function of numpy whose result depends on the processor, with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.MatMult()):
                found.append(f"line {node.lineno}: @")
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in BY_PROCESSOR:
                found.append(f"line {node.lineno}: np.{name}")
    return found


def test_what_depends_on_the_processor_is_named() -> None:
    assert by_processor("a = b @ c\nd = np.exp(a)\ne = np.rint(a) * math.exp(2)") == ["line 1: @", "line 2: np.exp"]
