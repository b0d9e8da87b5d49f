"""What a job's page says of why the job stands where it stands."""

import pytest

from extender.page.rows import Rows
from extender.present.explain import deeper, explain_view
from extender.present.views.explain import RunningView
from policy.cluster.events import Reported
from policy.cluster.training import Report
from tests.builders import World, job
from tests.unit.policy.test_oasis import SLOT, run, trains, world


def panel(made: World) -> str:
    view = explain_view(made.snapshot, made.snapshot.jobs["job-a"], made.policy, made.now)
    return Rows("").html("why", job=view, waiting=False)


def test_a_job_behind_its_schedule_says_by_how_much() -> None:
    made = world()
    made.now += SLOT - made.now % SLOT
    run(made, trains("a", 12))
    assert "schedule" not in panel(made)
    made.now += SLOT / 2
    made.do(Reported("job-a", Report(made.now, done=1 / 12)))
    told = "<strong>Its schedule:</strong> 1 worker-slot (8 % of its work) behind it: needs 11 more, has 10"
    assert told in panel(made)


RIGID = {
    "Pod": "its kind: a Pod is not resized",
    "JobSet": "its kind: a JobSet is not resized",
    "PyTorchJob": "its bounds: it is a rigid gang; state spec.elasticPolicy with maxReplicas to let it grow",
    "TFJob": "its bounds: it is a rigid gang; state kohort.dev/max-workers to let it grow",
}


@pytest.mark.parametrize(("kind", "told"), RIGID.items(), ids=RIGID.keys())
def test_what_lets_a_rigid_gang_grow_is_told_by_its_kind(kind: str, told: str) -> None:
    made = World().nodes("n1").start(job("a").workers(1).with_(kind=kind))
    running = deeper(made.snapshot, made.snapshot.jobs["job-a"], made.policy, made.now)["running"]
    assert isinstance(running, RunningView)
    assert running.growth == told
