"""check-config finds each fault of a KubeSchedulerConfiguration, and no other, and names its field, reason and mend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config.sections import BarrierSettings
from extender.config.settings import Settings
from extender.kubescheduler.checkconfig import check_file, findings, refused, render
from extender.kubescheduler.schedulerconfig import ConfigFinding

GOOD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/scheduler.conf, qps: 200, burst: 400}
leaderElection: {leaderElect: true, resourceNamespace: kohort-system, resourceName: kohort-scheduler}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: kohort
  percentageOfNodesToScore: 100
  plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {}}, {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]
extenders:
- urlPrefix: http://127.0.0.1:8900/scheduler/v1
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  preemptVerb: preempt
  weight: 20
  nodeCacheCapable: true
  httpTimeout: 30s
  ignorable: false
"""
ABSENT = object()
EXTENDER = ("extenders", 0)
PROFILE = ("profiles", 0)
TLS = {"caFile": "/ca", "certFile": "/crt", "keyFile": "/key"}
URL = "https://kohort.kohort-system.svc:8443/scheduler/v1"
PLUGIN = [{"name": "DefaultPreemption"}]
OTHER_EXTENDER = {"urlPrefix": "http://10.0.0.1/x", "filterVerb": "filter", "nodeCacheCapable": True}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GUARD = {"urlPrefix": "http://10.0.0.1/x", "preemptVerb": "preempt", "ignorable": True}
DEFAULT_PROFILE = {"schedulerName": "default-scheduler"}


def good() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(GOOD)
    return config


def changed(*edits: tuple[tuple[str | int, ...], Any]) -> dict[str, Any]:
    """Return the good configuration with values set, or taken out, at these paths."""
    config: dict[str, Any] = good()
    for path, value in edits:
        place: Any = config
        for part in path[:-1]:
            place = place[part]
        if value is ABSENT:
            del place[path[-1]]
        elif isinstance(place, list) and path[-1] == len(place):
            place.append(value)
        else:
            place[path[-1]] = value
    return config


def extender(**values: Any) -> dict[str, Any]:
    return changed(*(((*EXTENDER, key), value) for key, value in values.items()))


def profile(**values: Any) -> dict[str, Any]:
    return changed(*(((*PROFILE, key), value) for key, value in values.items()))


def top(**values: Any) -> dict[str, Any]:
    return changed(*(((key,), value) for key, value in values.items()))


# With this setting check-config judges nothing that only gangs bound at their first bind call would be harmed by.
EACH_CHECKED = Settings(barrier=BarrierSettings(commit="all"))


def told(config: dict[str, Any], settings: Settings | None = None) -> list[tuple[str, str]]:
    """Return level and field of each finding."""
    return [(one.level, one.field) for one in findings(config, settings or EACH_CHECKED)]


def test_good_configuration_has_no_findings() -> None:
    assert findings(good(), Settings()) == []


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": (top(kind="Deployment"), "kind"),
    "no kind": (top(kind=ABSENT), "kind"),
    "an old version": (top(apiVersion="kubescheduler.config.k8s.io/v1beta3"), "apiVersion"),
    "no leader election": (top(leaderElection={"leaderElect": False}), "leaderElection.leaderElect"),
    "another Lease": (
        changed((("leaderElection", "resourceName"), "mine")),
        "leaderElection.resourceNamespace, resourceName",
    ),
    "kube-scheduler's default Lease": (
        top(leaderElection=ABSENT),
        "leaderElection.resourceNamespace, resourceName",
    ),
    "back-off longer than the window": (top(podMaxBackoffSeconds=9), "podMaxBackoffSeconds"),
    "back-off within the window, not the margin": (top(podMaxBackoffSeconds=7), "podMaxBackoffSeconds"),
    "back-off left at its default of 10": (top(podMaxBackoffSeconds=ABSENT), "podMaxBackoffSeconds"),
    "no profiles": (top(profiles=ABSENT), "profiles"),
    "empty profiles": (top(profiles=[]), "profiles"),
    "profile of another name": (profile(schedulerName="gang"), "profiles"),
    "profile without a name is the default one": (profile(schedulerName=ABSENT), "profiles"),
    "sampling in the profile": (profile(percentageOfNodesToScore=50), "profiles[0].percentageOfNodesToScore"),
    "sampling adaptive by zero": (profile(percentageOfNodesToScore=0), "profiles[0].percentageOfNodesToScore"),
    "sampling absent": (profile(percentageOfNodesToScore=ABSENT), "profiles[0].percentageOfNodesToScore"),
    "sampling inherited": (
        changed(((*PROFILE, "percentageOfNodesToScore"), None), (("percentageOfNodesToScore",), 30)),
        "percentageOfNodesToScore",
    ),
    "the profile's sampling goes over the common one": (
        changed(((*PROFILE, "percentageOfNodesToScore"), 30), (("percentageOfNodesToScore",), 100)),
        "profiles[0].percentageOfNodesToScore",
    ),
    "preemption on": (profile(plugins=ABSENT), "profiles[0].plugins"),
    "preemption enabled again": (
        profile(plugins={"multiPoint": {"disabled": PLUGIN}, "postFilter": {"enabled": PLUGIN}}),
        "profiles[0].plugins",
    ),
    "preemption: enabled wins within multiPoint": (
        profile(plugins={"multiPoint": {"disabled": [{"name": "*"}], "enabled": PLUGIN}}),
        "profiles[0].plugins",
    ),
    "no extenders": (top(extenders=ABSENT), "extenders"),
    "only a guard of running gangs": (top(extenders=[GUARD]), "extenders"),
    "two that bind": (changed((("extenders", 1), OTHER_EXTENDER | {"bindVerb": "bind"})), "extenders"),
    "no filter": (extender(filterVerb=ABSENT), "extenders[0].filterVerb"),
    "empty filter": (extender(filterVerb=""), "extenders[0].filterVerb"),
    "misspelt filter": (extender(filterVerb="predicates"), "extenders[0].filterVerb"),
    "filter with a slash": (extender(filterVerb="/filter"), "extenders[0].filterVerb"),
    "no bind": (extender(bindVerb=ABSENT), "extenders[0].bindVerb"),
    "misspelt prioritize": (extender(prioritizeVerb="prioritise"), "extenders[0].prioritizeVerb"),
    "misspelt preempt": (extender(preemptVerb="preemption"), "extenders[0].preemptVerb"),
    "no weight": (extender(weight=ABSENT), "extenders[0].weight"),
    "weight below zero": (extender(weight=-1), "extenders[0].weight"),
    "no URL": (extender(urlPrefix=ABSENT), "extenders[0].urlPrefix"),
    "URL without a scheme": (extender(urlPrefix="127.0.0.1:8900/scheduler/v1"), "extenders[0].urlPrefix"),
    "URL without a host": (extender(urlPrefix="http:///scheduler/v1"), "extenders[0].urlPrefix"),
    "URL of another scheme": (extender(urlPrefix="ftp://127.0.0.1:8900/scheduler/v1"), "extenders[0].urlPrefix"),
    "URL that is none": (extender(urlPrefix="http://[::1/scheduler/v1"), "extenders[0].urlPrefix"),
    "http to another machine": (extender(urlPrefix="http://10.0.0.1:8900/scheduler/v1"), "extenders[0].urlPrefix"),
    "http to a name": (extender(urlPrefix="http://kohort.svc:8900/scheduler/v1"), "extenders[0].urlPrefix"),
    "enableHTTPS with http://": (extender(enableHTTPS=True, tlsConfig=TLS), "extenders[0].enableHTTPS"),
    "https without CA": (
        extender(urlPrefix=URL, enableHTTPS=True, tlsConfig={"certFile": "/crt", "keyFile": "/key"}),
        "extenders[0].tlsConfig.caFile",
    ),
    "https that looks at no certificate": (
        extender(urlPrefix=URL, enableHTTPS=True, tlsConfig=TLS | {"insecure": True}),
        "extenders[0].tlsConfig.insecure",
    ),
    "no timeout": (extender(httpTimeout=ABSENT), "extenders[0].httpTimeout"),
    "timeout of zero is the default of 5 s": (extender(httpTimeout="0s"), "extenders[0].httpTimeout"),
    "timeout too short by a moment": (extender(httpTimeout="29.999s"), "extenders[0].httpTimeout"),
    "timeout as a number": (extender(httpTimeout=20), "extenders[0].httpTimeout"),
    "timeout without a unit": (extender(httpTimeout="20"), "extenders[0].httpTimeout"),
    "timeout below zero": (extender(httpTimeout="-20s"), "extenders[0].httpTimeout"),
    "ignorable": (extender(ignorable=True), "extenders[0].ignorable"),
    "unknown key in the extender": (extender(ignoreable=False), "extenders[0].ignoreable"),
    "key in the wrong case": (extender(httptimeout="20s"), "extenders[0].httptimeout"),
    "unknown key in the profile": (profile(name="kohort"), "profiles[0].name"),
    "unknown key on top": (top(percentageOfNodes=100), "percentageOfNodes"),
    "text for a truth value": (extender(ignorable="false"), "extenders[0].ignorable"),
    "text for a number": (top(podMaxBackoffSeconds="2"), "podMaxBackoffSeconds"),
    "truth value for a number": (extender(weight=True), "extenders[0].weight"),
    "extenders that are no list": (top(extenders={"a": 1}), "extenders"),
    "an extender that is text": (top(extenders=["http://x"]), "extenders[0]"),
    "profiles that are text": (top(profiles="kohort"), "profiles"),
}


@pytest.mark.parametrize(("config", "field"), ERRORS.values(), ids=ERRORS.keys())
def test_refused(config: dict[str, Any], field: str) -> None:
    assert told(config) == [("error", field)]
    assert refused(findings(config, EACH_CHECKED))


WARNINGS: dict[str, tuple[dict[str, Any], str]] = {
    "shorter back-off than assumed": (top(podMaxBackoffSeconds=1), "podMaxBackoffSeconds"),
    "longer back-off than assumed, within the window": (top(podMaxBackoffSeconds=6), "podMaxBackoffSeconds"),
    "another first back-off": (top(podInitialBackoffSeconds=2), "podInitialBackoffSeconds"),
    "nodes in full": (extender(nodeCacheCapable=False), "extenders[0].nodeCacheCapable"),
    "nodes in full by default": (extender(nodeCacheCapable=ABSENT), "extenders[0].nodeCacheCapable"),
    "another port": (extender(urlPrefix="http://127.0.0.1:8899/scheduler/v1"), "extenders[0].urlPrefix"),
    "the default port": (extender(urlPrefix="http://localhost/scheduler/v1"), "extenders[0].urlPrefix"),
    "another path": (extender(urlPrefix="http://127.0.0.1:8900/"), "extenders[0].urlPrefix"),
    "a longer timeout": (extender(httpTimeout="31s"), "extenders[0].httpTimeout"),
    "https without a client certificate": (
        extender(urlPrefix=URL, enableHTTPS=True, tlsConfig={"caData": "Y2E="}),
        "extenders[0].tlsConfig.certFile",
    ),
    "a client certificate without its key": (
        extender(urlPrefix=URL, enableHTTPS=True, tlsConfig={"caFile": "/ca", "certFile": "/crt"}),
        "extenders[0].tlsConfig.certFile",
    ),
    "some pods only": (
        extender(managedResources=[{"name": "kohort.dev/member", "ignoredByScheduler": True}]),
        "extenders[0].managedResources",
    ),
    "other profiles depend on Kohort": (changed((("profiles", 1), DEFAULT_PROFILE)), "profiles"),
}


@pytest.mark.parametrize(("config", "field"), WARNINGS.values(), ids=WARNINGS.keys())
def test_warned(config: dict[str, Any], field: str) -> None:
    assert told(config) == [("warning", field)]
    assert not refused(findings(config, EACH_CHECKED))


FINE: dict[str, dict[str, Any]] = {
    "null is the same as absent": extender(tlsConfig=None, managedResources=None),
    "a trailing slash": extender(urlPrefix="http://127.0.0.1:8900/scheduler/v1/"),
    "the least weight": extender(weight=1),
    "localhost": extender(urlPrefix="http://localhost:8900/scheduler/v1"),
    "the same time in other units": extender(httpTimeout="30000ms"),
    "one node is placed without scores": extender(prioritizeVerb=ABSENT, weight=ABSENT),
    "nobody preempts": extender(preemptVerb=ABSENT),
    "preemption disabled at its point": profile(plugins={"postFilter": {"disabled": PLUGIN}}),
    "all of the default PostFilter plugins disabled": profile(plugins={"postFilter": {"disabled": [{"name": "*"}]}}),
    "disabled at its point goes over enabled in multiPoint": profile(
        plugins={"postFilter": {"disabled": PLUGIN}, "multiPoint": {"enabled": PLUGIN}}
    ),
    "sampling inherited": changed(
        ((*PROFILE, "percentageOfNodesToScore"), ABSENT), (("percentageOfNodesToScore",), 100)
    ),
    "leaderElect is true by default": changed((("leaderElection", "leaderElect"), ABSENT)),
    "a guard beside, ignorable": changed((("extenders", 1), GUARD)),
    "mutual TLS": extender(urlPrefix=URL, enableHTTPS=True, tlsConfig=TLS),
    "an extender of others before ours": top(extenders=[OTHER_EXTENDER, good()["extenders"][0]]),
}


@pytest.mark.parametrize("config", FINE.values(), ids=FINE.keys())
def test_passed(config: dict[str, Any]) -> None:
    assert findings(config, EACH_CHECKED) == []


def test_several_faults_are_told_at_once() -> None:
    config = extender(ignorable=True, httpTimeout="2s", bindVerb=ABSENT)
    assert {field for _, field in told(config)} == {
        "extenders[0].ignorable",
        "extenders[0].httpTimeout",
        "extenders[0].bindVerb",
    }


def test_managed_resource_that_no_node_has() -> None:
    config = extender(managedResources=[{"name": "kohort.dev/member"}])
    assert told(config) == [
        ("error", "extenders[0].managedResources[0].ignoredByScheduler"),
        ("warning", "extenders[0].managedResources"),
    ]


def test_first_back_off_above_the_longest() -> None:
    levels = told(top(podInitialBackoffSeconds=3))
    assert ("error", "podInitialBackoffSeconds") in levels


def test_others_may_preempt_members_when_nobody_is_asked() -> None:
    config = changed(((*EXTENDER, "preemptVerb"), ABSENT), (("profiles", 1), DEFAULT_PROFILE))
    assert ("warning", "extenders[0].preemptVerb") in told(config)


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "ranked needs prioritize": (
        {"answer": "ranked"},
        extender(prioritizeVerb=ABSENT),
        [("error", "extenders[0].prioritizeVerb")],
    ),
    "another schedulerName": ({"scheduler_name": "gangs"}, profile(schedulerName="gangs"), []),
    "another port": ({"server": {"port": 9000}}, good(), [("warning", "extenders[0].urlPrefix")]),
    "the port that http means": (
        {"server": {"port": 80}},
        extender(urlPrefix="http://127.0.0.1/scheduler/v1"),
        [],
    ),
    "the port that https means": (
        {"server": {"port": 443}},
        extender(urlPrefix="https://127.0.0.1/scheduler/v1", enableHTTPS=True, tlsConfig=TLS),
        [],
    ),
    "any free port": ({"server": {"port": 0}}, good(), []),
    "another Lease": (
        {"lease": {"name": "mine"}},
        good(),
        [("error", "leaderElection.resourceNamespace, resourceName")],
    ),
    "gangs are bound early, by the default plugins": ({"barrier": {"commit": "first"}}, good(), []),
    "a plugin that nobody knows": (
        {"barrier": {"commit": "first"}},
        profile(plugins={"multiPoint": {"disabled": PLUGIN}, "filter": {"enabled": [{"name": "Mine"}]}}),
        [("error", "profiles[0].plugins")],
    ),
    "a plugin that nobody knows, by the default settings": (
        {},
        profile(plugins={"multiPoint": {"disabled": PLUGIN, "enabled": [{"name": "Mine"}]}}),
        [("error", "profiles[0].plugins")],
    ),
    "a plugin that nobody knows is no matter if each member is checked": (
        {"barrier": {"commit": "all"}},
        profile(plugins={"multiPoint": {"disabled": PLUGIN, "enabled": [{"name": "Mine"}]}}),
        [],
    ),
    "each member is checked where kube-scheduler chooses the nodes": (
        {"answer": "ranked"},
        profile(plugins={"multiPoint": {"disabled": PLUGIN, "enabled": [{"name": "Mine"}]}}),
        [],
    ),
    "an unknown plugin that the settings name": (
        {"barrier": {"commit": "first"}, "scheduler": {"plugins": ["Mine", "GangScheduling"]}},
        profile(plugins={"multiPoint": {"disabled": PLUGIN, "enabled": [{"name": "Mine"}]}}),
        [("warning", "scheduler.plugins (of the settings)")],
    ),
    "an affinity for all pods": (
        {"barrier": {"commit": "first"}},
        profile(
            pluginConfig=[
                *good()["profiles"][0]["pluginConfig"],
                {"name": "NodeAffinity", "args": {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
                {"name": "PodTopologySpread", "args": {"defaultConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}},
            ]
        ),
        [
            ("error", "profiles[0].pluginConfig[NodeAffinity].addedAffinity"),
            ("error", "profiles[0].pluginConfig[PodTopologySpread].defaultConstraints"),
        ],
    ),
    "a soft spread for all pods": (
        {"barrier": {"commit": "first"}},
        profile(
            pluginConfig=[
                *good()["profiles"][0]["pluginConfig"],
                {
                    "name": "PodTopologySpread",
                    "args": {"defaultConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
                },
            ]
        ),
        [],
    ),
    "other pods and other extenders beside early bindings": (
        {"barrier": {"commit": "first"}},
        changed((("profiles", 1), DEFAULT_PROFILE), (("extenders", 1), OTHER_EXTENDER)),
        [("warning", "profiles"), ("error", "profiles"), ("error", "extenders")],
    ),
    "a longer window needs a longer timeout": (
        {"barrier": {"window_seconds": 20, "http_timeout_seconds": 31}},
        good(),
        [("error", "extenders[0].httpTimeout")],
    ),
    "a longer window allows a longer back-off": (
        {
            "barrier": {"window_seconds": 12, "http_timeout_seconds": 22},
            "scheduler": {"pod_max_backoff_seconds": 10},
        },
        changed((("podMaxBackoffSeconds",), ABSENT), ((*EXTENDER, "httpTimeout"), "22s")),
        [],
    ),
}


@pytest.mark.parametrize(("settings", "config", "want"), SETTINGS.values(), ids=SETTINGS.keys())
def test_compared_with_settings(settings: dict[str, Any], config: dict[str, Any], want: list[tuple[str, str]]) -> None:
    assert told(config, Settings(**settings)) == want


SHARED: dict[str, Any] = {
    "lease": {"elect": True, "name": "kohort-extender"},
    "server": {"tls": {"peers": ["system:kube-scheduler"]}},
}
SERVED: dict[str, Any] = {
    "urlPrefix": "https://kohort-extender.kohort-system.svc:8904/scheduler/v1", "enableHTTPS": True, "tlsConfig": TLS,
}  # fmt: skip
SERVED_CHANGES = [((*EXTENDER, key), value) for key, value in SERVED.items()]
OVER_TLS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "good": (extender(**SERVED), []),
    "on loopback, in a test": (extender(**SERVED | {"urlPrefix": "https://127.0.0.1:8904/scheduler/v1"}), []),
    "another port of loopback": (
        extender(**SERVED | {"urlPrefix": "https://127.0.0.1:8900/scheduler/v1"}),
        [("warning", "extenders[0].urlPrefix")],
    ),
    "no leader election is kube-scheduler's affair": (
        changed((("leaderElection",), {"leaderElect": False}), *SERVED_CHANGES),
        [],
    ),
    "our Lease": (
        changed((("leaderElection", "resourceName"), "kohort-extender"), *SERVED_CHANGES),
        [("error", "leaderElection.resourceNamespace, resourceName")],
    ),
    "plain": (good(), [("error", "extenders[0].urlPrefix")]),
    "no certificate": (
        extender(**SERVED | {"tlsConfig": {"caFile": "/ca.crt"}}),
        [("error", "extenders[0].tlsConfig.certFile")],
    ),
}


@pytest.mark.parametrize(("config", "want"), OVER_TLS.values(), ids=OVER_TLS.keys())
def test_verbs_over_tls(config: dict[str, Any], want: list[tuple[str, str]]) -> None:
    assert told(config, Settings(**SHARED)) == want


VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "absent": (extender(urlPrefix=ABSENT), "absent"),
    "text": (extender(urlPrefix="x"), "'x'"),
    "truth": (extender(weight=True), "true"),
    "long": (extender(urlPrefix="x" * 500), f"'{'x' * 79}…"),
    "a default": (extender(httpTimeout=ABSENT), "absent, which means 5s"),
    "a time": (extender(httpTimeout="2s"), "2s"),
    "no weight": (extender(weight=ABSENT), "absent"),
    "a bad weight": (extender(weight=-1), "-1"),
    "sampling by size": (profile(percentageOfNodesToScore=ABSENT), "absent (chosen by cluster size)"),
    "sampling": (profile(percentageOfNodesToScore=30), "30"),
    "names of profiles": (changed((("profiles", 1), {})), "default-scheduler"),
    "no profile": (top(profiles=[]), "none"),
    "Lease by default": (top(leaderElection=ABSENT), "kube-system/kube-scheduler"),
    "binders": (
        changed((("extenders", 1), OTHER_EXTENDER | {"bindVerb": "bind"})),
        "bindVerb in extenders[0], extenders[1]",
    ),
}


@pytest.mark.parametrize(("config", "value"), VALUES.values(), ids=VALUES.keys())
def test_value_is_shown(config: dict[str, Any], value: str) -> None:
    assert [one.value for one in findings(config, EACH_CHECKED)] == [value]


def test_every_finding_says_what_why_and_how() -> None:
    every = [
        one for table in (ERRORS, WARNINGS) for config, _ in table.values() for one in findings(config, EACH_CHECKED)
    ]
    assert len(every) > 60
    for one in every:
        assert one.field
        assert one.value
        assert one.allowed
        assert one.why.endswith(".")
        assert one.mend.endswith(".")


def written(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text)
    return path


def config_map(**data: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})


FILES = {
    "plain": (GOOD, None),
    "with one fault": (GOOD.replace("ignorable: false", "ignorable: true"), "extenders[0].ignorable"),
    "in a ConfigMap": (config_map(a="not this", b=GOOD), None),
    "in a ConfigMap, with one fault": (
        config_map(b=GOOD.replace("ignorable: false", "ignorable: true")),
        "extenders[0].ignorable",
    ),
    "a ConfigMap without it": (config_map(a="x: 1"), "file.yaml"),
    "a ConfigMap with two": (config_map(a=GOOD, b=GOOD), "file.yaml"),
    "not YAML": ("a: [1", "file.yaml"),
    "a list": ("[1]", "file.yaml"),
    "the same key twice": (GOOD.replace("ignorable: false", "ignorable: false\n  ignorable: true"), "file.yaml"),
    "aliases": ("a: &a 1\nb: *a", "file.yaml"),
}


@pytest.mark.parametrize(("text", "field"), FILES.values(), ids=FILES.keys())
def test_file(text: str, field: str | None, tmp_path: Path) -> None:
    found = check_file(written(tmp_path, text), Settings())
    assert [one.field.removeprefix(f"{tmp_path}/") for one in found] == ([] if field is None else [field])


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    (one,) = check_file(tmp_path / name, Settings())
    assert one.level == "error"
    assert "cannot be read" in one.why


def test_empty_file_is_told_its_kind(tmp_path: Path) -> None:
    assert [one.field for one in check_file(written(tmp_path, ""), Settings())] == ["apiVersion", "kind"]


def test_render_puts_errors_first_and_sums_up() -> None:
    warning = ConfigFinding("a", "1", "2", "Slow.", "Set a: 2.", "warning")
    error = ConfigFinding("b", "true", "false", "Half a gang.", "Set b: false.")
    assert render([warning, error, error]).endswith("refused (errors: 2, warnings: 1)")
    assert render([warning, error]) == (
        "error: b: true\n  allowed: false\n  why: Half a gang.\n  what helps: Set b: false.\n"
        "warning: a: 1\n  allowed: 2\n  why: Slow.\n  what helps: Set a: 2.\n"
        "refused (errors: 1, warnings: 1)"
    )


def test_render_of_nothing() -> None:
    assert render([]) == "good for Kohort (errors: 0, warnings: 0)"
