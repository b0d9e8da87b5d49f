"""Tests that Events and explanations give the API server's own words when it refuses a write of Kohort's."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import ControlPlane, ControlPlaneError, NodeShape
from tests.controlplane.kohort import Kohort, start_kohort
from tests.e2e.asking import cli, job_view, metric, nodes_of, pods
from tests.e2e.gangs import OUR_GATE, create_pod, lone_pod, submit
from tests.e2e.tfjobs import TFJob
from tests.e2e.waiting import never, until

Json = dict[str, Any]
CORES = 12
WORDS = "the size of a training job is fixed here"
SERVICE = "size.example.com"
STOP_SECONDS = 5


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    shape = NodeShape(count=1, cpu=str(CORES))
    with ControlPlane.start(shape, workdir=tmp_path_factory.mktemp("told"), controller_manager=True) as started:
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def kohort(plane: ControlPlane) -> Iterator[Kohort]:
    settings = {
        "kod2": {"cooldown_seconds": 1},
        "release": {"backoff_initial_seconds": 1, "backoff_max_seconds": 4},
    }
    started = start_kohort(plane, settings)
    yield started
    started.stop()


def events(plane: ControlPlane, space: str, name: str) -> list[tuple[str, str, str]]:
    """Return type, reason and note of each Event that Kohort's controller wrote on that object."""
    found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    ours = (one for one in found if one.get("reportingController") == "kohort.dev/controller")
    return [(one["type"], one["reason"], one["note"]) for one in ours if one["regarding"]["name"] == name]


def told_at(plane: ControlPlane, space: str, name: str, word: str) -> datetime:
    """Return the time of the latest Event with the reason ``word`` on that object."""
    found = plane.api.get(f"/apis/events.k8s.io/v1/namespaces/{space}/events")["items"]
    mine = (one for one in found if (one["regarding"]["name"], one["reason"]) == (name, word))
    return max(datetime.fromisoformat(one["eventTime"]) for one in mine)


def reasons(plane: ControlPlane, space: str, name: str) -> set[str]:
    return {reason for _, reason, _ in events(plane, space, name)}


def warned(plane: ControlPlane, space: str, name: str, *words: str) -> bool:
    """Tell whether a WriteRefused Event on that object has all these words."""
    notes = [note for kind, reason, note in events(plane, space, name) if (kind, reason) == ("Warning", "WriteRefused")]
    return any(all(word in note for word in words) for note in notes)


def explain(kohort: Kohort, space: str, name: str) -> Json:
    found: Json = kohort.get(f"/v1/explain/{space}/{name}", unblock="true")
    return found


def bound(plane: ControlPlane, space: str, prefix: str) -> int:
    return sum(1 for name in nodes_of(plane, space) if name.startswith(prefix))


@contextmanager
def denied(plane: ControlPlane, space: str, rule: Json, expression: str, message: str) -> Iterator[None]:
    """Refuse by a ValidatingAdmissionPolicy, while the context lasts, writes for which the CEL expression is false."""
    name = f"told-{space}"
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}, "resourceRules": [rule]}
    validation = {"expression": expression, "message": message}
    spec = {"failurePolicy": "Fail", "matchConstraints": where, "validations": [validation]}
    group = "admissionregistration.k8s.io/v1"
    plane.apply(
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )  # fmt: skip
    try:
        yield
    finally:
        plane.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


def rule(group: str, resource: str, operation: str = "UPDATE") -> Json:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}


def refuses(plane: ControlPlane, path: str, patch: Json, words: str) -> bool:
    """Tell by a dry run whether the API server refuses that patch with these words, as the policy is in force then."""
    try:
        plane.api.patch(f"{path}?dryRun=All", patch)
    except ControlPlaneError as error:
        return words in str(error)
    return False


# -- In the test below, the API server refuses bindings. -----------------------------------------


def indexed(space: str, name: str) -> Json:
    container = {"name": "m", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    inside = {"schedulerName": "kohort", "restartPolicy": "Never", "containers": [container]}
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": {"spec": inside}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": space}, "spec": spec}


def test_a_binding_that_is_refused_each_time_is_never_told_as_bound(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    words = "doomed may not be bound"
    condition = "!object.metadata.name.startsWith('doomed')"
    with denied(plane, space, rule("", "pods/binding", "CREATE"), condition, words):
        until(lambda: _binding_refused(plane, space, words), "the policy in force")
        plane.api.create(f"/apis/batch/v1/namespaces/{space}/jobs", indexed(space, "doomed"))
        until(lambda: warned(plane, space, "doomed", "refused to bind", words), "told",
              seen=lambda: events(plane, space, "doomed"))  # fmt: skip
        plane.api.create(f"/apis/batch/v1/namespaces/{space}/jobs", indexed(space, "fine"))
        until(lambda: bound(plane, space, "fine") == 2, "the other one bound")
        until(lambda: "Bound" in reasons(plane, space, "fine"), "told that it is bound")
        until(
            lambda: (explain(kohort, space, "doomed")["waits"] or {}).get("reason") == "BackingOff", "backing off", 30
        )
        told = explain(kohort, space, "doomed")
        assert told["refused"][0]["text"].startswith(f"the API server refused to bind {space}/doomed-")
        assert words in told["refused"][0]["text"]
        if told["waits"]["reason"] == "BackingOff":
            assert words in told["waits"]["detail"]
            assert "would fit now" not in told["arithmetic"]
            assert told["unblock"] == []
            assert told["expected"]["at"] is None
        assert words in cli(kohort, "explain", f"{space}/doomed")
        assert words in cli(kohort, "jobs", "-n", space, "-o", "wide")
        assert "Bound" not in reasons(plane, space, "doomed")
        assert bound(plane, space, "doomed") == 0
    until(lambda: bound(plane, space, "doomed") == 2, "bound once nobody refuses")
    until(lambda: "Bound" in reasons(plane, space, "doomed"), "told so")
    assert explain(kohort, space, "doomed")["refused"] == []


def _binding_refused(plane: ControlPlane, space: str, words: str) -> bool:
    if not any(pod["metadata"]["name"] == "doomed-probe" for pod in pods(plane, space)):
        create_pod(plane, space, lone_pod("doomed-probe", cpu="1m", scheduler="nobody"))
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "doomed-probe"}, "target": target}
    try:
        plane.api.create(f"/api/v1/namespaces/{space}/pods/doomed-probe/binding?dryRun=All", binding)
    except ControlPlaneError as error:
        return words in str(error)
    return False


# -- The tests below are about resizes that are made or refused. ---------------------------------


def test_a_resize_that_is_refused_is_told_to_both_jobs_and_its_room_is_promised_to_nobody(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    big = submit(plane, TFJob(space, "big", workers=10, least=2, most=10))
    until(lambda: bound(plane, space, "big") == 11, "big whole")
    until(lambda: "Bound" in reasons(plane, space, "big"), "told that it is bound")
    same = "object.spec.tfReplicaSpecs.Worker.replicas == oldObject.spec.tfReplicaSpecs.Worker.replicas"
    with denied(plane, space, rule("kubeflow.org", "tfjobs"), same, WORDS):
        fewer = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 9}}}}
        until(lambda: refuses(plane, big.path, fewer, WORDS), "the policy in force")
        heavy = submit(plane, TFJob(space, "heavy", workers=6, utility="5"))
        until(lambda: warned(plane, space, "big", "refused to resize", f"{space}/big", WORDS), "big told",
              seen=lambda: (events(plane, space, "big"), explain(kohort, space, "big")))  # fmt: skip
        until(lambda: job_view(kohort, heavy)["state"] == "waiting", "heavy waits")
        view = job_view(kohort, big)
        assert (view["workers"], view["replicas"]) == (10, 10), "as the API server has it"
        for name in ("big", "heavy"):
            (one,) = explain(kohort, space, name)["refused"]
            assert (one["job"], one["write"]) == (f"{space}/big", "SetReplicas")
            assert WORDS in one["text"]
            assert WORDS in cli(kohort, "explain", f"{space}/{name}")
        assert WORDS in cli(kohort, "queue", "-n", space, "-o", "wide")
        assert WORDS in cli(kohort, "jobs", "-n", space, "-o", "wide")
        assert "WriteRefused" in cli(kohort, "decisions", "-n", space)
        until(lambda: any(WORDS in note for _, _, note in events(plane, space, "heavy")), "heavy told why it waits")
        never(lambda: bound(plane, space, "heavy") or job_view(kohort, big)["workers"] < 10, "promised again", 10)
        assert not reasons(plane, space, "big") & {"Shrunk", "Grown"}
        assert "Bound" not in reasons(plane, space, "heavy")


def test_a_shrink_that_is_made_is_told_when_its_pods_are_gone(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    submit(plane, TFJob(space, "wide", workers=10, least=2, most=10), stop_seconds=STOP_SECONDS)
    until(lambda: bound(plane, space, "wide") == 11, "wide whole")
    submit(plane, TFJob(space, "next", workers=5, utility="5"))
    until(lambda: "Shrinking" in reasons(plane, space, "wide"), "the plan told")
    until(lambda: "Planned" in reasons(plane, space, "next"), "the plan of the other told")
    (note,) = [note for _, reason, note in events(plane, space, "next") if reason == "Planned"]
    assert note.endswith(f"pods of {space}/wide are gone")
    until(lambda: "Bound" in reasons(plane, space, "next"), "told as bound")
    assert bound(plane, space, "next") == 6
    until(lambda: "Shrunk" in reasons(plane, space, "wide"), "told as shrunk")
    asked, done = (told_at(plane, space, "wide", word) for word in ("Shrinking", "Shrunk"))
    assert (done - asked).total_seconds() >= STOP_SECONDS, "its pods take so long to go"
    assert kohort.get(f"/v1/jobs/{space}/wide")["refused"] == []


@pytest.mark.full
def test_a_scale_subresource_that_is_refused_is_told_too(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    """Kohort resizes a StatefulSet by its scale subresource, so the API server's refusal names the Scale object."""
    words = "sets keep their size"
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": "2"}}}
    inside = {"metadata": {"labels": {"app": "set"}}, "spec": {"schedulerName": "kohort", "containers": [container]}}
    path = f"/apis/apps/v1/namespaces/{space}/statefulsets"
    notes = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"}
    spec = {
        "replicas": 6, "serviceName": "set", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "set"}}, "template": inside,
    }  # fmt: skip
    meta = {"name": "set", "namespace": space, "annotations": notes}
    plane.api.create(path, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
    until(lambda: bound(plane, space, "set") == 6, "the set whole")
    same = "object.spec.replicas == oldObject.spec.replicas"
    scale = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
             "resources": ["statefulsets/scale"]}  # fmt: skip
    with denied(plane, space, scale, same, words):
        until(lambda: refuses(plane, f"{path}/set/scale", {"spec": {"replicas": 5}}, words), "in force")
        heavy = submit(plane, TFJob(space, "heavy", workers=5, utility="5"))
        until(lambda: warned(plane, space, "set", "refused to resize", words), "told",
              seen=lambda: (events(plane, space, "set"), explain(kohort, space, "set")))  # fmt: skip
        until(lambda: job_view(kohort, heavy)["state"] == "waiting", "heavy waits")
        assert kohort.get(f"/v1/jobs/{space}/set")["workers"] == 6
        assert words in explain(kohort, space, "heavy")["refused"][0]["text"]


@pytest.mark.full
def test_a_deployment_that_may_not_be_made_smaller_keeps_no_room(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """Six pods do not fit, so fewer are planned; none is bound before the others are gone, and those may not go."""
    words = "deployments keep their size"
    container = {"name": "train", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    inside: Json = {
        "metadata": {"labels": {"app": "many"}},
        "spec": {"schedulerName": "kohort", "containers": [container]},
    }
    path = f"/apis/apps/v1/namespaces/{space}/deployments"
    notes = {"kohort.dev/min-workers": "2", "kohort.dev/max-workers": "6"}
    meta = {"name": "many", "namespace": space, "annotations": notes}
    spec = {"replicas": 6, "selector": {"matchLabels": {"app": "many"}}, "strategy": {"type": "Recreate"}}
    made: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {**spec, "template": inside}}
    # A Deployment of another scheduler shows when the policy is in force.
    elsewhere = {**inside, "spec": {**inside["spec"], "schedulerName": "nobody"}}
    probe: Json = {**made, "metadata": {**meta, "name": "probe"}, "spec": {**spec, "template": elsewhere}}
    same = "object.spec.replicas == oldObject.spec.replicas"
    with denied(plane, space, rule("apps", "deployments/scale"), same, words):
        plane.api.create(path, probe)
        until(lambda: refuses(plane, f"{path}/probe/scale", {"spec": {"replicas": 5}}, words), "in force")
        plane.api.create(path, made)
        until(lambda: warned(plane, space, "many", "refused to resize", words), "told",
              seen=lambda: (events(plane, space, "many"), explain(kohort, space, "many")))  # fmt: skip
        until(lambda: words in (explain(kohort, space, "many")["waits"] or {}).get("detail", ""), "why it backs off",
              seen=lambda: explain(kohort, space, "many"))  # fmt: skip
        submit(plane, TFJob(space, "other", workers=10))
        until(lambda: bound(plane, space, "other") == 11, "another job in the room that was planned")
        assert bound(plane, space, "many") == 0
    plane.api.delete(f"/apis/kubeflow.org/v1/namespaces/{space}/tfjobs/other")
    until(lambda: bound(plane, space, "many") >= 2, "started once nobody refuses")


@pytest.mark.full
def test_a_webhook_that_is_down_is_told_in_the_api_servers_words(
    plane: ControlPlane, kohort: Kohort, space: str
) -> None:
    """The API server answers with 500, so the write may have been made; only the plan's deadline ends the attempt."""
    big = submit(plane, TFJob(space, "big", workers=10, least=2, most=10))
    until(lambda: bound(plane, space, "big") == 11, "big whole")
    hook = {
        "name": SERVICE, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/size"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
        "rules": [rule("kubeflow.org", "tfjobs")],
    }  # fmt: skip
    plane.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": SERVICE}, "webhooks": [hook],
        }
    )  # fmt: skip
    try:
        fewer = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 9}}}}
        until(lambda: refuses(plane, big.path, fewer, SERVICE), "the webhook asked")
        submit(plane, TFJob(space, "heavy", workers=6, utility="5"))
        until(lambda: warned(plane, space, "big", "refused to resize", SERVICE), "big told",
              seen=lambda: (events(plane, space, "big"), explain(kohort, space, "big")))  # fmt: skip
        assert SERVICE in explain(kohort, space, "heavy")["refused"][0]["text"]
        assert not reasons(plane, space, "big") & {"Shrunk", "Grown"}
    finally:
        plane.kubectl("delete", "validatingwebhookconfiguration", SERVICE)
    until(lambda: bound(plane, space, "heavy") == 7, "heavy bound once the webhook is gone")
    until(lambda: "Shrunk" in reasons(plane, space, "big"), "told")
    assert explain(kohort, space, "big")["refused"] == []


@contextmanager
def denying_webhook(plane: ControlPlane, space: str, status: int, words: str) -> Iterator[None]:
    """Apply a ValidatingWebhookConfiguration with a webhook that denies changes of the TFJobs with that HTTP status."""
    pki = plane.layout.pki

    class Denies(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"code": status, "message": words}}
            body = json.dumps({**review, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Denies)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_certificate, pki.server_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    authority = base64.b64encode(pki.ca_file.read_bytes()).decode()
    hook = {
        "name": SERVICE, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": authority},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
        "rules": [rule("kubeflow.org", "tfjobs")],
    }  # fmt: skip
    group = "admissionregistration.k8s.io/v1"
    plane.apply(
        {
            "apiVersion": group, "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"denies-{space}"}, "webhooks": [hook],
        }
    )  # fmt: skip
    try:
        yield
    finally:
        plane.kubectl("delete", "validatingwebhookconfiguration", f"denies-{space}")
        server.shutdown()
        server.server_close()


@pytest.mark.full
@pytest.mark.parametrize("status", [400, 404, 409, 429, 500])
def test_a_webhooks_denial_is_told_whatever_its_status(
    plane: ControlPlane, kohort: Kohort, space: str, status: int
) -> None:
    """A webhook chooses the status, which may be that of a conflict or of an object that is gone."""
    big = submit(plane, TFJob(space, "big", workers=10, least=2, most=10))
    until(lambda: bound(plane, space, "big") == 11, "big whole")
    with denying_webhook(plane, space, status, WORDS):
        fewer = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 9}}}}
        until(lambda: refuses(plane, big.path, fewer, WORDS), "the webhook asked")
        heavy = submit(plane, TFJob(space, "heavy", workers=6, utility="5"))
        until(lambda: warned(plane, space, "big", "refused to resize", f"{space}/big", WORDS), "big told",
              seen=lambda: (events(plane, space, "big"), explain(kohort, space, "big")))  # fmt: skip
        until(lambda: job_view(kohort, heavy)["state"] == "waiting", "heavy waits")
        assert job_view(kohort, big)["workers"] == 10
        assert WORDS in explain(kohort, space, "heavy")["refused"][0]["text"]
        command = [str(Path(sys.executable).with_name("kohort")), "suspend", f"{space}/big"]
        done = subprocess.run(
            [*command, "--kubeconfig", str(plane.admin_kubeconfig)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, WORDS in done.stderr) == (1, True), done.stderr


# -- The test below is about the controller's writes to pods. --------------------------------------


def test_a_gate_that_may_not_be_removed_is_told_at_its_pod(plane: ControlPlane, kohort: Kohort, space: str) -> None:
    words = "gates stay here"
    same = "size(object.spec.?schedulingGates.orValue([])) == size(oldObject.spec.?schedulingGates.orValue([]))"
    with denied(plane, space, rule("", "pods"), same, words):
        create_pod(plane, space, lone_pod("probe", scheduler="nobody", schedulingGates=[{"name": "example.com/other"}]))
        probe = f"/api/v1/namespaces/{space}/pods/probe"
        until(lambda: refuses(plane, probe, {"spec": {"schedulingGates": None}}, words), "in force")
        create_pod(plane, space, lone_pod("gated", schedulingGates=[{"name": OUR_GATE}]))
        until(lambda: warned(plane, space, "gated", "remove the scheduling gate", words), "told",
              seen=lambda: (events(plane, space, "gated"), explain(kohort, space, "gated")))  # fmt: skip
        assert words in explain(kohort, space, "gated")["refused"][0]["text"]
        assert metric(kohort.health, "kohort_refused_writes", write="Ungate") == 1
    until(lambda: bound(plane, space, "gated") == 1, "bound once nobody refuses")
    until(lambda: explain(kohort, space, "gated")["refused"] == [], "the refusal is over")
    # The metric follows with the controller's next report of refused writes.
    until(lambda: metric(kohort.health, "kohort_refused_writes", write="Ungate") == 0, "counted no more")
