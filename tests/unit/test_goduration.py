"""Durations in Go's syntax are read by one parser for kubectl's options and for kube-scheduler's configuration."""

from __future__ import annotations

import pytest

from extender.config.goduration import go_duration_seconds

DURATIONS = {
    "20s": 20,
    "1m30s": 90,
    "1.5h": 5400,
    "500ms": 0.5,
    ".5s": 0.5,
    "1.s": 1,
    "+3s": 3,
    "1µs": 1e-6,
    "0": 0,
    "0s": 0,
    "": None,
    "20": None,
    "s": None,
    "-1s": -1,
    "-0": 0,
    "--1s": None,
    "1d": None,
    "1 s": None,
    "1s ": None,
    "1s2": None,
    ".s": None,
    "20S": None,
    "٢s": None,
}


@pytest.mark.parametrize(("text", "want"), DURATIONS.items(), ids=[repr(text) for text in DURATIONS])
def test_go_duration(text: str, want: float | None) -> None:
    assert go_duration_seconds(text) == (want if want is None else pytest.approx(want))
