"""The second and third part of docs/tutorial.md, as they stand there: a TFJob on what `make cluster` starts."""

from __future__ import annotations

import re

import pytest

from tests.controlplane.cluster import DIRECTORY
from tests.controlplane.state import StateFile
from tests.documents.tutorial import blocks, need_checkout, run


@pytest.mark.timeout(600, func_only=True)
def test_the_other_parts_run_as_they_are_written() -> None:
    need_checkout()
    if any(process.alive for process in StateFile(DIRECTORY / "state.json").read()):
        pytest.skip("a cluster of this checkout is up already: make cluster-down")
    steps = blocks("Third")
    marked = "".join(f"echo '-- step {number}'\n{step}" for number, step in enumerate(steps))
    try:
        said = dict(enumerate(re.split(r"^-- step \d+\n", run(marked), flags=re.MULTILINE)[1:]))
    finally:
        run("make cluster-down")
    assert said[0].count(" Ready ") == 2
    assert len(set(re.findall(r"mnist-\S+ .* (node-\d)", said[1]))) == 1, "all its pods are on one node"
    assert re.search(r"mnist +TFJob +6 \(2-6\) +running", said[2]), "it has grown into idle room"
    assert "heavy" in said[3]
    assert re.search(r"mnist +TFJob +[2-5] \(2-6\) +running", said[4]), "it has given workers back"
    assert "Shrunk" in said[4], "kubectl describe tells it"
    assert "default/mnist" in said[5], "the decisions tell the story"
