"""The embedded scheduler's configuration, read from the same KubeSchedulerConfiguration as kube-scheduler's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from extender.config.goduration import go_duration_seconds
from extender.config.settings import Settings
from extender.kubescheduler.schedulerconfig import (
    DEFAULT_BIND_TIMEOUT_SECONDS,
    DEFAULT_HTTP_TIMEOUT,
    ExtenderEntry,
    Profile,
    parse_config,
)
from extender.kubescheduler.wire import VERBS_PATH

DEFAULT_PREEMPTION = "DefaultPreemption"


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """The configuration of one scheduler profile, which schedules the pods with one schedulerName.

    ``percentage`` is percentageOfNodesToScore (0: depends on the number of nodes), and ``preemption`` tells whether
    DefaultPreemption is on. ``bind_timeout`` is the number of seconds for which VolumeBinding waits for a pod's
    volumes; the pod's room stays charged during the wait.
    """

    percentage: int = 0
    preemption: bool = True
    bind_timeout: float = float(DEFAULT_BIND_TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True)
class ExtenderConfig:
    """The configuration of one extender that the scheduler calls.

    A verb whose name is empty is not called. ``timeout`` is httpTimeout in seconds, which limits each call of a verb.
    ``capable`` is nodeCacheCapable: requests have the names of nodes and not whole nodes.
    """

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout: float = 5.0
    capable: bool = True


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The whole configuration of the embedded scheduler; times are in seconds.

    ``lag`` is the time after which a change in the API server reaches the scheduler's own cache.
    """

    profiles: Mapping[str, ProfileConfig] = field(default_factory=lambda: {"default-scheduler": ProfileConfig()})
    extenders: tuple[ExtenderConfig, ...] = ()
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    lag: float = 0.0


BIND_TIMEOUT = 5.0  # the time in seconds is bindTimeoutSeconds of manifests/base/scheduler-config.yaml


def config_for(url: str, settings: Settings) -> SchedulerConfig:
    """Return the configuration that matches the manifests' KubeSchedulerConfiguration, for Kohort with these settings.

    url: where Kohort's server is.
    """
    extender = ExtenderConfig(
        url=f"{url}{VERBS_PATH}",
        filter_verb="filter",
        prioritize_verb="prioritize",
        bind_verb="bind",
        weight=20,
        timeout=settings.barrier.http_timeout_seconds,
    )
    return SchedulerConfig(
        profiles={settings.scheduler_name: ProfileConfig(percentage=100, preemption=False, bind_timeout=BIND_TIMEOUT)},
        extenders=(extender,),
        initial_backoff=settings.scheduler.pod_initial_backoff_seconds,
        max_backoff=settings.scheduler.pod_max_backoff_seconds,
    )


def read_config(config: Mapping[str, Any]) -> SchedulerConfig:
    """Read a KubeSchedulerConfiguration; fields that the embedded scheduler does not imitate (TLS) are ignored."""
    found = parse_config(config)
    wide = found.percentage_of_nodes_to_score or 0
    profiles = {p.scheduler_name or "default-scheduler": _profile(p, wide) for p in found.profiles}
    return SchedulerConfig(
        profiles=profiles or {"default-scheduler": ProfileConfig(percentage=wide)},
        extenders=tuple(_extender(e) for e in found.extenders if e.decides),
        initial_backoff=found.pod_initial_backoff_seconds,
        max_backoff=found.pod_max_backoff_seconds,
    )


def _profile(profile: Profile, wide: int) -> ProfileConfig:
    off = (*profile.plugins.multi_point.disabled, *profile.plugins.post_filter.disabled)
    percentage = profile.percentage_of_nodes_to_score
    preempts = not any(plugin.name in (DEFAULT_PREEMPTION, "*") for plugin in off)
    stated = profile.bind_timeout_seconds
    seconds = float(stated) if isinstance(stated, int | float) else float(DEFAULT_BIND_TIMEOUT_SECONDS)
    return ProfileConfig(wide if percentage is None else percentage, preempts, seconds)


def _extender(extender: ExtenderEntry) -> ExtenderConfig:
    return ExtenderConfig(
        url=extender.url_prefix.rstrip("/"),
        filter_verb=extender.filter_verb,
        prioritize_verb=extender.prioritize_verb,
        bind_verb=extender.bind_verb,
        weight=extender.weight,
        timeout=max(0.0, go_duration_seconds(extender.http_timeout or DEFAULT_HTTP_TIMEOUT) or 0.0) or 5.0,
        capable=extender.node_cache_capable,
    )
