"""What a job's page says about why the job waits or runs where it does."""

from dataclasses import replace

import pytest

from extender.page.htmlrows import Rows
from extender.page.marks import Looks
from extender.present.explainview import explain_view, explanation
from policy.answers.explanation import Grounds
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
    told = (
        "1 worker-slot (8 % of its work) behind its schedule: it still needs 11 worker-slots, and its schedule has 10"
    )
    assert f"<strong>Its schedule:</strong> {told}" in panel(made)


RIGID = {
    "Pod": "its kind: Kohort does not resize a Pod",
    "JobSet": "its kind: Kohort does not resize a JobSet",
    "PyTorchJob": "its bounds: it is a rigid gang; set spec.elasticPolicy with maxReplicas to let it grow",
    "TFJob": "its bounds: it is a rigid gang; state kohort.dev/max-workers to let it grow",
}


@pytest.mark.parametrize(("kind", "told"), RIGID.items(), ids=RIGID.keys())
def test_what_lets_a_rigid_gang_grow_is_told_by_its_kind(kind: str, told: str) -> None:
    made = World().nodes("n1").start(job("a").workers(1).with_(kind=kind))
    running = explanation(made.snapshot, made.snapshot.jobs["job-a"], made.policy, made.now, trials=True).running
    assert isinstance(running, Grounds)
    assert running.growth == told


def test_a_malformed_job_that_runs_names_its_field_and_says_nothing_of_what_cannot_be_read() -> None:
    made = World().nodes("n1").start(job("a").ps().workers(1, 4))
    said = "kohort.dev/min-workers: 'banana' is not allowed"
    bare = replace(made.snapshot.jobs["job-a"], roles=(), min_workers=0, max_workers=0, elastic=False, invalid=said)
    made.see(bare)
    view = explain_view(made.snapshot, bare, made.policy, made.now)
    assert view.waits is not None
    assert (view.state, view.waits.reason, view.waits.detail) == ("invalid", "JobInvalid", said)
    assert view.mend.startswith("correct the malformed field")
    assert "banana" in panel(made)
    running = explanation(made.snapshot, bare, made.policy, made.now, trials=True).running
    assert isinstance(running, Grounds)
    assert running.growth.startswith("its malformed field")


def stopped(**changes: object) -> World:
    made = World().nodes("n1")
    made.submit(job("a", suspended=True).workers(2).with_(**changes))
    made.pass_time(30)
    return made


def test_one_that_is_scaled_to_0_is_scaled_up_again_and_lacks_nothing_that_could_be_told() -> None:
    made = stopped(kind="StatefulSet", min_workers=0, max_workers=0, suspends=False)
    one = made.snapshot.jobs["job-a"]
    view = explain_view(made.snapshot, one, made.policy, made.now)
    assert "kubectl -n team scale statefulset a --replicas=N" in view.mend
    assert (view.arithmetic, view.nodes, view.needs) == ("", (), ())
    assert "of 0" not in Rows("").html("jobhead", job=view, look=Looks().of("job-a"), now=made.now)


def test_a_suspended_job_does_not_wait() -> None:
    made = stopped()
    view = explain_view(made.snapshot, made.snapshot.jobs["job-a"], made.policy, made.now)
    assert (view.state, view.waited_seconds) == ("suspended", None)
    assert "spec.runPolicy.suspend to false" in view.mend
    assert "kohort resume team/a" in view.mend
