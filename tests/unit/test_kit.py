"""Parts of the kit for real control planes: ports that runs never share, and downloads that may be cut short."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.cache import is_json, is_program
from tests.controlplane.ports import LOOPBACK, free_ports, preferred_ports

ROOT = Path(__file__).parents[2]
MANY = 3_000
DRAW = f"from tests.controlplane.ports import free_ports; print(*free_ports({MANY})); input()"


def test_processes_that_run_at_once_are_given_different_ports() -> None:
    command = [sys.executable, "-c", DRAW]
    others = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    drawn = [{int(word) for word in one.stdout.readline().split()} for one in others if one.stdout]
    ours = set(free_ports(MANY))
    for one in others:
        one.communicate("\n")
    assert [len(found) for found in (*drawn, ours)] == [MANY] * 3
    assert drawn[0].isdisjoint(drawn[1])
    assert ours.isdisjoint(drawn[0] | drawn[1])


def test_a_port_that_is_taken_is_not_drawn_and_another_is_preferred_to_none() -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)):
        (found,) = preferred_ports([port])
    assert found != port
    assert preferred_ports([free := free_ports(1)[0]]) == [free]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_a_program_that_is_cut_short_is_no_program(tmp_path: Path, share: float) -> None:
    whole = Path(sys.executable).resolve()
    assert is_program(whole)
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    assert not is_program(cut)


def test_a_file_that_is_not_there_or_of_another_kind_is_not_whole(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text('{"items": [')
    assert (is_program(text), is_json(text)) == (False, False)
    assert (is_program(tmp_path / "none"), is_json(tmp_path / "none")) == (False, False)
    text.write_text('{"items": []}')
    assert is_json(text)
