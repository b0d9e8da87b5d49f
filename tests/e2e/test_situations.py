"""40 generated situations in which a gang waits, on the real control plane.

Kohort must name the constraint for which each gang waits; when the test removes that constraint from the cluster, the
gang must start. All situations exist at once, each with its own nodes and namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.gangs import new_namespace
from tests.e2e.waiting import until
from tests.situations.draw import live, pairs, singles
from tests.situations.onplane import ELSEWHERE, OnPlane, node_object
from tests.situations.scene import Constraint

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500, func_only=True)]

LONG = 600.0  # All situations together may take so many seconds.


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane that is new for each try; its controller manager counts the use of ResourceQuotas."""
    folder = tmp_path_factory.mktemp("situations")
    with ControlPlane.start(nodes=None, workdir=folder, controller_manager=True) as started:
        yield started


@pytest.fixture
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    """Yield Kohort with settings under which no job starves, because a starving job keeps all others waiting."""
    started = start_kohort(plane, {"kod2": {"starve_limit_seconds": 86_400}})
    yield started
    started.stop()


def told(kohort: Kohort, stage: OnPlane) -> tuple[str, str]:
    """Return the code of the reason for which the gang waits, and all explaining text; ("", "") if it is unknown."""
    known = {(job["namespace"], job["name"]) for job in kohort.get("/v1/jobs")["jobs"]}
    if (stage.space, "gang") not in known:
        return "", ""
    found = kohort.get(f"/v1/explain/{stage.space}/gang")
    waits = found["waits"] or {"reason": "", "detail": ""}
    return waits["reason"], f"{waits['detail']}; {found['arithmetic']}; {found['missing_pods']}"


def unsaid(kohort: Kohort, stage: OnPlane, *constraints: Constraint) -> list[str]:
    """Return what is missing in the explanation of the gang: a matching reason, or values of these constraints."""
    reason, text = told(kohort, stage)
    codes = [one.code for one in constraints]
    missing = [value for one in constraints for value in stage.values(one) if value not in text]
    return [*([] if reason in codes else [f"{reason or 'no reason'} is not one of {codes}"]), *missing]


def not_started(kohort: Kohort, stages: Iterable[OnPlane]) -> dict[str, object]:
    """Return by situation the reason and text of each gang that is not bound whole."""
    return {stage.scene.name: told(kohort, stage) for stage in stages if stage.bound() < stage.size}


def await_start(kohort: Kohort, stages: Iterable[OnPlane]) -> None:
    until(lambda: not not_started(kohort, stages), "every gang bound", LONG, seen=lambda: not_started(kohort, stages))


def await_words(kohort: Kohort, stage: OnPlane, *constraints: Constraint) -> None:
    """Wait until the explanation names these constraints with their values."""
    until(
        lambda: not unsaid(kohort, stage, *constraints), f"{stage.scene.name} explained",
        seen=lambda: (unsaid(kohort, stage, *constraints), told(kohort, stage)),
    )  # fmt: skip


def await_reason(kohort: Kohort, stage: OnPlane, code: str) -> None:
    """Wait until the gang waits for that reason."""
    until(
        lambda: told(kohort, stage)[0] == code, f"{stage.scene.name} waits with {code}",
        seen=lambda: told(kohort, stage),
    )  # fmt: skip


def test_what_is_told_of_forty_situations_starts_their_gangs(plane: ControlPlane, kohort: Kohort) -> None:
    scenes = [*live(singles(), 30), *live(pairs(), 10)]
    assert len(scenes) == 40
    stages = [OnPlane(plane, scene, new_namespace(plane, scene.name)) for scene in scenes]
    for item in (node_object(ELSEWHERE), *(host for stage in stages for host in stage.hosts())):
        plane.api.create("/api/v1/nodes", item)
    for stage in stages:
        stage.run_others()
    until(lambda: all(stage.others_run() for stage in stages), "the other jobs run or have finished", LONG)
    for stage in stages:
        stage.settle()
    for stage in stages:
        await_words(kohort, stage, *stage.scene.constraints)
        assert stage.bound() == 0, stage.scene.name
        stage.lift(*stage.scene.constraints[0].lift)
    await_start(kohort, [stage for stage in stages if len(stage.scene.constraints) == 1])
    rest = [stage for stage in stages if len(stage.scene.constraints) == 2]
    for stage in rest:
        second = stage.scene.constraints[1]
        await_reason(kohort, stage, second.code)
        assert stage.bound() == 0, f"{stage.scene.name} has started although only one constraint was lifted"
        stage.lift(*second.lift)
    await_start(kohort, rest)
