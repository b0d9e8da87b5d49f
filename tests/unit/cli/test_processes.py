"""What `kohort serve` does before it serves: the limit on open files, and the priority of its event loop."""

import gc
import resource
import sys

import pytest
from structlog.testing import capture_logs

from extender.cli.processes import OTHER_DESCRIPTORS, allow_descriptors, prefer_the_loop
from extender.config.settings import Settings
from extender.http.limits import most_connections


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the limits on open files that were set, newest last."""
    found = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: found.append(pair))
    return found


@pytest.mark.parametrize(
    ("connections", "warned"), [(4096 - OTHER_DESCRIPTORS, False), (4096 - OTHER_DESCRIPTORS + 1, True)]
)
def test_open_files_are_raised_and_too_many_connections_told(
    limits: list[tuple[int, int]], connections: int, warned: bool
) -> None:
    with capture_logs() as logs:
        allow_descriptors(connections)
    assert limits[-1] == (4096, 4096)
    assert [log["log_level"] for log in logs] == ["warning"] * warned
    for log in logs:
        assert "server.connections" in log["event"]
        assert "lower server.connections by 1" in log["event"]
        assert "(4096)" in log["event"]


def test_a_limit_that_cannot_be_raised_is_told(limits: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refused)
    with capture_logs() as logs:
        allow_descriptors(1000)
    assert ["stays at 1024" in logs[0]["event"], "lower server.connections by 232" in logs[1]["event"]] == [True, True]


def test_connections_of_all_listeners_count() -> None:
    plain = Settings()
    assert most_connections(plain) == 2048 + 64 + (512 if plain.progress.enabled else 0)


def test_threads_hand_the_interpreter_over_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python's default of 5 ms, a filter call takes forty times as long while somebody asks for an explanation."""
    told: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", told.append)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    prefer_the_loop()
    assert told
    assert told[-1] <= 0.0005
