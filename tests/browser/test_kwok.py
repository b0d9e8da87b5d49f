"""Tests of the page in a real browser on a real control plane, with KWOK nodes and the training operator."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.bars import Bar
from tests.browser.conftest import EMPTY, Look, await_decision, faults, seen_at, until_live
from tests.controlplane import ControlPlane, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import until

pytestmark = pytest.mark.full
PAINT_SECONDS, UPDATE_SECONDS = 1.0, 0.2
STILL_SECONDS, STILL_CPU = 5.0, 0.25  # The extender counts as idle if it uses at most 0.25 s of CPU in 5 s.
CORES = 10
TICK = os.sysconf("SC_CLK_TCK")
PATIENT = {"policy": "kod2", "kod2": {"starve_limit_seconds": 86400}}


@dataclass(frozen=True)
class Size:
    """The size of a cluster: nodes, running jobs, waiting jobs, and the seconds within which the running jobs start."""

    nodes: int
    running: int
    waiting: int
    seconds: float


SIZES = {
    "100-nodes": pytest.param(Size(100, 40, 10, 240), marks=pytest.mark.timeout(420), id="100-nodes"),
    "1000-nodes": pytest.param(
        Size(1000, 400, 100, 1200), marks=[pytest.mark.soak, pytest.mark.timeout(1800)], id="1000-nodes"
    ),
}


@dataclass
class Scene:
    """A control plane and a Kohort in which all jobs of a size run or wait."""

    plane: ControlPlane
    kohort: Kohort
    size: Size

    @property
    def url(self) -> str:
        return f"{self.kohort.url}/"

    def submit(self, job: TFJob) -> None:
        self.plane.api.create(TFJOBS.format(namespace=job.namespace), job.manifest())

    def cpu(self) -> float:
        """Return the CPU seconds that the extender has used so far."""
        fields = Path(f"/proc/{self.kohort.extender.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def still(self) -> bool:
        """Wait five seconds, and tell whether the extender was almost idle in that time."""
        before = self.cpu()
        time.sleep(STILL_SECONDS)
        return self.cpu() - before <= STILL_CPU

    def decided(self, name: str) -> float:
        """Return when the job was given room, in seconds since the epoch."""
        decisions = self.kohort.get("/v1/decisions")["decisions"]
        about = (one for one in decisions if (one["job"] or {}).get("name") == name)
        return float(next(one["at"] for one in about if one["action"] == "Admit"))


@pytest.fixture(scope="module", params=SIZES.values())
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    size: Size = request.param
    shape = NodeShape(count=size.nodes, cpu=str(CORES))
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("page"), controller_manager=True) as plane:
        kohort = start_kohort(plane, PATIENT)
        found = Scene(plane, kohort, size)
        plane.kubectl("create", "namespace", "team")
        jobs = [TFJob("team", f"runs-{at}", workers=1 + at % 3) for at in range(size.running)]
        jobs += [TFJob("team", f"waits-{at}", workers=1, worker_cpu=str(CORES + 1)) for at in range(size.waiting)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(found.submit, jobs))
        until(lambda: states(kohort).count("running") == size.running, "all jobs running", size.seconds,
              lambda: sorted({state: states(kohort).count(state) for state in states(kohort)}.items()))  # fmt: skip
        until(found.still, "the cluster still", size.seconds)
        yield found
        kohort.stop()


def states(kohort: Kohort) -> list[str]:
    return [job["state"] for job in kohort.get("/v1/jobs")["jobs"]]


@pytest.mark.soak  # The other processes of the control plane use CPU, which spoils the measurement.
def test_it_is_painted_and_updated_in_time_and_nothing_on_it_moves(scene: Scene, look: Look) -> None:
    paint, update = Bar("first paint", PAINT_SECONDS), Bar("update", UPDATE_SECONDS)
    for _ in range(4):
        paint.empty.append(look().open(scene.url + EMPTY).first_paint())
        spent = scene.cpu()
        viewer = look().open(scene.url)
        paint.wall.append(viewer.first_paint())
        paint.cpu.append(viewer.cpu() + scene.cpu() - spent)
        viewer.page.context.close()  # The limit for updates is for a single viewer.
    viewer = until_live(look().open(scene.url))
    assert viewer.page.locator(".tile").count() == scene.size.nodes
    for at in range(6):
        update.empty.append(look().open(scene.url + EMPTY).first_paint())
        viewer.page.bring_to_front()
        name = f"newcomer-{int(time.time())}-{at}"
        await_decision(viewer, name)
        spent = viewer.cpu()
        scene.submit(TFJob("team", name, workers=1))
        seen = seen_at(viewer)
        update.cpu.append(viewer.cpu() - spent)
        update.wall.append(seen - scene.decided(name))
    shown = viewer.page.locator("[data-list=queue] tr").count()
    assert shown == scene.size.waiting
    assert viewer.complaints == []
    assert viewer.shifts() == []
    paint.judge()
    update.judge()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_for_everybody(scene: Scene, look: Look, scheme: str) -> None:
    viewer = until_live(look(scheme).open(scene.url))
    viewer.shot(f"kwok-{scene.size.nodes}-{scheme}")
    assert faults(viewer) == []
    viewer.page.locator("[data-list=queue] a").first.click()
    viewer.page.wait_for_load_state()
    assert "GangExceedsCluster" in viewer.page.locator("[data-list=why]").inner_text()
    assert faults(viewer) == []
    assert viewer.complaints == []


HOSTILE = {
    "min-workers": "<img src=x onerror=\"document.title='taken'\">",
    "utility": "\u202egnp.exe\u2066{{ 7 * 7 }}" + "x" * 10_240,
}


def test_hostile_annotations_do_nothing(scene: Scene, look: Look) -> None:
    known = len(states(scene.kohort))
    scene.submit(TFJob("team", "hostile", workers=1, notes=HOSTILE))
    until(lambda: len(states(scene.kohort)) > known, "the job is known")
    viewer = until_live(look().open(f"{scene.url}jobs/team/hostile"))
    assert "is not allowed" in viewer.page.inner_text("main")
    for page in (viewer, until_live(look().open(scene.url))):
        assert page.page.locator("img, script:not([src]), iframe").count() == 0
        assert "taken" not in page.page.title()
        assert not set(page.page.inner_text("body")) & set("\u202e\u2066")
        assert page.complaints == []
    scene.plane.api.delete(f"{TFJOBS.format(namespace='team')}/hostile")
