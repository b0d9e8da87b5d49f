"""Tests of the ServiceAccounts' rights on a real API server: each process has what it needs and no other rights."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.controlplane import ControlPlane, ControlPlaneError
from tests.controlplane.kohort import BASE, CHECKOUT, NAMESPACE, manifests
from tests.e2e.tfjobs import TFJOBS, TFJob
from tests.e2e.waiting import until

Json = dict[str, Any]
TEAM = "team"
EXTENDER, CONTROLLER, SCHEDULER, WHOLE = "kohort-extender", "kohort-controller", "kohort-scheduler", "kohort"
READ = ("get", "list", "watch")
ANY = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
WRITE = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for the API server: is the verb allowed on ``what``, written as "group:resource/subresource"?

    The core group has no name.
    """

    what: str
    verb: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> Json:
        group, _, rest = self.what.rpartition(":")
        resource, _, sub = rest.partition("/")
        return {
            "group": group, "resource": resource, "subresource": sub, "verb": self.verb,
            "namespace": self.namespace, "name": self.name,
        }  # fmt: skip


def ask(what: str, *verbs: str, namespace: str = "", name: str = "") -> list[Asked]:
    return [Asked(what, verb, namespace, name) for verb in verbs]


JOBS = [f"kubeflow.org:{kind}" for kind in ("tfjobs", "pytorchjobs", "mpijobs")]
OWN = ["batch:jobs", "jobset.x-k8s.io:jobsets", "apps:statefulsets", "apps:deployments"]
GROUPS = [f"scheduling.{group}:podgroups" for group in ("k8s.io", "x-k8s.io", "volcano.sh")]
LEASE, GATE = "coordination.k8s.io:leases", "configmaps"
NEEDED: dict[str, list[Asked]] = {
    EXTENDER: [
        *ask("pods", *READ), *ask("nodes", *READ), *ask("resourcequotas", *READ),
        *(one for kind in (*JOBS, *OWN, *GROUPS) for one in ask(kind, *READ)),
        *ask("pods/binding", "create", namespace=TEAM), *ask("events.k8s.io:events", "create", namespace=TEAM),
        *ask(LEASE, "get", namespace=NAMESPACE, name="kohort-scheduler"),
        *ask("authentication.k8s.io:tokenreviews", "create"), *ask("metrics.k8s.io:nodes", "get", "list"),
    ],
    CONTROLLER: [
        *ask("pods", *READ), *ask("pods", "patch", "delete", namespace=TEAM),
        *ask("pods/status", "patch", namespace=TEAM), *ask("pods/eviction", "create", namespace=TEAM),
        *(one for kind in JOBS for one in ask(kind, *READ)),
        *(one for kind in (*JOBS, *OWN[:2]) for one in ask(kind, "patch", namespace=TEAM)),
        *(one for kind in OWN[2:] for one in ask(f"{kind}/scale", "patch", namespace=TEAM)),
        *ask("events.k8s.io:events", "create", namespace=TEAM),
        *ask(GATE, "get", "patch", namespace=NAMESPACE, name="kohort-gate"),
        *ask(LEASE, "get", namespace=NAMESPACE, name="kohort-scheduler"),
    ],
    SCHEDULER: [
        *ask("pods", *READ), *ask("nodes", *READ), *ask("pods/binding", "create", namespace=TEAM),
        *ask("pods/status", "patch", "update", namespace=TEAM), *ask("events.k8s.io:events", "create", namespace=TEAM),
        *ask("persistentvolumeclaims", *READ), *ask("persistentvolumes", *READ),
        *ask("storage.k8s.io:storageclasses", *READ), *ask(LEASE, "create", namespace=NAMESPACE),
        *ask(LEASE, "get", "update", namespace=NAMESPACE, name="kohort-scheduler"),
        *ask("configmaps", "get", namespace="kube-system", name="extension-apiserver-authentication"),
    ],
}  # fmt: skip
# The ServiceAccount of the pod with three containers has the rights of all three containers and no others.
NEEDED[WHOLE] = [asked for part in (EXTENDER, CONTROLLER, SCHEDULER) for asked in NEEDED[part]]

NOBODYS = [
    *(one for space in (TEAM, NAMESPACE, "kube-system", "") for one in ask("secrets", *ANY, namespace=space)),
    *(one for what in ("serviceaccounts", "serviceaccounts/token") for one in ask(what, *WRITE, namespace=NAMESPACE)),
    *ask("nodes", *WRITE), *ask("nodes/status", "update", "patch"), *ask("nodes/proxy", "get", "create"),
    *ask("pods", "create", "update", "deletecollection", namespace=TEAM),
    *(one for sub in ("exec", "attach", "portforward", "log", "proxy", "ephemeralcontainers", "resize")
      for one in ask(f"pods/{sub}", "get", "create", "update", "patch", namespace=TEAM)),
    *(one for kind in JOBS for one in ask(kind, "create", "update", "delete", "deletecollection", namespace=TEAM)),
    *(one for kind in JOBS for one in ask(f"{kind}/status", "update", "patch", namespace=TEAM)),
    *(one for kind in ("deployments", "statefulsets", "daemonsets", "replicasets")
      for one in ask(f"apps:{kind}", *WRITE, namespace=NAMESPACE)),
    *ask(GATE, *ANY, namespace=NAMESPACE, name="kohort-settings"), *ask(GATE, *ANY, namespace=TEAM, name="kohort-gate"),
    *ask(GATE, "list", "watch", "create", "update", "delete", "deletecollection", namespace=NAMESPACE),
    *ask(LEASE, *ANY, namespace="kube-system", name="kohort-scheduler"),
    *ask(LEASE, *ANY, namespace=TEAM, name="kohort-scheduler"), *ask(LEASE, "get", "update", "patch", "delete",
         namespace=NAMESPACE, name="another"), *ask(LEASE, "list", "patch", "delete", namespace=NAMESPACE),
    *(one for what in ("roles", "rolebindings") for one in ask(f"rbac.authorization.k8s.io:{what}", *WRITE,
                                                               "bind", "escalate", namespace=NAMESPACE)),
    *(one for what in ("clusterroles", "clusterrolebindings")
      for one in ask(f"rbac.authorization.k8s.io:{what}", *WRITE, "bind", "escalate")),
    *(one for what in ("users", "groups", "serviceaccounts") for one in ask(what, "impersonate")),
    *(one for what in ("mutatingadmissionpolicies", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
                       "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations")
      for one in ask(f"admissionregistration.k8s.io:{what}", *WRITE)),
    *ask("namespaces", *WRITE), *ask("apiextensions.k8s.io:customresourcedefinitions", *WRITE),
    *ask("resourcequotas", *WRITE, namespace=TEAM), *ask("certificates.k8s.io:certificatesigningrequests", *WRITE),
    *ask("services", *WRITE, namespace=TEAM), *ask("scheduling.k8s.io:priorityclasses", *WRITE),
]  # fmt: skip
# By ServiceAccount: rights that another process has and this one must not have.
ONLY_OTHERS: dict[str, list[Asked]] = {
    EXTENDER: [
        *ask("pods/eviction", "create", namespace=TEAM),
        *ask("pods", "patch", "delete", namespace=TEAM), *ask("pods/status", "update", "patch", namespace=TEAM),
        *(one for kind in (*JOBS, *OWN) for one in ask(kind, "patch", namespace=TEAM)),
        *(one for kind in OWN[2:] for one in ask(f"{kind}/scale", "patch", "update", namespace=TEAM)),
        *ask(GATE, *ANY, namespace=NAMESPACE, name="kohort-gate"),
        *ask(LEASE, *WRITE, namespace=NAMESPACE, name="kohort-scheduler"), *ask("persistentvolumes", *ANY),
    ],
    CONTROLLER: [
        *ask("pods/binding", "create", namespace=TEAM), *ask("nodes", *ANY), *ask(GATE, "delete", "update",
             namespace=NAMESPACE, name="kohort-gate"),
        *ask(LEASE, *WRITE, namespace=NAMESPACE, name="kohort-scheduler"), *ask("persistentvolumes", *ANY),
    ],
    SCHEDULER: [
        *ask(GATE, *ANY, namespace=NAMESPACE, name="kohort-gate"),
        *(one for kind in JOBS for one in ask(kind, *ANY, namespace=TEAM)),
    ],
    WHOLE: [],
}  # fmt: skip
# These rights come with Kubernetes' own role for kube-scheduler.
OF_KUBE_SCHEDULER = {(LEASE, "create"), ("pods", "delete")}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a control plane that has Kohort's ServiceAccounts and rights, but runs neither Kohort nor a scheduler."""
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("rights")) as started:
        started.apply(*manifests())
        started.kubectl("create", "namespace", TEAM)
        yield started


class Account:
    """A client with the token of one ServiceAccount."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        config = yaml.safe_load(plane.service_account_kubeconfig(NAMESPACE, name).read_text())
        token = config["users"][0]["user"]["token"]
        tls = ssl.create_default_context(cafile=str(plane.layout.pki.ca_file))
        self._client = httpx.Client(
            base_url=plane.url, verify=tls, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=60
        )

    def close(self) -> None:
        self._client.close()

    def may(self, asked: Asked) -> bool:
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                  "spec": {"resourceAttributes": asked.attributes()}}  # fmt: skip
        answer = self._client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=review)
        answer.raise_for_status()
        return bool(answer.json()["status"]["allowed"])

    def call(self, method: str, path: str, body: object = None, kind: str = "merge-patch") -> httpx.Response:
        head = {"content-type": f"application/{kind}+json" if method == "PATCH" else "application/json"}
        return self._client.request(method, path, json=body, headers=head)

    def status(self, method: str, path: str, body: object = None, kind: str = "merge-patch") -> int:
        return self.call(method, path, body, kind).status_code


@pytest.fixture(scope="module")
def accounts(plane: ControlPlane) -> Iterator[dict[str, Account]]:
    made = {name: Account(plane, name) for name in NEEDED}
    # RBAC is read through caches.
    until(lambda: all(made[name].may(NEEDED[name][0]) for name in made), "the rights seen")
    yield made
    for account in made.values():
        account.close()


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_part_needs_is_allowed(accounts: dict[str, Account], name: str) -> None:
    missing = [asked for asked in NEEDED[name] if not accounts[name].may(asked)]
    print(f"{name}: {len(NEEDED[name])} calls allowed")
    assert not missing


@pytest.mark.parametrize("name", NEEDED)
def test_what_no_part_needs_is_refused(accounts: dict[str, Account], name: str) -> None:
    as_scheduler = name in (SCHEDULER, WHOLE)
    asked = [
        one
        for one in (*NOBODYS, *ONLY_OTHERS[name])
        if not (as_scheduler and (one.what, one.verb) in OF_KUBE_SCHEDULER)
    ]
    given = [one for one in asked if accounts[name].may(one)]
    print(f"{name}: {len(asked)} calls refused")
    assert not given


# -- The tests below make real calls with the rights of each service account. --------------------


def pod(name: str, scheduler: str) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": TEAM},
        "spec": {"schedulerName": scheduler, "containers": [container],
                 "schedulingGates": [{"name": "kohort.dev/admission"}]},
    }  # fmt: skip


POD = f"/api/v1/namespaces/{TEAM}/pods"
FORBIDDEN = httpx.codes.FORBIDDEN
TOUCH = {"metadata": {"annotations": {"example.com/touched": "yes"}}}
NOMINATE = {"status": {"nominatedNodeName": "node-0"}}


@pytest.fixture
def ours_and_theirs(plane: ControlPlane) -> Iterator[tuple[str, str]]:
    """Yield the paths of a pod that opted in and of a pod that did not."""
    for name, scheduler in (("ours", "kohort"), ("theirs", "default-scheduler")):
        plane.api.create(POD, pod(name, scheduler))
    yield f"{POD}/ours", f"{POD}/theirs"
    plane.kubectl("delete", "pods", "--all", "-n", TEAM, "--wait=true")


@pytest.mark.parametrize("name", [CONTROLLER, WHOLE])
def test_the_controller_changes_and_deletes_only_pods_that_opted_in(
    plane: ControlPlane, accounts: dict[str, Account], ours_and_theirs: tuple[str, str], name: str
) -> None:
    ours, theirs = ours_and_theirs
    account = accounts[name]
    # An admission policy is in force only a moment after its creation.
    until(lambda: account.status("PATCH", theirs, TOUCH) == FORBIDDEN, "the policy in force")
    ungate = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    for refused in (
        account.call("PATCH", theirs, TOUCH),
        account.call("PATCH", theirs, ungate, "json-patch"),
        account.call("PATCH", f"{theirs}/status", NOMINATE, "strategic-merge-patch"),
        account.call("DELETE", theirs),
    ):
        assert refused.status_code == FORBIDDEN, refused.text
        assert "only pods with schedulerName kohort" in refused.text
    # Nor can the controller make such a pod opt in first.
    assert account.status("PATCH", theirs, {"spec": {"schedulerName": "kohort"}}) in (403, 422)
    after = plane.api.get(theirs)
    assert len(after["spec"]["schedulingGates"]) == 1
    assert "nominatedNodeName" not in after["status"]
    assert account.call("PATCH", ours, TOUCH).is_success
    assert account.call("PATCH", f"{ours}/status", NOMINATE, "strategic-merge-patch").is_success
    assert account.call("PATCH", ours, ungate, "json-patch").is_success
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    assert account.status("DELETE", ours, wrong) == httpx.codes.CONFLICT
    uid = plane.api.get(ours)["metadata"]["uid"]
    assert account.call("DELETE", ours, {"preconditions": {"uid": uid}}).is_success


def test_the_extender_binds_and_can_do_nothing_else_to_a_pod(
    plane: ControlPlane, accounts: dict[str, Account], ours_and_theirs: tuple[str, str]
) -> None:
    extender = accounts[EXTENDER]
    for path in ours_and_theirs:
        assert extender.status("PATCH", path, TOUCH) == FORBIDDEN
        assert extender.status("PATCH", f"{path}/status", NOMINATE, "strategic-merge-patch") == FORBIDDEN
        assert extender.status("DELETE", path) == FORBIDDEN
    assert extender.status("DELETE", POD) == FORBIDDEN
    assert extender.status("POST", POD, pod("another", "kohort")) == FORBIDDEN
    plane.api.patch(ours_and_theirs[0], [{"op": "remove", "path": "/spec/schedulingGates/0"}], "json-patch")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "ours", "namespace": TEAM},
               "target": {"kind": "Node", "name": "node-0"}}  # fmt: skip
    assert extender.call("POST", f"{ours_and_theirs[0]}/binding", binding).is_success
    assert accounts[CONTROLLER].status("POST", f"{ours_and_theirs[1]}/binding", binding) == FORBIDDEN


def test_jobs_are_resized_by_the_controller_and_otherwise_left_alone(
    plane: ControlPlane, accounts: dict[str, Account]
) -> None:
    job = TFJob(TEAM, "train", workers=2)
    plane.api.create(TFJOBS.format(namespace=TEAM), job.manifest())
    resize = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
    assert accounts[EXTENDER].status("PATCH", job.path, resize) == FORBIDDEN
    assert accounts[CONTROLLER].call("PATCH", job.path, resize).is_success
    another = TFJob(TEAM, "another").manifest()
    for account in accounts.values():
        assert account.status("POST", TFJOBS.format(namespace=TEAM), another) == FORBIDDEN
        assert account.status("DELETE", job.path) == FORBIDDEN
        assert account.status("PUT", job.path, plane.api.get(job.path)) == FORBIDDEN
    plane.api.delete(job.path)


@pytest.mark.full
def test_who_leads_no_more_changes_nothing(plane: ControlPlane, accounts: dict[str, Account]) -> None:
    """A replica that was suspended still writes its own name as leader, but another replica holds the Lease by then."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kohort-scheduler"}}
    plane.api.create(leases, lease | {"spec": {"holderIdentity": "new_1234"}})
    job = TFJob(TEAM, "fenced", workers=2)
    plane.api.create(TFJOBS.format(namespace=TEAM), job.manifest())
    pods = f"/api/v1/namespaces/{TEAM}/pods"
    container = {"name": "main", "image": "none"}
    plane.api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fenced"},
                            "spec": {"schedulerName": "kohort", "containers": [container]}})  # fmt: skip

    def written(leader: str) -> tuple[int, int]:
        meta = {"name": "fenced", "annotations": {"kohort.dev/leader": leader}}
        resize = {
            "metadata": {"annotations": meta["annotations"]},
            "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}},
        }
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        return (
            accounts[CONTROLLER].status("PATCH", job.path, resize),
            accounts[EXTENDER].status("POST", f"{pods}/fenced/binding", binding),
        )

    until(lambda: written("old") == (FORBIDDEN, FORBIDDEN), "the policy in force")
    assert written("ne") == (FORBIDDEN, FORBIDDEN), "a name is a whole one"
    assert written("new") == (httpx.codes.OK, httpx.codes.CREATED)
    for path in (job.path, f"{pods}/fenced", f"{leases}/kohort-scheduler"):
        plane.api.delete(path)


@pytest.mark.full
def test_a_batch_job_that_did_not_opt_in_is_not_changed(plane: ControlPlane, accounts: dict[str, Account]) -> None:
    path, less = f"/apis/batch/v1/namespaces/{TEAM}/jobs", {"spec": {"parallelism": 1}}
    for name, scheduler in (("ours", "kohort"), ("theirs", "default-scheduler")):
        container = {"name": "train", "image": "none"}
        pod = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
        spec = {"parallelism": 2, "template": {"spec": pod}}
        plane.api.create(path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
    assert accounts[CONTROLLER].call("PATCH", f"{path}/ours", less).is_success
    assert accounts[CONTROLLER].status("PATCH", f"{path}/theirs", less) == FORBIDDEN
    for name in ("ours", "theirs"):
        plane.api.delete(f"{path}/{name}")


@pytest.mark.full
def test_the_gate_is_the_only_map_and_the_lease_the_only_lease(
    plane: ControlPlane, accounts: dict[str, Account]
) -> None:
    maps, leases = f"/api/v1/namespaces/{NAMESPACE}/configmaps", "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    gate, another = {"data": {"gate": "off"}}, {"data": {"kohort.yaml": "policy: fifo-pod"}}
    assert accounts[CONTROLLER].call("PATCH", f"{maps}/kohort-gate", gate).is_success
    assert accounts[EXTENDER].status("PATCH", f"{maps}/kohort-gate", gate) == FORBIDDEN
    for account in accounts.values():
        for name in ("kohort-settings", "kohort-scheduler-config"):
            assert account.status("PATCH", f"{maps}/{name}", another) == FORBIDDEN
        assert account.status("DELETE", f"{maps}/kohort-gate") == FORBIDDEN
        for namespace in (TEAM, "kube-system"):
            assert account.status("GET", f"{leases.format(namespace)}/kohort-scheduler") == FORBIDDEN
        assert account.status("GET", f"{leases.format(NAMESPACE)}/another") == FORBIDDEN
        assert account.status("GET", leases.format(NAMESPACE)) == FORBIDDEN
        assert account.status("GET", "/api/v1/secrets") == FORBIDDEN
        assert account.status("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/any") == FORBIDDEN
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kohort-scheduler"},
             "spec": {"holderIdentity": "nobody"}}  # fmt: skip
    assert accounts[EXTENDER].status("POST", leases.format(NAMESPACE), lease) == FORBIDDEN
    assert accounts[SCHEDULER].call("POST", leases.format(NAMESPACE), lease).is_success
    assert accounts[EXTENDER].call("GET", f"{leases.format(NAMESPACE)}/kohort-scheduler").is_success
    assert accounts[CONTROLLER].status("DELETE", f"{leases.format(NAMESPACE)}/kohort-scheduler") == FORBIDDEN


# -- In the tests below, the API server checks the manifests. ------------------------------------


FILES = sorted(file for file in (*BASE.glob("*.yaml"), *(CHECKOUT / "manifests/examples").glob("*.yaml"))
               if file.name != "kustomization.yaml")  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}-{file.stem}" for file in FILES])
def test_the_server_takes_every_manifest(plane: ControlPlane, file: Path) -> None:
    documents = [document for document in yaml.safe_load_all(file.read_text()) if document]
    said = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(file)).splitlines()
    assert len([line for line in said if "(server dry run)" in line]) == len(documents)


@pytest.mark.full
def test_the_server_takes_the_base_as_a_whole(plane: ControlPlane) -> None:
    said = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(BASE))
    kinds = [document["kind"] for file in FILES if file.parent == BASE for document in
             yaml.safe_load_all(file.read_text()) if document]  # fmt: skip
    assert said.count("(server dry run)") == len(kinds)


@pytest.mark.full
def test_the_server_takes_the_overlay_for_a_shared_scheduler(plane: ControlPlane) -> None:
    overlay = CHECKOUT / "manifests/overlays/shared-scheduler"
    said = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(overlay))
    assert {"lease.coordination.k8s.io/kohort-extender", "service/kohort-extender", "deployment.apps/kohort"} <= {
        line.split(" ")[0] for line in said.splitlines()
    }
    assert "kohort-scheduler" not in said


@pytest.mark.full
def test_a_manifest_with_a_fault_is_not_taken(plane: ControlPlane) -> None:
    """Show that the dry run of the tests above can fail: an unknown field in a manifest is refused."""
    text = (BASE / "deployment.yaml").read_text().replace("enableServiceLinks:", "enableServiceLink:")
    with pytest.raises(ControlPlaneError, match="enableServiceLink"):
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
