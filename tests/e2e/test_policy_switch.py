"""Tests of changing the policy in the settings file of the running service: running jobs stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort
from tests.e2e.asking import nodes_of
from tests.e2e.gangs import fresh_kohort, own_namespace, submit
from tests.e2e.observer import ClusterObserver
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full

Json = dict[str, Any]
SLOT = 4.0
LONG = f"{{epochs: 200, chunks: 4, secondsPerBatch: {SLOT}}}"  # The training takes four workers for 200 time slots.
PARAMETERS = {"oasis": {"slot_seconds": SLOT, "horizon": 300, "grace": 0.3}}
NAME = "switch"


def choose(plane: ControlPlane, kohort: Kohort, policy: str) -> None:
    """Write the policy into the service's settings file, and wait until the service uses it."""
    file: Path = plane.workdir / f"{NAME}.yaml"
    before = obeyed(kohort)
    settings = yaml.safe_load(file.read_text()) | {"policy": policy, "parameters": PARAMETERS.get(policy, {})}
    file.write_text(yaml.safe_dump(settings))
    until(lambda: obeyed(kohort) > before, f"{policy} in force")


def obeyed(kohort: Kohort) -> int:
    return kohort.extender.log.read_text().count("these settings were applied: policy")


def memory(plane: ControlPlane, job: TFJob) -> str:
    """Return what the policy has written on the job object."""
    notes = plane.api.get(job.path)["metadata"].get("annotations", {})
    return str(notes.get("kohort.dev/memory", ""))


def test_each_policy_takes_over_what_runs_and_starts_what_comes(live_plane: ControlPlane) -> None:
    plane = live_plane
    with own_namespace(plane, NAME) as space, ClusterObserver(plane, space) as observer:
        with fresh_kohort(plane, {}, NAME) as kohort:
            runs = submit(plane, TFJob(space, "runs", workers=4, least=2, most=4, notes={"training": LONG}))
            until(lambda: len(nodes_of(plane, space, runs.name)) == 5, "running with all its workers")
            there = nodes_of(plane, space, runs.name)
            for number, policy in enumerate(("oasis", "drs", "oasis", "kod2")):
                choose(plane, kohort, policy)
                new = submit(plane, TFJob(space, f"under-{policy}-{number}", workers=1))
                until(lambda new=new: len(nodes_of(plane, space, new.name)) == 2, f"{new.name} bound")  # type: ignore[misc]
                if policy == "oasis":
                    until(lambda: '"oasis"' in memory(plane, runs), "a schedule for what runs")
                assert nodes_of(plane, space, runs.name) == there
        assert [observer.deleted(runs.name, role) for role in ("ps", "worker")] == [0, 0]
