"""Finds faults in a KubeSchedulerConfiguration that would break a gang, and says why and how to correct them.

kube-scheduler starts without complaint with nearly all of these faults and shows them only later, as half-placed jobs,
certificates that are not checked, or pods that stay pending. This module reads a file and compares it with our
settings; it sends nothing to a cluster. It follows the behaviour of kube-scheduler 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from extender.config.plainyaml import YamlError
from extender.config.relations import BACKOFF_MARGIN_SECONDS
from extender.config.settings import Settings
from extender.kubescheduler.checkextender import check_extenders
from extender.kubescheduler.checkplugins import check_plugins
from extender.kubescheduler.schedulerconfig import (
    API_VERSION,
    DEFAULT_BIND_TIMEOUT_SECONDS,
    DEFAULT_LEASE,
    KIND,
    ConfigFinding,
    Configuration,
    LeaderElection,
    Profile,
    load_config,
    parse_config,
    shown,
)

UNREADABLE: Final = "not readable"
# kube-scheduler's plugin VolumeBinding looks at volumes only once a second, so a shorter time-out would always fail.
LEAST_BIND_TIMEOUT_SECONDS: Final = 2
# VolumeBinding must give up this long before the barrier window ends, so that the room which it reserves is then free.
BIND_TIMEOUT_MARGIN_SECONDS: Final = 1.0


def check_file(path: str | Path, settings: Settings) -> list[ConfigFinding]:
    """Return the findings for a KubeSchedulerConfiguration, or for a ConfigMap that holds one; never raise."""
    try:
        config = load_config(path)
    except YamlError as error:
        return [
            ConfigFinding(
                str(path), UNREADABLE, f"a YAML file with a {KIND}", str(error), "Name a file that holds one."
            )
        ]
    return findings(config, settings)


def findings(config: Mapping[str, Any], settings: Settings) -> list[ConfigFinding]:
    """Return the faults of a KubeSchedulerConfiguration for Kohort with these settings; empty if there are none."""
    if wrong := list(_check_kind(config)):
        return wrong
    try:
        parsed = parse_config(config)
    except ValidationError as error:
        return [_misread(details["loc"], details["input"], details["msg"]) for details in error.errors()]
    return [
        *_check_lease(parsed.leader_election, settings),
        *_check_backoff(parsed, settings),
        *_check_profiles(parsed, settings),
        *check_extenders(parsed, settings),
        *check_plugins(parsed, settings),
    ]


def refused(found: Sequence[ConfigFinding]) -> bool:
    """Tell whether one of the findings is an error, so that the configuration must not be used."""
    return any(finding.level == "error" for finding in found)


def unreadable(found: Sequence[ConfigFinding]) -> bool:
    """Tell whether the findings say that the file has no configuration to check."""
    return any(finding.value == UNREADABLE for finding in found)


def render(found: Sequence[ConfigFinding]) -> str:
    """Return the findings as text for a person: errors, then warnings, and the numbers of both in the last line."""
    ordered = sorted(found, key=lambda finding: finding.level != "error")
    blocks = [
        f"{one.level}: {one.field}: {one.value}\n  allowed: {one.allowed}\n  why: {one.why}\n  what helps: {one.mend}"
        for one in ordered
    ]
    errors = sum(one.level == "error" for one in found)
    verdict = "refused" if errors else "good for Kohort"
    return "\n".join([*blocks, f"{verdict} (errors: {errors}, warnings: {len(found) - errors})"])


def _check_kind(config: Mapping[str, Any]) -> Iterator[ConfigFinding]:
    for field, allowed in (("apiVersion", API_VERSION), ("kind", KIND)):
        if (value := config.get(field)) != allowed:
            why = "kube-scheduler reads no other kind or version from its --config file."
            yield ConfigFinding(field, shown(value), allowed, why, f"Set {field}: {allowed}.")


def _misread(location: tuple[int | str, ...], value: object, message: str) -> ConfigFinding:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    unknown = message.startswith("Extra inputs")
    allowed = "a key of the format" if unknown else message.removeprefix("Input should be ")
    mend = "Remove it or correct its spelling." if unknown else "Give a value of that type."
    return ConfigFinding(field, shown(value), allowed, "kube-scheduler would refuse to start with this file.", mend)


def _check_lease(election: LeaderElection, settings: Settings) -> Iterator[ConfigFinding]:
    if settings.lease.elect:
        yield from _check_other_lease(election, settings)
        return
    if not election.leader_elect:
        yield ConfigFinding(
            "leaderElection.leaderElect",
            "false",
            "true",
            "A replica of Kohort leads when kube-scheduler's own Lease names its pod; without a Lease none would act.",
            "Set leaderElect: true.",
        )
        return
    found = (election.resource_namespace or DEFAULT_LEASE[0], election.resource_name or DEFAULT_LEASE[1])
    wanted = (settings.lease.namespace, settings.lease.name)
    if found != wanted:
        yield ConfigFinding(
            "leaderElection.resourceNamespace, resourceName",
            "/".join(found),
            "/".join(wanted),
            "Kohort watches the Lease named in its settings; with another one no replica would ever lead.",
            f"Set resourceNamespace: {wanted[0]} and resourceName: {wanted[1]}, or change lease.namespace and "
            "lease.name of the settings.",
        )


def _check_other_lease(election: LeaderElection, settings: Settings) -> Iterator[ConfigFinding]:
    found = (election.resource_namespace or DEFAULT_LEASE[0], election.resource_name or DEFAULT_LEASE[1])
    if election.leader_elect and found == (settings.lease.namespace, settings.lease.name):
        yield ConfigFinding(
            "leaderElection.resourceNamespace, resourceName",
            "/".join(found),
            "another Lease than lease.namespace and lease.name of the settings",
            "With lease.elect the extenders hold that Lease among themselves; kube-scheduler would never get it, or "
            "they would not.",
            "Leave kube-scheduler's own Lease as it was, or change lease.name of the settings.",
        )


def _check_backoff(config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    window, expected = settings.barrier.window_seconds, settings.scheduler
    longest = window - BACKOFF_MARGIN_SECONDS
    if config.pod_initial_backoff_seconds > config.pod_max_backoff_seconds:
        yield ConfigFinding(
            "podInitialBackoffSeconds",
            str(config.pod_initial_backoff_seconds),
            f"at most podMaxBackoffSeconds ({config.pod_max_backoff_seconds})",
            "kube-scheduler would refuse to start with this file.",
            f"Set podInitialBackoffSeconds: {expected.pod_initial_backoff_seconds:g}.",
        )
    if config.pod_max_backoff_seconds > longest:
        yield ConfigFinding(
            "podMaxBackoffSeconds",
            str(config.pod_max_backoff_seconds),
            f"at most {longest:g} (barrier.window_seconds less {BACKOFF_MARGIN_SECONDS:g})",
            "A member whose bind was refused waits for its whole back-off and cannot be woken; if that is longer than "
            "the barrier window, the other members' binds time out before it returns, and the gang never binds.",
            f"Set podMaxBackoffSeconds: {expected.pod_max_backoff_seconds:g}, or raise barrier.window_seconds.",
        )
    pairs = (
        ("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, expected.pod_initial_backoff_seconds),
        ("podMaxBackoffSeconds", config.pod_max_backoff_seconds, expected.pod_max_backoff_seconds),
    )
    for field, value, assumed in pairs:
        if value != assumed and value <= longest:
            yield ConfigFinding(
                field,
                str(value),
                f"{assumed:g}",
                "Kohort's settings assume another value, and its barrier window depends on it.",
                f"Set {field}: {assumed:g}, or change the setting of that name under scheduler.",
                "warning",
            )


def _check_profiles(config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    at = next((i for i, one in enumerate(config.profiles) if one.scheduler_name == settings.scheduler_name), None)
    if at is None:
        names = ", ".join(one.scheduler_name or "default-scheduler" for one in config.profiles) or "none"
        yield ConfigFinding(
            "profiles",
            names,
            f"one with schedulerName: {settings.scheduler_name}",
            "Pods that opt in have this schedulerName; no profile has it, so they would stay pending for ever.",
            f"Add a profile with schedulerName: {settings.scheduler_name}.",
        )
        return
    profile = config.profiles[at]
    yield from _check_sampling(f"profiles[{at}]", profile, config)
    yield from _check_bind_timeout(f"profiles[{at}]", profile, settings)
    if profile.preempts:
        yield ConfigFinding(
            f"profiles[{at}].plugins",
            "DefaultPreemption is on",
            "DefaultPreemption disabled",
            "A waiting member would evict pods of lower priority, one by one, for a gang that may still not fit; "
            "Kohort makes room itself, by shrinking running jobs.",
            "Set plugins.multiPoint.disabled: [{name: DefaultPreemption}] in this profile.",
        )


def _check_bind_timeout(where: str, profile: Profile, settings: Settings) -> Iterator[ConfigFinding]:
    value, longest = profile.bind_timeout_seconds, int(settings.barrier.window_seconds - BIND_TIMEOUT_MARGIN_SECONDS)
    if isinstance(value, int) and not isinstance(value, bool) and LEAST_BIND_TIMEOUT_SECONDS <= value <= longest:
        return
    yield ConfigFinding(
        f"{where}.pluginConfig[VolumeBinding].bindTimeoutSeconds",
        f"absent ({value})" if value == DEFAULT_BIND_TIMEOUT_SECONDS else shown(value),
        f"{LEAST_BIND_TIMEOUT_SECONDS} to {longest} (barrier.window_seconds less {BIND_TIMEOUT_MARGIN_SECONDS:g})",
        "For this long kube-scheduler reserves room for a member whose volume is not ready, and no API object shows "
        "it: Kohort plans other gangs there, and their members are refused until that time is over.",
        f"Add {{name: VolumeBinding, args: {{bindTimeoutSeconds: {longest}}}}} to pluginConfig in {where}; a volume "
        "that takes longer is bound in a later attempt.",
        "warning",
    )


def _check_sampling(where: str, profile: Profile, config: Configuration) -> Iterator[ConfigFinding]:
    own, common = profile.percentage_of_nodes_to_score, config.percentage_of_nodes_to_score
    value = own if own is not None else common
    if value == 100:
        return
    inherited = own is None and common is not None
    yield ConfigFinding(
        "percentageOfNodesToScore" if inherited else f"{where}.percentageOfNodesToScore",
        "absent (chosen by cluster size)" if value is None else str(value),
        "100",
        "kube-scheduler stops at a sample of the feasible nodes, so the planned node may not be offered at all.",
        f"Set percentageOfNodesToScore: 100 in {where}.",
    )
