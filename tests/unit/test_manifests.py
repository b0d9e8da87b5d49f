"""The manifests are complete, valid for Kubernetes 1.37 (checked offline), restricted, consistent, and
have few rights.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from extender.access.reviews import GROUP, RESOURCE, VERB
from extender.cli.viaapiserver import DEFAULT_SERVICE, ELECTIONS, LABELS, NAMESPACE, PORT
from extender.config.plainyaml import parse_yaml
from extender.config.settings import Settings
from extender.kube.api import NODES, PODS, QUOTAS
from extender.kube.jobkinds import FAILURES, FORGIVE, GATE, KINDS, LEADER, RELEASED
from extender.kube.jobobjects import read_job
from extender.kube.podgroupkinds import GROUPS
from extender.kube.templates import pod_templates
from extender.kubescheduler.checkconfig import check_file

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests" / "base"
EXAMPLES = sorted((ROOT / "manifests" / "examples").glob("*.yaml"))
FILES = sorted(path for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
Manifest = dict[str, Any]


def documents(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


OBJECTS = {
    f"{document['kind']} {document['metadata']['name']}": document for path in FILES for document in documents(path)
}
KUSTOMIZATION = documents(BASE / "kustomization.yaml")[0]
DEPLOYMENT = OBJECTS["Deployment kohort"]
POD = DEPLOYMENT["spec"]["template"]
CONTAINERS = {container["name"]: container for container in POD["spec"]["containers"]}
SETTINGS = Settings(**parse_yaml(OBJECTS["ConfigMap kohort-settings"]["data"]["kohort.yaml"]))
ROLES = {name: manifest for name, manifest in OBJECTS.items() if manifest["kind"] in ("Role", "ClusterRole")}
BINDINGS = {name: manifest for name, manifest in OBJECTS.items() if manifest["kind"].endswith("RoleBinding")}


def test_kustomization_lists_every_file_once() -> None:
    assert sorted(KUSTOMIZATION["resources"]) == [path.name for path in FILES]


def test_no_object_is_written_twice() -> None:
    assert len(OBJECTS) == sum(len(documents(path)) for path in FILES) == 32


@pytest.mark.parametrize("manifest", OBJECTS.values(), ids=OBJECTS.keys())
def test_object_is_valid_in_kubernetes_1_37(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_validation_can_fail() -> None:
    for broken in ({"replicas": "two"}, {"replica": 2}):
        wrong = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | broken}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.37", strict=True)


@pytest.mark.parametrize("manifest", OBJECTS.values(), ids=OBJECTS.keys())
def test_object_carries_our_labels(manifest: Manifest) -> None:
    labels = manifest["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == labels["app.kubernetes.io/part-of"] == "kohort"
    assert labels["app.kubernetes.io/component"]


def test_namespace_is_restricted() -> None:
    labels = OBJECTS["Namespace kohort-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


# -- The tests below check that configuration, settings, policy and probes agree. --------------------------------------


def test_check_config_finds_nothing_in_the_shipped_configuration() -> None:
    assert check_file(BASE / "scheduler-config.yaml", SETTINGS) == []


def test_shipped_settings_are_the_defaults() -> None:
    assert Settings() == SETTINGS


def test_settings_name_what_the_manifests_hold() -> None:
    gate = OBJECTS[f"ConfigMap {SETTINGS.gate_parameters.name}"]
    assert gate["metadata"]["namespace"] == SETTINGS.gate_parameters.namespace
    assert gate["data"] == {"gate": "off"}
    reference = OBJECTS["MutatingAdmissionPolicyBinding kohort-gate"]["spec"]["paramRef"]
    assert (reference["namespace"], reference["name"]) == (
        SETTINGS.gate_parameters.namespace,
        SETTINGS.gate_parameters.name,
    )


def test_probes_ask_the_ports_of_the_settings() -> None:
    ports = {name: container["ports"] for name, container in CONTAINERS.items()}
    assert ports == {
        "kube-scheduler": [{"name": "scheduler", "containerPort": 10259}],
        "extender": [{"name": "extender", "containerPort": SETTINGS.server.health_port}],
        "controller": [{"name": "controller", "containerPort": SETTINGS.controller.health_port}],
    }
    for container in CONTAINERS.values():
        for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            asked = container[probe]["httpGet"]
            assert (asked["port"], asked["path"]) == (container["ports"][0]["name"], path)


def test_verbs_have_no_port_and_network_reaches_health_ports_only() -> None:
    rule = OBJECTS["NetworkPolicy kohort"]["spec"]
    allowed = [port["port"] for entry in rule["ingress"] for port in entry["ports"]]
    assert allowed == [port["name"] for container in CONTAINERS.values() for port in container["ports"]]
    assert rule["policyTypes"] == ["Ingress"]
    assert rule["podSelector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()


def test_the_command_line_looks_for_the_pods_and_the_leases_that_are_there() -> None:
    labels = POD["metadata"]["labels"]
    assert dict(pair.split("=") for pair in LABELS.split(",")).items() <= labels.items()
    assert (DEPLOYMENT["metadata"]["namespace"], SETTINGS.server.port) == (NAMESPACE, PORT)
    overlay = ROOT / "manifests" / "overlays" / "shared-scheduler"
    elected = [one["metadata"]["name"] for one in documents(overlay / "lease.yaml") if one["kind"] == "Lease"]
    assert (SETTINGS.lease.name, *elected) == ELECTIONS


def test_the_journal_is_kept_where_it_can_be_written_and_is_bounded() -> None:
    given = {one["name"]: one["value"] for one in CONTAINERS["extender"]["env"]}
    mount = next(
        one for one in CONTAINERS["extender"]["volumeMounts"] if one["mountPath"] == given["KOHORT_JOURNAL__FOLDER"]
    )
    volume = next(one for one in POD["spec"]["volumes"] if one["name"] == mount["name"])
    assert not mount.get("readOnly")
    bound = int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 2**30
    kept = SETTINGS.journal.files * SETTINGS.journal.file_bytes
    assert kept * 4 <= bound, "the state before the steps of each file comes on top"


def test_mounted_files_are_those_that_the_commands_read() -> None:
    for container in CONTAINERS.values():
        read = next(re.sub(r"^--config=", "", part) for part in container["command"] if "/etc/" in part)
        folder, name = read.rsplit("/", 1)
        (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == folder)
        volume = next(one for one in POD["spec"]["volumes"] if one["name"] == mount["name"])
        assert name in OBJECTS[f"ConfigMap {volume['configMap']['name']}"]["data"]


def test_image_and_label_state_the_projects_version() -> None:
    assert {CONTAINERS[name]["image"] for name in ("extender", "controller")} == {f"kohort:{VERSION}"}
    assert KUSTOMIZATION["labels"][0]["pairs"]["app.kubernetes.io/version"] == VERSION


# -- The tests below are about Kohort's own pod. -----------------------------------------------------------------------


def test_pod_is_restricted() -> None:
    spec = POD["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "initContainers", "ephemeralContainers"):
        assert key not in spec
    assert all("hostPort" not in port for container in CONTAINERS.values() for port in container["ports"])
    assert {kind for volume in spec["volumes"] for kind in volume} == {"name", "configMap", "emptyDir"}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_container_is_restricted_and_bounded(container: Manifest) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    assert not container["image"].endswith(":latest")


def test_pod_can_start_without_kohort_and_survives_a_node() -> None:
    assert POD["spec"]["schedulerName"] == "default-scheduler"
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert POD["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert OBJECTS["PodDisruptionBudget kohort"]["spec"]["minAvailable"] == 1
    assert POD["spec"]["terminationGracePeriodSeconds"] > SETTINGS.server.graceful_seconds
    assert POD["spec"]["enableServiceLinks"] is False


def test_selectors_find_the_pod_and_hold_no_version() -> None:
    selectors = [
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        OBJECTS["PodDisruptionBudget kohort"]["spec"]["selector"]["matchLabels"],
        POD["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= POD["metadata"]["labels"].items()
        assert "app.kubernetes.io/version" not in selector


# -- The tests below are about the objects that components add. --------------------------------------------------------


def objects_of(component: str) -> dict[str, Manifest]:
    """Return the objects that the component adds, by kind and name."""
    return {
        f"{document['kind']} {document['metadata']['name']}": document
        for path in sorted((ROOT / "manifests" / "components" / component).glob("*.yaml"))
        for document in documents(path)
        if path.name not in ("kustomization.yaml", "deployment.yaml")
    }


API, NODES_ALONE = objects_of("api"), objects_of("nodes")
ADDED = API | NODES_ALONE


@pytest.mark.parametrize("manifest", ADDED.values(), ids=ADDED.keys())
def test_object_of_a_component_is_valid_and_carries_our_labels(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, "1.37", strict=True)
    test_object_carries_our_labels(manifest)


# -- The tests below are about the component that gives people access to REST and the page. ----------------------------


def test_the_service_for_people_is_where_the_settings_and_the_command_line_say() -> None:
    (patch,) = documents(ROOT / "manifests" / "components" / "api" / "deployment.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    (port,), (mount,) = container["ports"], container["volumeMounts"]
    settings = Settings(api={"enabled": True}).api
    assert container["env"] == [{"name": "KOHORT_API__ENABLED", "value": "true"}]
    assert port["containerPort"] == settings.port
    assert {settings.certificate, settings.key} == {f"{mount['mountPath']}/tls.crt", f"{mount['mountPath']}/tls.key"}
    service = API["Service kohort"]
    assert service["spec"]["selector"].items() <= POD["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert f"{service['metadata']['namespace']}/kohort:{service['spec']['ports'][0]['port']}" == DEFAULT_SERVICE
    (rule,) = API["NetworkPolicy kohort-api"]["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["name"]}]


def test_the_rights_of_the_component_are_to_ask_and_those_for_people_are_what_is_asked() -> None:
    asks, view = API["ClusterRole kohort-api"], API["ClusterRole kohort-view"]
    reviews = {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
    assert asks["rules"] == [reviews]
    assert view["rules"] == [{"apiGroups": [GROUP], "resources": [RESOURCE], "verbs": [VERB]}]
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    subjects = API["ClusterRoleBinding kohort-api"]["subjects"]
    assert [subject["name"] for subject in subjects] == ["kohort-extender", "kohort"]


# -- The tests below are about the component that avoids nodes on which members fail. ----------------------------------


def test_the_component_switches_avoidance_on_and_gives_the_right_to_patch_nodes_alone() -> None:
    (patch,) = documents(ROOT / "manifests" / "components" / "nodes" / "deployment.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "extender", "env": [{"name": "KOHORT_NODES__AVOID_FAILING", "value": "true"}]}
    assert not SETTINGS.nodes.avoid_failing
    (rule,) = NODES_ALONE["ClusterRole kohort-nodes"]["rules"]
    assert rule == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    subjects = NODES_ALONE["ClusterRoleBinding kohort-nodes"]["subjects"]
    assert [subject["name"] for subject in subjects] == ["kohort-controller", "kohort"]


def test_the_accounts_with_that_right_may_change_two_annotations_of_nodes_alone() -> None:
    policy = NODES_ALONE["ValidatingAdmissionPolicy kohort-own-nodes"]["spec"]
    (condition,) = policy["matchConditions"]
    subjects = NODES_ALONE["ClusterRoleBinding kohort-nodes"]["subjects"]
    assert all(f"system:serviceaccount:kohort-system:{one['name']}" in condition["expression"] for one in subjects)
    own = next(one["expression"] for one in policy["variables"] if one["name"] == "own")
    assert yaml.safe_load(own) == [FAILURES, FORGIVE]
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"], policy["failurePolicy"]) == (["nodes"], ["UPDATE"], "Fail")


# -- The tests below are about the RBAC rights of Kohort's service accounts. -------------------------------------------


def rights(role: str) -> Iterator[str]:
    """Yield "verb group/resource[name]" for each right of one of our roles."""
    for rule in ROLES[role]["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    names = rule.get("resourceNames", [])
                    yield f"{verb} {group}/{resource}{names or ''}"


def reading(*resources: str) -> set[str]:
    return {f"{verb} {resource}" for verb in ("get", "list", "watch") for resource in resources}


JOBS = ("kubeflow.org/tfjobs", "kubeflow.org/pytorchjobs", "kubeflow.org/mpijobs")
OWN = ("batch/jobs", "apps/statefulsets", "apps/deployments", "jobset.x-k8s.io/jobsets")
PODGROUPS = tuple(f"scheduling.{group}/podgroups" for group in ("k8s.io", "x-k8s.io", "volcano.sh"))
LEASE = "coordination.k8s.io/leases['kohort-scheduler']"
RIGHTS = {
    "ClusterRole kohort-extender": reading("/pods", "/nodes", *JOBS, *OWN, *PODGROUPS, "/resourcequotas")
    | {"create /pods/binding", "create events.k8s.io/events", "create authentication.k8s.io/tokenreviews"}
    | {"get metrics.k8s.io/nodes", "list metrics.k8s.io/nodes"},
    "Role kohort-extender": {f"get {LEASE}"},
    "ClusterRole kohort-controller": reading("/pods", *JOBS)
    | {
        "patch /pods",
        "patch /pods/status",
        "delete /pods",
        "create /pods/eviction",
        *(f"patch {job}" for job in JOBS),
        *(f"{verb} {job}" for verb in ("get", "patch") for job in ("batch/jobs", "jobset.x-k8s.io/jobsets")),
        "patch apps/statefulsets/scale",
        "patch apps/deployments/scale",
        "create events.k8s.io/events",
    },
    "Role kohort-controller": {"get /configmaps['kohort-gate']", "patch /configmaps['kohort-gate']", f"get {LEASE}"},
    "Role kohort-scheduler": {"create coordination.k8s.io/leases", f"get {LEASE}", f"update {LEASE}"},
}


def test_roles_hold_these_rights_and_no_others() -> None:
    assert {role: set(rights(role)) for role in ROLES} == RIGHTS


def test_extender_may_read_whatever_the_code_watches() -> None:
    watched = [PODS, NODES, QUOTAS, *(kind.resource for kind in KINDS.values()), *(group.resource for group in GROUPS)]
    assert reading(*(f"{one.group}/{one.plural}" for one in watched)) <= set(rights("ClusterRole kohort-extender"))


@pytest.mark.parametrize("role", ROLES)
def test_role_has_no_dangerous_right(role: str) -> None:
    held = list(rights(role))
    assert [right for right in held if "*" in right or "secrets" in right] == []
    writes = [right for right in held if right.split()[0] not in ("get", "list", "watch")]
    assert [
        right for right in writes if right.split()[1] in ("/nodes", "/nodes/status", "/serviceaccounts/token")
    ] == []
    assert [
        right for right in held if right.split()[0] in ("escalate", "bind", "impersonate", "deletecollection")
    ] == []


ACCOUNTS = {name.split()[1] for name in OBJECTS if name.startswith("ServiceAccount ")}


def test_each_account_has_the_rights_of_its_part_and_the_pods_account_all() -> None:
    assert POD["spec"]["serviceAccountName"] == "kohort"
    assert {"kohort", "kohort-extender", "kohort-controller", "kohort-scheduler"} == ACCOUNTS
    for name, binding in BINDINGS.items():
        part = next(account for account in ACCOUNTS if account != "kohort" and account in name)
        assert [subject["name"] for subject in binding["subjects"]] == [part, "kohort"]
        assert {subject["namespace"] for subject in binding["subjects"]} == {"kohort-system"}
        role = binding["roleRef"]["name"]
        foreign = ("system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader")
        assert role == part or (part == "kohort-scheduler" and role in foreign)


def test_tokens_are_mounted_only_where_asked_for() -> None:
    accounts = [manifest for name, manifest in OBJECTS.items() if name.startswith("ServiceAccount ")]
    assert {account["automountServiceAccountToken"] for account in accounts} == {False}


def test_leases_and_config_maps_in_the_roles_are_those_of_the_settings() -> None:
    assert f"get coordination.k8s.io/leases['{SETTINGS.lease.name}']" in RIGHTS["Role kohort-extender"]
    assert f"patch /configmaps['{SETTINGS.gate_parameters.name}']" in RIGHTS["Role kohort-controller"]
    for name in ("Role kohort-extender", "Role kohort-controller", "Role kohort-scheduler"):
        assert OBJECTS[name]["metadata"]["namespace"] == SETTINGS.lease.namespace


# -- The tests below are about the admission policies. -----------------------------------------------------------------


def test_gate_policy_never_stands_in_the_way() -> None:
    spec = OBJECTS["MutatingAdmissionPolicy kohort-gate"]["spec"]
    assert spec["failurePolicy"] == "Ignore"
    assert (
        OBJECTS["MutatingAdmissionPolicyBinding kohort-gate"]["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"
    )
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])


def test_policies_ask_for_our_scheduler_name() -> None:
    gate = OBJECTS["MutatingAdmissionPolicy kohort-gate"]["spec"]
    conditions = {condition["name"]: condition["expression"] for condition in gate["matchConditions"]}
    assert f'== "{SETTINGS.scheduler_name}"' in conditions["opted-in"]
    assert '== "on"' in conditions["switched-on"]
    (validation,) = OBJECTS["ValidatingAdmissionPolicy kohort-own-pods"]["spec"]["validations"]
    assert f'== "{SETTINGS.scheduler_name}"' in validation["expression"]


def test_guard_of_the_leader_looks_at_the_lease_of_the_settings_for_every_write_that_names_one() -> None:
    spec = OBJECTS["ValidatingAdmissionPolicy kohort-leader"]["spec"]
    binding = OBJECTS["ValidatingAdmissionPolicyBinding kohort-leader"]["spec"]
    lease = {"namespace": SETTINGS.lease.namespace, "name": SETTINGS.lease.name, "parameterNotFoundAction": "Allow"}
    assert (spec["failurePolicy"], binding["validationActions"], binding["paramRef"]) == ("Fail", ["Deny"], lease)
    assert LEADER in spec["validations"][0]["expression"]
    matched = {name for rule in spec["matchConstraints"]["resourceRules"] for name in rule["resources"]}
    assert matched == {"pods/binding", *(kind.resource.plural for kind in KINDS.values() if not kind.scale)}


def test_guard_of_jobs_denies_and_names_the_accounts_that_may_patch_them() -> None:
    spec = OBJECTS["ValidatingAdmissionPolicy kohort-own-jobs"]["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert OBJECTS["ValidatingAdmissionPolicyBinding kohort-own-jobs"]["spec"]["validationActions"] == ["Deny"]
    assert f'== "{SETTINGS.scheduler_name}"' in spec["validations"][0]["expression"]
    (condition,) = spec["matchConditions"]
    named = set(re.findall(r"system:serviceaccount:kohort-system:([\w-]+)", condition["expression"]))
    bindings = (one for name, one in BINDINGS.items() if one["roleRef"]["name"] == "kohort-controller")
    assert named == {subject["name"] for one in bindings for subject in one["subjects"]}


def test_guard_denies_and_names_all_our_accounts() -> None:
    spec = OBJECTS["ValidatingAdmissionPolicy kohort-own-pods"]["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert OBJECTS["ValidatingAdmissionPolicyBinding kohort-own-pods"]["spec"]["validationActions"] == ["Deny"]
    (condition,) = spec["matchConditions"]
    named = set(re.findall(r"system:serviceaccount:kohort-system:([\w-]+)", condition["expression"]))
    assert named == ACCOUNTS


# -- The tests below are about the example jobs in manifests/examples. -------------------------------------------------


# the operator looks for a container of this name
CONTAINER = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "MPIJob": "mpi"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_opts_in_whole(path: Path) -> None:
    (job,) = documents(path)
    kind = KINDS[job["kind"]]
    assert job["apiVersion"] == f"{kind.resource.group}/{kind.resource.version}"
    if kind.roles:
        assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    for template in pod_templates(job, kind):
        spec = template["spec"]
        assert spec["schedulerName"] == SETTINGS.scheduler_name
        assert [one["name"] for one in spec["containers"]] == [CONTAINER.get(job["kind"], "train")]
        assert all(one["resources"]["requests"] == one["resources"]["limits"] for one in spec["containers"])


def test_examples_show_elastic_jobs_of_every_kind_a_heavy_and_a_rigid_one() -> None:
    seen = {}
    for path in EXAMPLES:
        (item,) = documents(path)
        item["metadata"]["uid"] = path.stem
        job = read_job(item, KINDS[item["kind"]], SETTINGS.scheduler_name)
        assert job is not None
        assert (job.invalid, job.note) == ("", "")
        workers = job.worker.replicas if job.worker else 0
        seen[path.stem] = (job.min_workers, workers, job.max_workers, job.elastic)
    assert seen == {
        "tfjob": (2, 4, 6, True),
        "tfjob-heavy": (4, 4, 8, True),
        "tfjob-rigid": (3, 3, 3, False),
        "pytorchjob": (2, 4, 6, True),
        "mpijob": (2, 4, 6, True),
        "indexed-job": (2, 4, 6, True),
        "statefulset": (2, 4, 6, True),
        "deployment": (2, 4, 6, True),
    }


# -- The tests below are about removing Kohort from a cluster. ---------------------------------------------------------


def test_uninstalling_lets_every_kind_go_on_that_may_be_suspended() -> None:
    script = (ROOT / "manifests" / "uninstall.sh").read_text()
    listed = re.search(r"kinds='(.*?)'", script, re.DOTALL)
    assert listed is not None
    named = dict(re.findall(r"^(\S+) (.*)$", listed[1], re.MULTILINE))
    suspended = {str(kind.resource): kind.suspend_patch(False)["spec"] for kind in KINDS.values() if kind.suspends}
    assert {name: yaml.safe_load(patch) for name, patch in named.items()} == suspended
    assert f"gate={GATE}\nmark={RELEASED}\n" in script
