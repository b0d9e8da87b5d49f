"""No test reads a real clock or sleeps on one, except where tests/clocks.toml names the place and says why."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clocks import uses

TESTS = Path(__file__).parents[1]
ALLOWED: Mapping[str, Mapping[str, str]] = tomllib.loads((TESTS / "clocks.toml").read_text())
EVERYWHERE = "*"


def found_in(name: str) -> dict[str, str]:
    """Return the first use of a clock by its place in the file."""
    found: dict[str, str] = {}
    for use in uses((TESTS / name).read_text()):
        found.setdefault(use.where, f"line {use.line}: {use.call}")
    return found


@pytest.mark.parametrize("name", sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py")))
def test_no_clock_is_used_outside_the_list(name: str) -> None:
    allowed = ALLOWED.get(name, {})
    wrong = (
        {} if EVERYWHERE in allowed else {where: use for where, use in found_in(name).items() if where not in allowed}
    )
    assert not wrong, "use @virtual of tests/stage.py, or wait for the state with tests/eventually.py"


@pytest.mark.parametrize("name", ALLOWED)
def test_an_entry_of_the_list_is_used_and_has_a_reason(name: str) -> None:
    found = found_in(name)
    unused = [where for where in ALLOWED[name] if not (found if where == EVERYWHERE else where in found)]
    assert unused == [], f"{name} is in clocks.toml for what it does not do any more"
    assert all(len(reason.split()) > 3 for reason in ALLOWED[name].values())


CASES = {
    "a read": ("import time\ndef test_a():\n    assert time.monotonic() < 1", ["test_a"]),
    "in nanoseconds": ("import time\ntime.perf_counter_ns()", [""]),
    "under another name": ("import time as t\nclass A:\n    def b(self): t.time()", ["A.b"]),
    "a function by itself": ("from time import sleep as nap\ndef f(): nap(1)", ["f"]),
    "a date": ("from datetime import datetime\ndef f(): datetime.now()", ["f"]),
    "a date in full": ("import datetime\ndef f(): datetime.datetime.now()", ["f"]),
    "a coroutine's sleep": ("import asyncio\nasync def f(): await asyncio.sleep(0.1)", ["f"]),
    "a coroutine's sleep of a variable": ("import asyncio\nasync def f(n): await asyncio.sleep(n)", ["f"]),
    "a turn of the loop": ("import asyncio\nasync def f(): await asyncio.sleep(0)", []),
    "the time of a loop": ("def f(loop): loop.time()", ["f"]),
    "virtual": ("import asyncio\n@virtual\nasync def test_a(): await asyncio.sleep(9)", []),
    "a helper of virtual tests": (
        "import asyncio\nasync def f(): await asyncio.sleep(9)\n@virtual\nasync def test_a(): await f()", [],
    ),
    "a helper of tests of which one is not virtual": (
        "import asyncio\nasync def f(): await asyncio.sleep(9)\n@virtual\nasync def test_a(): await f()\n"
        "async def test_b(): await f()", ["f"],
    ),
    "a clock that is handed in": ("def f(clock): clock.now()", []),
}  # fmt: skip


@pytest.mark.parametrize(("source", "where"), CASES.values(), ids=CASES.keys())
def test_uses(source: str, where: list[str]) -> None:
    assert [use.where for use in uses(source)] == where
