"""Parses kube-scheduler's own configuration file, as far as Kohort checks it.

Types are strict and unknown keys are errors, as in kube-scheduler 1.37, which refuses to start on them. This module
only parses; `checkconfig` judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from extender.config.plainyaml import YamlError, parse_yaml, read_yaml, texts_in

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

DEFAULT_HTTP_TIMEOUT: Final = "5s"
DEFAULT_INITIAL_BACKOFF_SECONDS: Final = 1
DEFAULT_MAX_BACKOFF_SECONDS: Final = 10
DEFAULT_BIND_TIMEOUT_SECONDS: Final = 600
DEFAULT_LEASE: Final = ("kube-system", "kube-scheduler")


def load_config(path: str | Path) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration in a file, as a mapping that is not checked yet.

    The file holds the configuration itself, or is a ConfigMap with exactly one such entry. Raises YamlError.
    """
    config = read_yaml(path)
    if (texts := texts_in(config)) is None:
        return config
    held = [parse_yaml(text) for text in texts.values() if f"kind: {KIND}" in text]
    if len(held) != 1:
        raise YamlError(f"the ConfigMap holds {len(held)} entries of kind {KIND}, not one")
    return held[0]


def parse_config(config: Mapping[str, Any]) -> Configuration:
    """Return the parsed configuration. Raises pydantic's ValidationError where kube-scheduler would refuse a field."""
    return Configuration.model_validate(_without_nulls(config))


class ConfigPart(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, extra="forbid")


class SchedulerPlugin(ConfigPart):
    name: str = ""
    weight: int = 1


class PluginSet(ConfigPart):
    enabled: tuple[SchedulerPlugin, ...] = Field(default=(), strict=False)
    disabled: tuple[SchedulerPlugin, ...] = Field(default=(), strict=False)


class Plugins(ConfigPart):
    model_config = ConfigDict(extra="allow")
    post_filter: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


class Profile(ConfigPart):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    percentage_of_placements_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[Mapping[str, Any], ...] = Field(default=(), strict=False)

    @property
    def enabled_plugins(self) -> tuple[str, ...]:
        """Return the names of the plugins that the profile enables at any extension point, without duplicates."""
        points = [self.plugins.post_filter, self.plugins.multi_point]
        names = [plugin.name for point in points for plugin in point.enabled]
        for point in (self.plugins.model_extra or {}).values():
            enabled = point.get("enabled") if isinstance(point, Mapping) else ()
            names += [str(plugin.get("name")) for plugin in enabled or () if isinstance(plugin, Mapping)]
        return tuple(dict.fromkeys(names))

    def arguments_of(self, plugin: str) -> Mapping[str, Any]:
        """Return the arguments that the profile states for the plugin; an empty mapping where it states none."""
        stated = (one.get("args") for one in self.plugin_config if one.get("name") == plugin)
        return next((args for args in stated if isinstance(args, Mapping)), {})

    @property
    def bind_timeout_seconds(self) -> object:
        """Return the seconds for which the plugin VolumeBinding waits for a volume while it keeps the pod's room.

        The value is the file's, which may be of any type, or kube-scheduler's default.
        """
        return self.arguments_of("VolumeBinding").get("bindTimeoutSeconds", DEFAULT_BIND_TIMEOUT_SECONDS)

    @property
    def preempts(self) -> bool:
        """Tell whether DefaultPreemption is on, by kube-scheduler's precedence.

        The extension point takes precedence over multiPoint, multiPoint over the default, and enabled over disabled.
        """
        for plugins in (self.plugins.post_filter, self.plugins.multi_point):
            if any(plugin.name == "DefaultPreemption" for plugin in plugins.enabled):
                return True
            if any(plugin.name in ("DefaultPreemption", "*") for plugin in plugins.disabled):
                return False
        return True


class ExtenderTls(ConfigPart):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ManagedResource(ConfigPart):
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderEntry(ConfigPart):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTls | None = None
    http_timeout: str = ""
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = Field(default=(), strict=False)
    ignorable: bool = False

    @property
    def decides(self) -> bool:
        """Tell whether the extender takes part in placing pods.

        An extender that has only a preemptVerb does not: it only protects running gangs from preemption.
        """
        return bool(self.filter_verb or self.prioritize_verb or self.bind_verb)


class LeaderElection(ConfigPart):
    model_config = ConfigDict(extra="allow")
    leader_elect: bool = True
    resource_name: str = ""
    resource_namespace: str = ""


class Configuration(ConfigPart):
    api_version: str
    kind: str
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: Mapping[str, Any] = Field(default_factory=dict)
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    percentage_of_placements_to_score: int | None = None
    pod_initial_backoff_seconds: int = DEFAULT_INITIAL_BACKOFF_SECONDS
    pod_max_backoff_seconds: int = DEFAULT_MAX_BACKOFF_SECONDS
    profiles: tuple[Profile, ...] = Field(default=(), strict=False)
    extenders: tuple[ExtenderEntry, ...] = Field(default=(), strict=False)
    delay_cache_until_active: bool = False


def _without_nulls(value: Any) -> Any:
    """Return the value without keys that are null, because kube-scheduler treats such keys as absent."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(below) for below in value]
    return value


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One fault of kube-scheduler's configuration.

    ``field`` is the field's path in the file, ``value`` its value, ``allowed`` which values it may have, ``why`` the
    consequence of this value, and ``mend`` how to correct it. ``level``: an error would break gangs or be unsafe; a
    warning costs speed or hints at a mistake.
    """

    field: str
    value: str
    allowed: str
    why: str
    mend: str
    level: Literal["error", "warning"] = "error"


def shown(value: object, limit: int = 80) -> str:
    """Return a value of the configuration as text for a message, shortened to ``limit`` characters."""
    if value is None:
        return "absent"
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
