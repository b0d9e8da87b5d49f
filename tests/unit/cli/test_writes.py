"""scale, suspend and resume write to the API server with preconditions, and say what they have done or why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from extender.cli.errors import CliError
from extender.cli.writes import FoundJob, scaling, suspension
from extender.kube.api import Ref
from extender.kube.jobkinds import KINDS, JobKind
from tests.unit.cli.conftest import JOB_PATH, Server

Run = Callable[..., Result]
UNCHANGED = {"uid": "u-1", "resourceVersion": "7"}


def written(server: Server) -> list[dict[str, Any]]:
    return [one[1] for one in server.asked if isinstance(one, tuple)]


def test_scale_patches_the_workers_of_exactly_the_job_that_was_read(by_kubeconfig: Run, server: Server) -> None:
    found = by_kubeconfig("scale", "mnist", "--workers", "3")  # the kubeconfig's context names the namespace
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == [
        "TFJob team/mnist: spec.tfReplicaSpecs.Worker.replicas 4 -> 3",
        "`kohort explain team/mnist` says what the policy makes of it",
    ]
    assert written(server) == [{"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}, "metadata": UNCHANGED}]


def test_suspend_and_resume(by_kubeconfig: Run, server: Server) -> None:
    assert by_kubeconfig("suspend", "team/mnist").stdout.startswith(
        "TFJob team/mnist: spec.runPolicy.suspend false -> true"
    )
    told = json.loads(by_kubeconfig("resume", "team/mnist", "-o", "json").stdout)
    assert (told["kind"], told["before"], told["after"]) == ("TFJob", True, False)
    assert [one["spec"] for one in written(server)] == [
        {"runPolicy": {"suspend": True}},
        {"runPolicy": {"suspend": False}},
    ]


def test_a_suspension_that_is_kohorts_becomes_the_users(by_kubeconfig: Run, server: Server) -> None:
    """Without Kohort's mark, nobody resumes the job when the pods of its released gang are gone."""
    server.job["metadata"]["annotations"]["kohort.dev/released"] = "true"
    server.job["spec"]["runPolicy"] = {"suspend": True}
    found = by_kubeconfig("suspend", "mnist")
    assert found.stdout.startswith('TFJob team/mnist: spec.runPolicy.suspend "by Kohort" -> true'), found.output
    (change,) = written(server)
    assert change["spec"] == {"runPolicy": {"suspend": True}}
    assert change["metadata"] == {**UNCHANGED, "annotations": {"kohort.dev/released": None}}


SUSPENDED: dict[str, Any] = {
    **{kind: {"runPolicy": {"suspend": True}} for kind in ("TFJob", "PyTorchJob", "MPIJob")},
    **{kind: {"suspend": True} for kind in ("Job", "JobSet")},
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_kind_is_suspended_where_its_table_says(kind: JobKind) -> None:
    found = FoundJob(kind, Ref(kind.resource, "team", "x"), {"metadata": {}, "spec": {}})
    if kind.kind not in SUSPENDED:
        with pytest.raises(CliError, match="kubectl scale"):
            suspension(found, on=True)
        return
    written, patch = suspension(found, on=True)
    assert (written.before, written.after, patch) == (False, True, {"spec": SUSPENDED[kind.kind]})
    found.item["spec"] = SUSPENDED[kind.kind]
    assert suspension(found, on=True)[1] is None, "it is already"


WORKERS: dict[str, Any] = {
    **{
        kind: {KINDS[kind].replicas_at: {"Worker": {"replicas": 3}}} for kind in ("TFJob", "PyTorchJob", "MPIJob")
    },
    "Job": {"parallelism": 3, "completions": 3}, "StatefulSet": {"replicas": 3}, "Deployment": {"replicas": 3},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_kind_is_scaled_where_its_table_says(kind: JobKind) -> None:
    replicas = {"Worker": {"replicas": 2}}
    spec: dict[str, Any] = {**dict.fromkeys(kind.counts, 2), **({} if kind.counts else {kind.replicas_at: replicas})}
    found = FoundJob(kind, Ref(kind.resource, "team", "x"), {"metadata": {}, "spec": spec})
    if kind.kind not in WORKERS:
        with pytest.raises(CliError, match="of an existing JobSet cannot be changed"):
            scaling(found, 3, "kohort")
        return
    written, patch = scaling(found, 3, "kohort")
    assert (written.before, written.after, patch) == (2, 3, {"spec": WORKERS[kind.kind]})


def test_what_is_so_already_is_not_written(by_kubeconfig: Run, server: Server) -> None:
    for args in (("resume", "mnist"), ("scale", "mnist", "--workers", "4")):
        found = by_kubeconfig(*args)
        assert (found.exit_code, " already\n" in found.stdout) == (0, True)
    assert written(server) == []


def test_a_job_that_others_change_meanwhile_is_read_again(by_kubeconfig: Run, server: Server) -> None:
    server.hurdles = [409, 409]
    assert by_kubeconfig("suspend", "mnist").exit_code == 0
    assert server.asked.count(JOB_PATH) == 3
    server.hurdles = [409, 409, 409]
    found = by_kubeconfig("resume", "mnist")
    assert (found.exit_code, "changed by others during each of 3 attempts; try again" in found.stderr) == (1, True)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 429, 500])
def test_a_denial_by_admission_is_told_whatever_its_status(by_kubeconfig: Run, server: Server, status: int) -> None:
    server.words = 'admission webhook "size.example.com" denied the request: it has its size'
    server.hurdles = [status] * 9
    found = by_kubeconfig("suspend", "mnist")
    assert (found.exit_code, found.stderr.count("the API server refuses: ")) == (1, 1), found.output
    assert f"{server.words}; correct what it names" in " ".join(found.stderr.split())
    assert server.asked.count(JOB_PATH) == 1


Spoil = Callable[[dict[str, Any]], Any]
REFUSED: dict[str, tuple[tuple[str, ...], Spoil, int, str]] = {
    "above its bounds": (("scale", "mnist", "--workers", "9"), lambda job: None, 2, "allowed: 2 to 6, the bounds of"),
    "below them": (("scale", "mnist", "--workers", "1"), lambda job: None, 2, "kohort.dev/min-workers"),
    "a job that an operator fails": (
        ("scale", "mnist", "--workers", "3"),
        lambda job: job["spec"].pop("enableDynamicWorker"),
        1,
        "cannot be resized while it runs: ",
    ),
    "a malformed job": (
        ("scale", "mnist", "--workers", "3"),
        lambda job: job["metadata"]["annotations"].update({"kohort.dev/min-workers": "many"}),
        1,
        "correct that first",
    ),
    "no workers": (
        ("scale", "mnist", "--workers", "3"),
        lambda job: job["spec"]["tfReplicaSpecs"].clear(),
        1,
        "name a job that has workers",
    ),
    "one that Kohort itself suspends": (
        ("resume", "mnist"),
        lambda job: job["metadata"]["annotations"].update({"kohort.dev/released": "true"}),
        1,
        "it goes on by itself",
    ),
    "an unknown job": (("suspend", "team/other"), lambda job: None, 1, "`kohort jobs` lists the jobs that there are"),
    "an unknown kind": (("suspend", "mnist", "--kind", "Pipeline"), lambda job: None, 2, "allowed: "),
    "a name of three parts": (("suspend", "a/b/c"), lambda job: None, 2, "NAME with -n NAMESPACE"),
}


@pytest.mark.parametrize(("args", "spoil", "code", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_done_is_told_with_what_to_do(
    by_kubeconfig: Run, server: Server, args: tuple[str, ...], spoil: Spoil, code: int, text: str
) -> None:
    spoil(server.job)
    found = by_kubeconfig(*args)
    assert (found.exit_code, text in found.stderr) == (code, True), found.output
    assert written(server) == []


def test_a_pod_without_a_job_is_told_to_be_one(by_kubeconfig: Run, server: Server) -> None:
    server.cluster = {"/api/v1/namespaces/team/pods/lone": {"kind": "Pod", "metadata": {"name": "lone"}}}
    for command in (("suspend", "lone"), ("scale", "lone", "--workers", "2")):
        found = by_kubeconfig(*command)
        assert (found.exit_code, "team/lone is a pod without a job" in found.stderr) == (1, True), found.output


def test_a_missing_right_is_named(by_kubeconfig: Run, server: Server) -> None:
    server.hurdles = [403]
    found = by_kubeconfig("suspend", "mnist")
    assert (found.exit_code, "the right to patch tfjobs.kubeflow.org" in found.stderr) == (1, True)


def test_without_a_kubeconfig(kohort: Run) -> None:
    found = kohort("suspend", "mnist")  # a write goes to the API server, so knowing the service's address does not help
    assert (found.exit_code, "set KUBECONFIG, or give --kubeconfig FILE" in found.stderr) == (1, True)
