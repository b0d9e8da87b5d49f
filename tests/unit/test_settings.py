"""Settings: where values come from, what is refused, and that a refusal names field, value, allowed and mend."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from extender.config.hosts import is_loopback
from extender.config.relations import least_http_timeout_seconds
from extender.config.settings import Settings
from extender.config.settingsfile import SettingsError, load_settings
from extender.state.rules import policy_of, rules_of
from policy.cluster.snapshot import Rules
from policy.systems import SYSTEMS, WITH_UNIT, make_policy
from policy.systems.kod2 import Kod2
from policy.systems.rebalanced import Rebalanced
from policy.systems.specon import SpeCon

UNITS = ("_per_minute", "_seconds", "_bytes", "_per_second", "_nodes", "_at_once", "port", "connections", "files")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("KOHORT_"):
            monkeypatch.delenv(name)


def written(folder: Path, text: str) -> Path:
    path = folder / "kohort.yaml"
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> list[str]:
    """Return the lines of the error that a settings file causes, without the heading."""
    with pytest.raises(SettingsError) as caught:
        load_settings(written(folder, text))
    heading, *lines = str(caught.value).split("\n  ")
    assert "kohort.yaml cannot be used:" in heading
    return lines


def test_defaults_hold_together() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert settings.barrier.http_timeout_seconds >= least_http_timeout_seconds(settings.barrier) == 18
    assert is_loopback(settings.server.host)


def test_environment_goes_over_file_and_overrides_over_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "barrier: {window_seconds: 5, binding_seconds: 3, repair_seconds: 7}\npolicy: fifo-pod\n")
    monkeypatch.setenv("KOHORT_BARRIER__BINDING_SECONDS", "2")
    monkeypatch.setenv("KOHORT_BARRIER__REPAIR_SECONDS", "8")
    settings = load_settings(path, {"barrier": {"repair_seconds": 9}})
    barrier = settings.barrier
    assert (settings.policy, barrier.window_seconds, barrier.binding_seconds, barrier.repair_seconds) == (
        "fifo-pod",
        5,
        2,
        9,
    )


def test_file_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_CONFIG", str(written(tmp_path, "answer: ranked")))
    assert load_settings().answer == "ranked"


def test_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, "# nothing\n")) == Settings()


def test_values_given_in_code_are_not_steered_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_POLICY", "fifo-pod")
    assert Settings().policy == "kod2"


def test_trailing_slash_of_the_service_is_dropped() -> None:
    assert Settings(controller={"service_url": "http://x:80/"}).controller.service_url == "http://x:80"


KNOWN = ", ".join(sorted(SYSTEMS))
REFUSED_VALUES = {
    "policy: kod3": f"policy: 'kod3' is not allowed; allowed: one of {KNOWN}, or one of them with +specon",
    "policy: kod2+magic": f"policy: 'kod2+magic' is not allowed; allowed: one of {KNOWN}, or one of them with +specon",
    "{policy: kod2, rebalance: magic}": "rebalance: 'magic' is not allowed; allowed: '', 'specon' or 'guests'",
    "{rebalance: specon, parameters: {specon.pace: 5}}": "parameters: specon has no parameter 'pace'; it has ",
    "parameters: {specon.interval: 5}": "parameters: kod2 has no parameter 'specon.interval'; it has ",
    "{policy: specon, rebalance: specon}": (
        "rebalance: 'specon' is not allowed with policy: specon; "
        "specon: 'specon' cannot move its jobs; allowed are guests"
    ),
    "{policy: specon, parameters: {speed: 3}}": "parameters: specon has no parameter 'speed'; it has ",
    "{policy: kubeflow-spread, parameters: {backfill: 3}}": (
        "parameters: kubeflow-spread: backfill is 3, must be of type bool"
    ),
    "{policy: kod2, parameters: {gate: strict}}": (
        "parameters: gate is not allowed with policy: kod2; set it in the section kod2"
    ),
    "kod2: {starve_limit_seconds: 0}": "kod2.starve_limit_seconds: 0 is not allowed; allowed: greater than 0",
    "kod2: {weigh_gpus: 3}": "kod2.weigh_gpus: 3 is not allowed; allowed: true or false",
    "{policy: dragon, parameters: {smallest: first}}": (
        "parameters: dragon: smallest is 'first', must be one of resources, workers, arrival"
    ),
    "{policy: specon, parameters: {first_node: least}}": (
        "parameters: specon: first_node is 'least', must be one of turn, score"
    ),
    "{policy: oasis, parameters: {switching_cost: -1}}": (
        "parameters: oasis: switching_cost is -1.0, must be from 0 to 10"
    ),
    "{policy: oasis, parameters: {offer_again: 10000000}}": (
        "parameters: oasis: offer_again is 10000000, must be from 0 to 1,000,000"
    ),
    "{policy: oasis, parameters: {offer_again: 1.5}}": ("parameters: oasis: offer_again is 1.5, must be of type int"),
    "kod2: {backfill: 3}": "kod2.backfill: 3 is not allowed; allowed: true or false",
    "kod2: 7": "kod2: 7 is not allowed; allowed: a mapping of settings",
    "kod2:": "kod2: None is not allowed; allowed: a mapping of settings",
    "tick_seconds: yes": "tick_seconds: True is not allowed; allowed: a number",
    "tick_seconds: .nan": "tick_seconds: nan is not allowed; allowed: a finite number",
    "tick_seconds: soon": "tick_seconds: 'soon' is not allowed; allowed: a number",
    "tick_seconds: 1e9": "tick_seconds: '1e9' is not allowed; allowed: less than or equal to 86400",
    "nominate_above_nodes: -1": "nominate_above_nodes: -1 is not allowed; allowed: greater than or equal to 0",
    "server: {port: 80.5}": "server.port: 80.5 is not allowed; allowed: a whole number",
    "server: {port: 65536}": "server.port: 65536 is not allowed; allowed: less than or equal to 65535",
    "server: {host: ''}": "server.host: '' is not allowed; allowed: text that is not empty",
    "server: {host: 4}": "server.host: 4 is not allowed; allowed: text",
    "lease: {name: Big}": "lease.name: 'Big' is not allowed; allowed: text like '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'",
    "controller: {service_url: 'ftp://x'}": (
        "controller.service_url: 'ftp://x' is not allowed; allowed: an http:// or https:// URL with a host"
    ),
    "controller: {service_url: 'http://x:0'}": (
        "controller.service_url: 'http://x:0' is not allowed; allowed: an http:// or https:// URL with a host"
    ),
    "nodes: {avoid_failing: 3}": "nodes.avoid_failing: 3 is not allowed; allowed: true or false",
    "nodes: {half_life_seconds: 0}": "nodes.half_life_seconds: 0 is not allowed; allowed: greater than 0",
    "nodes: {half_life_seconds: 1e9}": (
        "nodes.half_life_seconds: '1e9' is not allowed; allowed: less than or equal to 2592000"
    ),
    "nodes: {half_life_seconds: 10}": (
        "nodes.watch_seconds: 15 is above nodes.half_life_seconds (10); allowed: at most that, or raise "
        "nodes.half_life_seconds"
    ),
    "nodes: {half_life: 8}": "nodes.half_life: an unknown setting; did you mean half_life_seconds?",
    "polcy: kod2": "polcy: an unknown setting; did you mean policy?",
    "barrier: {window: 8}": "barrier.window: an unknown setting; did you mean window_seconds?",
    "release: {zzz: 8}": ("release.zzz: an unknown setting; allowed: backoff_initial_seconds, backoff_max_seconds"),
}


@pytest.mark.parametrize(("text", "line"), REFUSED_VALUES.items(), ids=REFUSED_VALUES.keys())
def test_refused_value(text: str, line: str, tmp_path: Path) -> None:
    (told,) = refusal(tmp_path, text)
    assert told == line or (line.endswith("it has ") and told.startswith(line))


def test_every_system_can_be_chosen_with_its_parameters_and_specon_above_it() -> None:
    for name in SYSTEMS:
        assert policy_of(Settings(policy=name)) == make_policy(name)
    spread = policy_of(Settings(policy="kubeflow-spread", parameters={"backfill": False}))
    assert spread == make_policy("kubeflow-spread", backfill=False)
    assert policy_of(Settings(kod2={"gate": "strict", "cooldown_seconds": 7})) == make_policy(
        "kod2", gate="strict", cooldown=7
    )
    assert policy_of(Settings(kod2={"weigh_gpus": True, "behind_head": True})) == make_policy(
        "kod2", weigh_gpus=True, behind_head=True
    )
    assert policy_of(Settings(kod2={"weigh_utility": False, "starving_blocks": False})) == make_policy(
        "kod2", weigh_utility=False, starving_blocks=False
    )
    assert policy_of(Settings(policy="kod2+specon")).name == "kod2+specon"
    assert policy_of(Settings(policy="drs", rebalance="specon")) == make_policy("drs+specon")


def test_the_section_kod2_has_every_parameter_of_the_policy_with_its_default() -> None:
    told = {WITH_UNIT.get(name, name) for name in Settings().kod2.model_dump()}
    assert told == {field.name for field in fields(Kod2)}
    assert policy_of(Settings()) == Kod2()


@pytest.mark.parametrize("more", [{"policy": "fifo-pod+specon"}, {"policy": "fifo-pod", "rebalance": "specon"}])
def test_who_binds_pod_by_pod_does_so_beneath_another_too(more: dict[str, Any]) -> None:
    assert not rules_of(Settings(**more)).gangs
    assert rules_of(Settings(rebalance="specon")).gangs


@pytest.mark.parametrize("policy", ["kod2", "dragon"])
def test_who_moves_jobs_has_parameters_of_its_own(policy: str) -> None:
    made = policy_of(Settings(policy=policy, rebalance="specon", parameters={"specon.interval": 5.0}))
    assert made == Rebalanced(policy_of(Settings(policy=policy)), SpeCon(interval=5.0))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, "policy: x\nanswer: x\ngate: x\nlog_level: x\nbarrier: {x: 1}\n")) == 5


# For each relation: settings that just keep it, and settings that just break it, with both names in the error.
RELATIONS = {
    "window >= max back-off + 2": (
        "{scheduler: {pod_max_backoff_seconds: 6}}",
        "{scheduler: {pod_max_backoff_seconds: 6.01}}",
        ("barrier.window_seconds", "scheduler.pod_max_backoff_seconds", "at least 8.01"),
    ),
    "http timeout >= window + binding + api + 2": (
        "{barrier: {http_timeout_seconds: 18}}",
        "{barrier: {http_timeout_seconds: 17.9}}",
        ("barrier.http_timeout_seconds", "barrier.window_seconds", "barrier.binding_seconds", "at least 18"),
    ),
    "initial back-off <= max back-off": (
        "{scheduler: {pod_initial_backoff_seconds: 2}}",
        "{scheduler: {pod_initial_backoff_seconds: 3}}",
        ("scheduler.pod_initial_backoff_seconds", "scheduler.pod_max_backoff_seconds"),
    ),
    "release back-off": (
        "{release: {backoff_initial_seconds: 120}}",
        "{release: {backoff_initial_seconds: 121}}",
        ("release.backoff_initial_seconds", "release.backoff_max_seconds"),
    ),
    "coalesce <= tick": (
        "{coalesce_seconds: 10}",
        "{coalesce_seconds: 11}",
        ("coalesce_seconds", "tick_seconds"),
    ),
    "reserved < connections": (
        "{server: {connections: 65}}",
        "{server: {connections: 64}}",
        ("server.reserved_connections", "server.connections", "at most 63"),
    ),
    "a gang of one fits": (
        "{scheduler: {pods_per_second: 0.05}}",
        "{scheduler: {pods_per_second: 0.049}}",
        ("scheduler.pods_per_second", "a bind may be held (20 s)"),
    ),
    "verbs on loopback": (
        "{server: {host: 0.0.0.0, allow_remote_without_tls: true}}",
        "{server: {host: 0.0.0.0}}",
        ("server.host", "0.0.0.0", "127.0.0.1", "set api.enabled", "server.allow_remote_without_tls"),
    ),
    "tokens in the clear stay in the pod": (
        "{api: {enabled: true, without_tls: true, host: 127.0.0.1}}",
        "{api: {enabled: true, without_tls: true}}",
        ("api.without_tls", "api.host '0.0.0.0'", "allowed: false"),
    ),
    "the port for people is its own": (
        "{api: {enabled: true, port: 8904}}",
        "{api: {enabled: true, port: 8901}}",
        ("api.port", "8901", "server.health_port"),
    ),
    "health port is its own": (
        "{server: {port: 0, health_port: 0}}",
        "{server: {health_port: 8900}}",
        ("server.health_port", "8900", "server.port"),
    ),
    "controller's health port is its own": (
        "{controller: {health_port: 8905}}",
        "{controller: {health_port: 8901}}",
        ("controller.health_port", "8901", "server.health_port"),
    ),
    "the port of TLS is its own": (
        "{server: {health_port: 8904}}",
        "{server: {health_port: 8904, tls: {peers: [a]}}, lease: {elect: true}}",
        ("server.tls.port", "8904", "server.health_port"),
    ),
    "behind TLS the extenders elect": (
        "{server: {tls: {peers: [a]}}, lease: {elect: true}}",
        "{server: {tls: {peers: [a]}}}",
        ("lease.elect", "server.tls.peers", "allowed: true"),
    ),
    "early bindings need planned nodes": (
        "{barrier: {commit: first}}",
        "{barrier: {commit: first}, answer: ranked}",
        ("barrier.commit", "'first' with answer: ranked", "allowed: auto, all"),
    ),
    "early bindings need a kube-scheduler of their own": (
        "{lease: {elect: true}}",
        "{barrier: {commit: first}, lease: {elect: true}}",
        ("barrier.commit", "lease.elect", "allowed: auto, all"),
    ),
    "a single replica behind TLS may lead always": (
        "{server: {tls: {peers: [a]}}, lease: {identity: '*'}}",
        "{server: {tls: {peers: [a]}}, lease: {identity: '*', elect: true}}",
        ("lease.identity", "lease.elect"),
    ),
}


@pytest.mark.parametrize(("inside", "outside", "words"), RELATIONS.values(), ids=RELATIONS.keys())
def test_relation(inside: str, outside: str, words: tuple[str, ...], tmp_path: Path) -> None:
    load_settings(written(tmp_path, inside))
    (line,) = refusal(tmp_path, outside)
    assert line.startswith(f"{words[0]}: ")
    assert "; allowed: " in line
    assert [word for word in words if word not in line] == []


def test_several_broken_relations_are_several_lines(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "{barrier: {http_timeout_seconds: 1}, coalesce_seconds: 20, server: {host: 10.0.0.1}}")
    assert [line.split(":")[0] for line in lines] == ["barrier.http_timeout_seconds", "coalesce_seconds", "server.host"]


LARGEST = {
    "by default time decides: 20 s at 60 a second": ({}, 1200),
    "a part of a pod is no pod": ({"scheduler": {"pods_per_second": 0.99}}, 19),
    "the controller lets go more slowly": ({"controller": {"patches_per_second": 5}}, 100),
    "connections decide": ({"server": {"connections": 164}}, 100),
    "a longer httpTimeout": ({"barrier": {"http_timeout_seconds": 40}}, 1800),
    "the window is no limit": ({"barrier": {"window_seconds": 20}}, 1200),
}


@pytest.mark.parametrize(("values", "want"), LARGEST.values(), ids=LARGEST.keys())
def test_largest_gang(values: dict[str, Any], want: int) -> None:
    assert Settings(**values).largest_gang == want


FIRST: dict[str, tuple[dict[str, Any], bool]] = {
    "by default": ({}, True),
    "kube-scheduler chooses the nodes": ({"answer": "ranked"}, False),
    "kube-scheduler calls over TLS": ({"server": {"tls": {"peers": ["a"]}}, "lease": {"identity": "*"}}, False),
    "the extenders elect their leader": ({"lease": {"elect": True}}, False),
    "never": ({"barrier": {"commit": "all"}}, False),
    "always": ({"barrier": {"commit": "first"}}, True),
}


@pytest.mark.parametrize(("values", "want"), FIRST.values(), ids=FIRST.keys())
def test_gangs_are_bound_at_their_first_call_where_that_is_safe(values: dict[str, Any], want: bool) -> None:
    assert Settings(**values).commits_first is want
    assert rules_of(Settings(**values)).commit_first is want


def test_a_config_map_is_taken_as_it_is(tmp_path: Path) -> None:
    base = Path(__file__).parents[2] / "manifests/base/settings.yaml"
    plain = tmp_path / "kohort.yaml"
    plain.write_text(yaml.safe_load(base.read_text())["data"]["kohort.yaml"])
    assert load_settings(base) == load_settings(plain)


BAD_FILES = {
    "a ConfigMap of something else": (
        "{kind: ConfigMap, data: {other.yaml: 'a: 1'}}",
        "the ConfigMap holds no settings; allowed: an entry kohort.yaml; it has other.yaml",
    ),
    "a ConfigMap with a list": ("{kind: ConfigMap, data: {kohort.yaml: '[1]'}}", "not a mapping"),
    "list": ("[1, 2]", "not a mapping"),
    "text": ("hello", "not a mapping"),
    "numbers as names": ("1: 2", "not a mapping"),
    "broken": ("a: [1", "not YAML"),
    "two documents": ("a: 1\n---\nb: 1", "not YAML"),
    "name twice": ("policy: kod2\npolicy: fifo-pod", "is repeated"),
    "name twice below": ("kod2: {backfill: true, backfill: false}", "is repeated"),
    "alias": ("kod2: &a {backfill: true}\nbarrier: *a", "alias"),
    "a Python object": ("a: !!python/object/apply:os.getpid []", "not YAML"),
    "constructor with KeyError": ("a: !!bool x", "not YAML"),
    "constructor with AttributeError": ("a: !!timestamp x", "not YAML"),
    "control characters": ("a: \x01", "not YAML"),
    "too deep": ("[" * 5000, "not YAML"),
    "too long": ("#" * (1024 * 1024 + 1), "longer than"),
}


@pytest.mark.parametrize(("text", "words"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_file(text: str, words: str, tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, text)
    assert words in line


@pytest.mark.timeout(30)
def test_billion_laughs_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    assert "alias" in refusal(tmp_path, "\n".join(lines))[0]


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / name)


BAD_ENVIRONMENT = {
    "unknown section": ("KOHORT_BARIER__WINDOW_SECONDS", "8", "did you mean KOHORT_BARRIER?"),
    "unknown setting": ("KOHORT_WINDOW", "8", "KOHORT_WINDOW: an unknown setting"),
    "unknown key below": ("KOHORT_BARRIER__WINDOW", "8", "barrier.window: an unknown setting"),
    "value": ("KOHORT_GATE", "open", "gate: 'open' is not allowed; allowed: 'when-queued', 'always' or 'never'"),
    "section that is no JSON": ("KOHORT_BARRIER", "{x", "KOHORT_BARRIER: '{x' is not allowed; allowed: JSON, as"),
    "list that is no JSON": (
        "KOHORT_API__AUDIENCES",
        "kohort.dev",
        "KOHORT_API__AUDIENCES: 'kohort.dev' is not allowed",
    ),
    "list that is text": (
        "KOHORT_API__AUDIENCES",
        '"kohort.dev"',
        "api.audiences: 'kohort.dev' is not allowed; allowed: a list",
    ),
    "lower case counts": ("kohort_gate", "open", "gate: 'open' is not allowed"),
}


@pytest.mark.parametrize(("name", "value", "words"), BAD_ENVIRONMENT.values(), ids=BAD_ENVIRONMENT.keys())
def test_bad_environment(name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=re.escape(words)):
        load_settings()


@pytest.mark.parametrize(
    "name",
    ["KOHORT_SERVICE_HOST", "KOHORT_PORT", "KOHORT_PORT_8900_TCP", "KOHORT_WEB_SERVICE_PORT_HTTP", "KOHORT_CACHE"],
)
def test_what_kubernetes_and_the_test_kit_set_is_no_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:80")
    assert load_settings() == Settings()


HOSTS = {
    **dict.fromkeys(["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"], True),
    **dict.fromkeys(["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", ""], False),
}


@pytest.mark.parametrize(("host", "want"), HOSTS.items())
def test_is_loopback(host: str, want: bool) -> None:
    assert is_loopback(host) is want


def every_field(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Return the field of each setting that is not a section, by its dotted name."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= every_field(kind, f"{prefix}{name}.")
        else:
            found[prefix + name] = field
    return found


def test_every_setting_is_described_and_every_quantity_has_its_unit() -> None:
    fields = every_field(Settings)
    assert [name for name, field in fields.items() if not field.description] == []
    assert [
        name for name, field in fields.items() if field.annotation in (int, float) and not name.endswith(UNITS)
    ] == []


def test_what_is_not_made_whole_is_released_within_30_s_as_shipped() -> None:
    """The 30 s count from the commit or the loss, and include the writes of the release and the end of the pods."""
    barrier = Settings().barrier
    assert barrier.repair_seconds + 2 * barrier.api_deadline_seconds < 30
    assert rules_of(Settings()).repair_seconds == Rules().repair_seconds == Rules().plan_seconds


def test_settings_survive_a_round_trip_through_a_file(tmp_path: Path) -> None:
    settings = Settings(policy="fifo-pod", tick_seconds=3)
    assert load_settings(written(tmp_path, yaml.safe_dump(settings.model_dump()))) == settings


def test_every_rule_of_the_policy_follows_a_setting() -> None:
    barrier = {
        "window_seconds": 9, "http_timeout_seconds": 32, "binding_seconds": 5, "repair_seconds": 31,
        "freeing_seconds": 121, "growing_seconds": 62, "checkpoint_seconds": 29, "gangs_at_once": 17,
    }  # fmt: skip
    release = {"backoff_initial_seconds": 6, "backoff_max_seconds": 130}
    others: dict[str, Any] = {
        "refusal_memory_seconds": 61, "answer": "ranked", "policy": "fifo-pod", "resizes_per_minute": 7,
        "scheduler": {"plugins": ["Mine"]},
        "nodes": {"avoid_failing": True, "half_life_seconds": 1800, "watch_seconds": 11},
    }  # fmt: skip
    rules = rules_of(Settings(barrier=barrier, release=release, **others))
    assert rules == Rules(
        window_seconds=9, hold_seconds=21, binding_seconds=5, plan_seconds=31, freeing_seconds=121, repair_seconds=31,
        backoff_initial_seconds=6, backoff_max_seconds=130, refusal_memory_seconds=61, largest_gang=1260,
        gangs_at_once=17, ranked=True, gangs=False, checkpoint_seconds=29, stores=True,
        resizes_per_minute=7, growing_seconds=62, plugins=("Mine",), half_life_seconds=1800, watch_seconds=11,
    )  # fmt: skip
    assert [field.name for field in fields(Rules) if getattr(rules, field.name) == field.default] == ["commit_first"]
    # No gang is bound at its first bind call with `answer: ranked`, so another test has that rule.
