"""Checks that kube-scheduler's profile allows gangs to be bound at their first bind call (``barrier.commit``).

No plugin sees a member that is bound early. So the profile may have only plugins of the table in
``policy/placement/plugins.py``, whose checks Kohort makes itself or knows to have nothing to check in such members, and
the configuration may have no other extender that filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.config.settings import Settings
from extender.kubescheduler.schedulerconfig import ConfigFinding, Configuration, Profile
from policy.placement.plugins import PLUGINS, unknown

ALL: Final = "Set barrier.commit: all in the settings."
EARLY: Final = "barrier.commit: auto or first"
UNSEEN: Final = f"With {EARLY}, members are bound that it has never seen."


def check_plugins(config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    """Yield a finding for each plugin, profile or extender that takes part in choosing nodes, unseen by Kohort.

    Where gangs are not bound at their first bind call there are no findings.
    """
    if not settings.commits_first:
        return
    for at, profile in enumerate(config.profiles):
        if profile.scheduler_name == settings.scheduler_name:
            yield from _check_enabled(f"profiles[{at}].plugins", profile, settings)
            yield from _check_arguments(f"profiles[{at}]", profile)
    names = [profile.scheduler_name or "default-scheduler" for profile in config.profiles]
    if others := [name for name in names if name != settings.scheduler_name]:
        yield ConfigFinding(
            "profiles",
            ", ".join(others),
            f"{settings.scheduler_name} alone ({EARLY})",
            "Until kube-scheduler sees early bindings, it may give their room to pods of its other profiles.",
            f"Give Kohort a kube-scheduler of its own, or: {ALL}",
        )
    deciding = [f"extenders[{at}]" for at, one in enumerate(config.extenders) if one.filter_verb]
    if len(deciding) > 1:
        why = f"Another extender decides about nodes, too. {UNSEEN}"
        yield ConfigFinding("extenders", ", ".join(deciding), f"Kohort's alone ({EARLY})", why, ALL)


def _check_enabled(where: str, profile: Profile, settings: Settings) -> Iterator[ConfigFinding]:
    enabled = profile.enabled_plugins
    for name in unknown(enabled):
        if name not in settings.scheduler.plugins:
            yield ConfigFinding(
                where,
                name,
                "a plugin that Kohort knows, or one that scheduler.plugins names",
                f"Kohort does not know what this plugin checks. {UNSEEN}",
                f"Add {name} to scheduler.plugins, which keeps every gang from being bound early, or: {ALL}",
            )
    for name in unknown(settings.scheduler.plugins):
        yield ConfigFinding(
            "scheduler.plugins (of the settings)",
            name,
            ", ".join(PLUGINS),
            "Kohort does not know what this plugin checks, so no gang is bound at its first bind call.",
            ALL,
            "warning",
        )


def _check_arguments(where: str, profile: Profile) -> Iterator[ConfigFinding]:
    """Yield a finding for each plugin argument that restricts the nodes of every pod, whatever the pod's spec says."""
    affinity = _mapping(profile.arguments_of("NodeAffinity").get("addedAffinity"))
    if affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        yield _restricting(f"{where}.pluginConfig[NodeAffinity].addedAffinity", "no required node affinity")
    spread = profile.arguments_of("PodTopologySpread").get("defaultConstraints")
    hard = isinstance(spread, list) and any(
        _mapping(one).get("whenUnsatisfiable") != "ScheduleAnyway" for one in spread
    )
    if hard:
        yield _restricting(f"{where}.pluginConfig[PodTopologySpread].defaultConstraints", "ScheduleAnyway")


def _restricting(field: str, allowed: str) -> ConfigFinding:
    why = f"It restricts the nodes of every pod, and Kohort does not read it. {UNSEEN}"
    return ConfigFinding(field, "set", f"{allowed} ({EARLY})", why, f"Remove it, or: {ALL}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
