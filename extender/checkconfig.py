"""Find what in a KubeSchedulerConfiguration would break the gang, say why, and how to mend it.

kube-scheduler starts happily with nearly all of these faults and shows them only later, as half-placed jobs, silent
loss of certificate checks, or pods that wait for ever. This room reads a file and compares it with our settings; it
asks no cluster. The behaviour it argues from is that of kube-scheduler 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import ValidationError

from extender.plainyaml import YamlError
from extender.schedulerconfig import (
    API_VERSION,
    DEFAULT_HTTP_TIMEOUT,
    DEFAULT_LEASE,
    KIND,
    Configuration,
    Extender,
    LeaderElection,
    Profile,
    Tls,
    go_duration_seconds,
    load_config,
    parse_config,
)
from extender.settings import BACKOFF_MARGIN_SECONDS, Settings, is_loopback, least_http_timeout_seconds

VERBS_PATH: Final = "/scheduler/v1"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: an error breaks the gang or its safety, a warning costs speed or hints at a slip."""

    field: str
    value: str
    allowed: str
    why: str
    mend: str
    level: Literal["error", "warning"] = "error"


def check_file(path: str | Path, settings: Settings) -> list[Finding]:
    """Read a KubeSchedulerConfiguration, or a ConfigMap that holds one, and give its findings; never raises."""
    try:
        config = load_config(path)
    except YamlError as error:
        return [Finding(str(path), "not readable", f"a YAML file with a {KIND}", str(error), "Give such a file.")]
    return findings(config, settings)


def findings(config: Mapping[str, Any], settings: Settings) -> list[Finding]:
    """Say all that is wrong with a KubeSchedulerConfiguration for Kohort with these settings; empty is good."""
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
        *_check_extenders(parsed, settings),
    ]


def refused(found: Sequence[Finding]) -> bool:
    """Tell whether the configuration must not be used: warnings alone let it pass."""
    return any(finding.level == "error" for finding in found)


def render(found: Sequence[Finding]) -> str:
    """Write the findings for a person, errors first, and a last line that sums up."""
    ordered = sorted(found, key=lambda finding: finding.level != "error")
    blocks = [
        f"{one.level}: {one.field}: {one.value}\n  allowed: {one.allowed}\n  why: {one.why}\n  mend: {one.mend}"
        for one in ordered
    ]
    errors = sum(one.level == "error" for one in found)
    verdict = "refused" if errors else "good for Kohort"
    return "\n".join([*blocks, f"{verdict} (errors: {errors}, warnings: {len(found) - errors})"])


def _check_kind(config: Mapping[str, Any]) -> Iterator[Finding]:
    for field, allowed in (("apiVersion", API_VERSION), ("kind", KIND)):
        if (value := config.get(field)) != allowed:
            why = "kube-scheduler reads no other kind or version from its --config file."
            yield Finding(field, _shown(value), allowed, why, f"Set {field}: {allowed}.")


def _misread(location: tuple[int | str, ...], value: object, message: str) -> Finding:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    unknown = message.startswith("Extra inputs")
    allowed = "a key of the format" if unknown else message.removeprefix("Input should be ")
    mend = "Remove it or correct its spelling." if unknown else "Give a value of that type."
    return Finding(field, _shown(value), allowed, "kube-scheduler would refuse to start with this file.", mend)


def _check_lease(election: LeaderElection, settings: Settings) -> Iterator[Finding]:
    if not election.leader_elect:
        yield Finding(
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
        yield Finding(
            "leaderElection.resourceNamespace, resourceName",
            "/".join(found),
            "/".join(wanted),
            "Kohort watches the Lease named in its settings; with another one no replica would ever lead.",
            f"Set resourceNamespace: {wanted[0]} and resourceName: {wanted[1]}, or change lease.namespace and "
            "lease.name of the settings.",
        )


def _check_backoff(config: Configuration, settings: Settings) -> Iterator[Finding]:
    window, expected = settings.barrier.window_seconds, settings.scheduler
    longest = window - BACKOFF_MARGIN_SECONDS
    if config.pod_initial_backoff_seconds > config.pod_max_backoff_seconds:
        yield Finding(
            "podInitialBackoffSeconds",
            str(config.pod_initial_backoff_seconds),
            f"at most podMaxBackoffSeconds ({config.pod_max_backoff_seconds})",
            "kube-scheduler would refuse to start with this file.",
            f"Set podInitialBackoffSeconds: {expected.pod_initial_backoff_seconds:g}.",
        )
    if config.pod_max_backoff_seconds > longest:
        yield Finding(
            "podMaxBackoffSeconds",
            str(config.pod_max_backoff_seconds),
            f"at most {longest:g} (barrier.window_seconds less {BACKOFF_MARGIN_SECONDS:g})",
            "A member whose bind was refused sits out its whole back-off and cannot be woken; longer than the barrier "
            "window, the others give up before it is back, and the gang never binds.",
            f"Set podMaxBackoffSeconds: {expected.pod_max_backoff_seconds:g}, or raise barrier.window_seconds.",
        )
    pairs = (
        ("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, expected.pod_initial_backoff_seconds),
        ("podMaxBackoffSeconds", config.pod_max_backoff_seconds, expected.pod_max_backoff_seconds),
    )
    for field, value, assumed in pairs:
        if value != assumed and value <= longest:
            yield Finding(
                field,
                str(value),
                f"{assumed:g}",
                "Kohort's settings assume another value, by which it sizes its window.",
                f"Set {field}: {assumed:g}, or change the setting of that name under scheduler.",
                "warning",
            )


def _check_profiles(config: Configuration, settings: Settings) -> Iterator[Finding]:
    at = next((i for i, one in enumerate(config.profiles) if one.scheduler_name == settings.scheduler_name), None)
    if at is None:
        names = ", ".join(one.scheduler_name or "default-scheduler" for one in config.profiles) or "none"
        yield Finding(
            "profiles",
            names,
            f"one with schedulerName: {settings.scheduler_name}",
            "Pods opt in by this schedulerName; no profile has it, so they would stay pending for ever.",
            f"Add a profile with schedulerName: {settings.scheduler_name}.",
        )
        return
    profile = config.profiles[at]
    yield from _check_sampling(f"profiles[{at}]", profile, config)
    if _preempts(profile):
        yield Finding(
            f"profiles[{at}].plugins",
            "DefaultPreemption is on",
            "DefaultPreemption disabled",
            "A waiting member would evict pods of lower priority, one by one, for a gang that may still not fit; "
            "Kohort makes room itself, by shrinking running jobs.",
            "Set plugins.multiPoint.disabled: [{name: DefaultPreemption}] in this profile.",
        )


def _check_sampling(where: str, profile: Profile, config: Configuration) -> Iterator[Finding]:
    own, common = profile.percentage_of_nodes_to_score, config.percentage_of_nodes_to_score
    value = own if own is not None else common
    if value == 100:
        return
    inherited = own is None and common is not None
    yield Finding(
        "percentageOfNodesToScore" if inherited else f"{where}.percentageOfNodesToScore",
        "absent (chosen by cluster size)" if value is None else str(value),
        "100",
        "kube-scheduler would stop looking once it has enough nodes, so the planned node may not be offered at all.",
        f"Set percentageOfNodesToScore: 100 in {where}.",
    )


def _preempts(profile: Profile) -> bool:
    """Follow kube-scheduler's precedence: extension point over multiPoint over default, enabled over disabled."""
    for plugins in (profile.plugins.post_filter, profile.plugins.multi_point):
        if any(plugin.name == "DefaultPreemption" for plugin in plugins.enabled):
            return True
        if any(plugin.name in ("DefaultPreemption", "*") for plugin in plugins.disabled):
            return False
    return True


def _check_extenders(config: Configuration, settings: Settings) -> Iterator[Finding]:
    at = _position_of_ours(config.extenders)
    if at is None:
        yield Finding(
            "extenders",
            "none that filters and binds",
            "one for Kohort",
            "kube-scheduler would place and bind each pod on its own, with no regard to its gang.",
            f"Add an extender with urlPrefix: {_expected_url(settings)}, filterVerb: filter, bindVerb: bind.",
        )
        return
    ours, where = config.extenders[at], f"extenders[{at}]"
    binders = [i for i, one in enumerate(config.extenders) if one.bind_verb]
    if len(binders) > 1:
        yield Finding(
            "extenders",
            "bindVerb in " + ", ".join(f"extenders[{i}]" for i in binders),
            f"bindVerb in {where} only",
            "kube-scheduler lets one extender bind and refuses to start with more.",
            "Remove bindVerb from the others.",
        )
    yield from _check_verbs(where, ours, config, settings)
    yield from _check_address(where, ours, settings)
    yield from _check_timeout(where, ours, settings)
    yield from _check_calls(where, ours, config, settings)


def _position_of_ours(extenders: Sequence[Extender]) -> int | None:
    """Find Kohort's entry: the one with our path, else the first that decides."""
    deciding = [i for i, one in enumerate(extenders) if one.decides]
    by_path = [i for i in deciding if _split(extenders[i].url_prefix).path.rstrip("/") == VERBS_PATH]
    return next(iter(by_path or deciding), None)


def _check_verbs(where: str, ours: Extender, config: Configuration, settings: Settings) -> Iterator[Finding]:
    guards = any(one.preempt_verb for one in config.extenders)
    preempting = any(_preempts(one) for one in config.profiles if one.scheduler_name != settings.scheduler_name)
    verbs = (
        ("filterVerb", ours.filter_verb, "filter", "error", "members would be placed one by one, not by the plan."),
        ("bindVerb", ours.bind_verb, "bind", "error", "the default binder would bind half a gang."),
        (
            "prioritizeVerb",
            ours.prioritize_verb,
            "prioritize",
            "error" if settings.answer == "ranked" else None,
            "answer: ranked places members by the scores of this verb, and none would be asked for.",
        ),
        (
            "preemptVerb",
            ours.preempt_verb or (guards and "preempt"),
            "preempt",
            "warning" if preempting else None,
            "pods of this file's other profiles may preempt single members of a running gang.",
        ),
    )
    for field, value, verb, level, without in verbs:
        if value and value != verb:
            why = f"Kohort has no route of this name, and kube-scheduler only finds out at its first call: {without}"
            yield Finding(f"{where}.{field}", _shown(value), verb, why, f"Set {field}: {verb}.")
        elif not value and level is not None:
            missing: Literal["error", "warning"] = "error" if level == "error" else "warning"
            yield Finding(f"{where}.{field}", "absent", verb, f"Without it {without}", f"Set {field}: {verb}.", missing)
    if ours.prioritize_verb and ours.weight < 1:
        yield Finding(
            f"{where}.weight",
            str(ours.weight or "absent"),
            "at least 1",
            "kube-scheduler refuses to start when an extender with prioritizeVerb has no weight.",
            "Set weight: 20, which lets co-location outvote the plugins.",
        )


def _check_address(where: str, ours: Extender, settings: Settings) -> Iterator[Finding]:
    url = _split(ours.url_prefix)
    expected = _expected_url(settings)
    if url.scheme not in ("http", "https") or not url.hostname:
        yield Finding(
            f"{where}.urlPrefix",
            _shown(ours.url_prefix or None),
            expected,
            "kube-scheduler finds Kohort by this URL.",
            f"Set urlPrefix: {expected}.",
        )
        return
    yield from _check_tls(where, ours, url)
    if url.scheme == "http" and not is_loopback(url.hostname):
        yield Finding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            f"{expected}, or https:// with a CA",
            "The protocol has no other protection: off the machine, anybody on the way can read it and choose the "
            "nodes, and anybody who reaches the port can bind pods.",
            "Run Kohort in kube-scheduler's pod and call it on 127.0.0.1, or use https with tlsConfig.",
        )
    elif is_loopback(url.hostname) and settings.server.port not in (0, _port(url)):
        yield Finding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            expected,
            f"The settings say server.port: {settings.server.port}; nobody would answer.",
            "Use the same port in both.",
            "warning",
        )
    if url.path.rstrip("/") != VERBS_PATH:
        yield Finding(
            f"{where}.urlPrefix",
            ours.url_prefix,
            f"a URL that ends in {VERBS_PATH}",
            "Kohort's verbs are under this path; any other is answered by 404, unless something between rewrites it.",
            f"Set urlPrefix: {expected}.",
            "warning",
        )


def _check_tls(where: str, ours: Extender, url: SplitResult) -> Iterator[Finding]:
    tls = ours.tls_config or Tls()
    if ours.enable_https and url.scheme == "http":
        yield Finding(
            f"{where}.enableHTTPS",
            "true",
            "an https:// urlPrefix with it",
            "enableHTTPS does not change the URL's scheme: the calls would go out in plain text.",
            "Write https:// in urlPrefix, or remove enableHTTPS.",
        )
    if tls.insecure:
        yield Finding(
            f"{where}.tlsConfig.insecure",
            "true",
            "false",
            "The server's certificate would not be looked at, so anybody on the way may answer in Kohort's place.",
            "Remove insecure and give tlsConfig.caFile.",
        )
    if url.scheme != "https":
        return
    if not (tls.ca_file or tls.ca_data):
        yield Finding(
            f"{where}.tlsConfig.caFile",
            "absent",
            "caFile or caData",
            "With enableHTTPS and no CA kube-scheduler turns verification off without a word.",
            "Give tlsConfig.caFile, with a CA that signs nothing but Kohort.",
        )
    if not ((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)):
        yield Finding(
            f"{where}.tlsConfig.certFile",
            "absent",
            "certFile and keyFile, or certData and keyData",
            "A client certificate is the only way for kube-scheduler to show who it is; a server that asks for one, "
            "as it must, would refuse it.",
            "Give tlsConfig.certFile and keyFile.",
            "warning",
        )


def _check_timeout(where: str, ours: Extender, settings: Settings) -> Iterator[Finding]:
    barrier = settings.barrier
    least, field = least_http_timeout_seconds(barrier), f"{where}.httpTimeout"
    mend = f"Set httpTimeout: {barrier.http_timeout_seconds:g}s."
    seconds = go_duration_seconds(ours.http_timeout or "0")
    if seconds is None:
        why = "kube-scheduler would refuse to start with this file."
        yield Finding(field, _shown(ours.http_timeout), "a duration such as 20s", why, mend)
        return
    absent = seconds == 0
    seconds = seconds or go_duration_seconds(DEFAULT_HTTP_TIMEOUT) or 0.0
    if seconds < least:
        yield Finding(
            field,
            f"absent, which means {DEFAULT_HTTP_TIMEOUT}" if absent else ours.http_timeout,
            f"at least {least:g}s (barrier.window_seconds + binding_seconds + api_deadline_seconds + 2)",
            "kube-scheduler would give up on a bind that is still held for the rest of its gang, and count the pod as "
            "failed while it is being bound.",
            mend,
        )
    elif seconds != barrier.http_timeout_seconds:
        yield Finding(
            field,
            ours.http_timeout,
            f"{barrier.http_timeout_seconds:g}s",
            "Kohort's settings assume another value.",
            f"{mend[:-1]}, or change barrier.http_timeout_seconds.",
            "warning",
        )


def _check_calls(where: str, ours: Extender, config: Configuration, settings: Settings) -> Iterator[Finding]:
    if ours.ignorable:
        yield Finding(
            f"{where}.ignorable",
            "true",
            "false",
            "While Kohort does not answer, or holds a bind, the default binder would bind members on their own: half a "
            "gang.",
            "Remove ignorable. To guard gangs in another kube-scheduler, use an entry with preemptVerb alone there.",
        )
    if not ours.node_cache_capable:
        yield Finding(
            f"{where}.nodeCacheCapable",
            "false",
            "true",
            "Every call would carry all nodes in full, some kilobytes each, instead of their names.",
            "Set nodeCacheCapable: true.",
            "warning",
        )
    yield from _check_managed_resources(where, ours)
    names = [one.scheduler_name or "default-scheduler" for one in config.profiles]
    others = [name for name in names if name != settings.scheduler_name]
    if len(others) < len(names) and others and not ours.managed_resources:
        yield Finding(
            "profiles",
            ", ".join(others),
            f"{settings.scheduler_name} alone",
            "An extender is called for every pod of the process: pods of these profiles wait for Kohort too, and are "
            "not bound while it is down.",
            "Give Kohort a kube-scheduler of its own, or accept this.",
            "warning",
        )


def _check_managed_resources(where: str, ours: Extender) -> Iterator[Finding]:
    for i, resource in enumerate(ours.managed_resources):
        if not resource.ignored_by_scheduler:
            yield Finding(
                f"{where}.managedResources[{i}].ignoredByScheduler",
                "false",
                "true",
                f"Members would have to request {resource.name}, and kube-scheduler would look for a node that offers "
                "it; where none does they stay pending for ever.",
                "Set ignoredByScheduler: true, or remove managedResources.",
            )
    if ours.managed_resources:
        names = ", ".join(resource.name for resource in ours.managed_resources)
        yield Finding(
            f"{where}.managedResources",
            names,
            "absent",
            "Kohort is only asked about pods that request one of these: a member without the request is placed and "
            "bound on its own.",
            "Remove managedResources, or make sure that every member requests one.",
            "warning",
        )


def _split(url: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.port, split.hostname  # both parse late and may raise
    except ValueError:
        return urlsplit("")
    return split


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _expected_url(settings: Settings) -> str:
    return f"http://{settings.server.host}:{settings.server.port}{VERBS_PATH}"


def _shown(value: object, limit: int = 80) -> str:
    if value is None:
        return "absent"
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
