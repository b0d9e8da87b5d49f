"""What a job's page says of why the job stands where it stands."""

from extender.page.rows import Rows
from extender.present.explain import explain_view
from policy.cluster.events import Reported
from policy.cluster.training import Report
from tests.builders import World
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
