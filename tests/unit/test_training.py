"""The annotations kohort.dev/training and kohort.dev/migratable are read as a whole, or refused with the
field's name.
"""

import pytest

from extender.kube.fields import ObjectError
from extender.kube.trainingannotation import read_training
from policy.cluster.training import Goal, Training, Utility
from tests.unit.test_translate import seen, tfjob

WHOLE = """
epochs: 50
chunks: 20
batches: 100
secondsPerBatch: 0.5
gradientMegabytes: 98
workerGigabits: 1
psGigabits: 10
utility: {value: 50, steepness: 0.5, target: 8}
goal: max
alpha: 0.05
"""


def test_every_field() -> None:
    assert read_training(WHOLE) == Training(
        epochs=50,
        chunks=20,
        batches=100,
        seconds=0.5,
        gradient=98.0,
        worker_bandwidth=1.0,
        ps_bandwidth=10.0,
        utility=Utility(50.0, 0.5, 8.0),
        goal=Goal.MAX,
        alpha=0.05,
    )


def test_what_is_left_out_has_its_default() -> None:
    assert read_training("allReduce: true") == Training(all_reduce=True)


WRONG = {
    "not YAML": ("a: [", "kohort.dev/training: 'a: ["),
    "a list": ("[1]", "not a mapping"),
    "an unknown field": (
        "epoch: 5",
        "kohort.dev/training: epoch: 5 is not allowed; allowed: one of the fields epochs",
    ),
    "no epoch": ("epochs: 0", "kohort.dev/training: epochs: 0 is not allowed; allowed: 1 or more"),
    "half a batch": ("batches: 0.5", "batches: 0.5"),
    "no time": ("secondsPerBatch: 0", "a number above 0"),
    "not a number": ("secondsPerBatch: .nan", "a number from 0"),
    "endless": ("gradientMegabytes: .inf", "a number from 0"),
    "negative": ("psGigabits: -1", "a number from 0"),
    "a truth value": ("workerGigabits: true", "a number from 0"),
    "a goal of its own": ("goal: up", "min or max"),
    "a goal that is a list": ("goal: [min]", "min or max"),
    "no threshold": ("alpha: 0", "kohort.dev/training: alpha: 0 is not allowed; allowed: a number above 0"),
    "half a curve": ("utility: {value: 3}", "utility: steepness"),
    "a curve of text": ("utility: high", "utility: 'high'"),
    "twice": ("epochs: 1\nepochs: 2", "is repeated"),
    "aliases": ("a: &a 1\nb: *a", "alias"),
    "too long": ("# " + "x" * 5000, "5002 characters"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(ObjectError) as error:
        read_training(text)
    assert told in str(error.value)


def test_a_job_carries_it_and_a_wrong_one_makes_only_its_job_invalid() -> None:
    job = seen(tfjob(notes={"kohort.dev/training": WHOLE, "kohort.dev/migratable": "true"}))
    assert (job.training, job.migratable, job.invalid) == (read_training(WHOLE), True, "")
    assert seen(tfjob()).training is None
    assert "epochs" in seen(tfjob(notes={"kohort.dev/training": "epochs: none"})).invalid


@pytest.mark.parametrize("value", ["yes", "True", "1", True, 1, ["true"]])
def test_migratable_is_true_or_false(value: object) -> None:
    assert "kohort.dev/migratable" in seen(tfjob(notes={"kohort.dev/migratable": value})).invalid


BANDWIDTHS = "{workerGigabits: 1, psGigabits: 2}"


def test_ps_may_vary_where_the_job_says_so_and_how_many_it_needs() -> None:
    notes = {"kohort.dev/training": BANDWIDTHS, "kohort.dev/elastic-ps": "true"}
    job = seen(tfjob(notes=notes))
    assert (job.ps_restarts, job.ps_elastic, job.invalid) == (True, False, "")
    assert not seen(tfjob(notes={"kohort.dev/training": BANDWIDTHS})).ps_restarts


@pytest.mark.parametrize(
    ("training", "flag", "roles", "told"),
    [
        ("", "true", ("PS", "Worker"), "workerGigabits and psGigabits"),
        ("workerGigabits: 1", "true", ("PS", "Worker"), "workerGigabits and psGigabits"),
        (BANDWIDTHS, "yes", ("PS", "Worker"), "true or false"),
        (BANDWIDTHS, "true", ("Worker",), "a TFJob with ps"),
    ],
)
def test_what_is_wrong_with_elastic_ps_is_named(training: str, flag: str, roles: tuple[str, ...], told: str) -> None:
    item = tfjob(notes={"kohort.dev/training": training, "kohort.dev/elastic-ps": flag})
    item["spec"]["tfReplicaSpecs"] = {role: item["spec"]["tfReplicaSpecs"][role] for role in roles}
    invalid = seen(item).invalid
    assert invalid.startswith("kohort.dev/elastic-ps")
    assert told in invalid


def test_min_available_that_annotations_overrule_is_not_judged() -> None:
    run = {"schedulingPolicy": {"minAvailable": 5}}
    item = tfjob(notes={"kohort.dev/min-workers": "1", "kohort.dev/max-workers": "4"}, run=run)
    # the number of workers after a resize, less than minAvailable
    item["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2
    assert seen(item).invalid == ""
