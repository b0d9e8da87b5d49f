"""Checks Kohort's own entry under ``extenders`` for faults that would break a gang: in its verbs, address, TLS,
time-out and other fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from extender.config.goduration import go_duration_seconds
from extender.config.settings import Settings
from extender.kubescheduler.checkaddress import check_address, expected_url, split
from extender.kubescheduler.schedulerconfig import (
    DEFAULT_HTTP_TIMEOUT,
    ConfigFinding,
    Configuration,
    ExtenderEntry,
    shown,
)
from extender.kubescheduler.wire import VERBS_PATH


def check_extenders(config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    """Yield the faults of Kohort's entry, or one finding that says that there is no such entry."""
    at = _position_of_ours(config.extenders)
    if at is None:
        yield ConfigFinding(
            "extenders",
            "none that filters and binds",
            "one for Kohort",
            "kube-scheduler would place and bind each pod on its own, without regard to its gang.",
            f"Add an extender with urlPrefix: {expected_url(settings)}, filterVerb: filter, bindVerb: bind.",
        )
        return
    ours, where = config.extenders[at], f"extenders[{at}]"
    binders = [i for i, one in enumerate(config.extenders) if one.bind_verb]
    if len(binders) > 1:
        yield ConfigFinding(
            "extenders",
            "bindVerb in " + ", ".join(f"extenders[{i}]" for i in binders),
            f"bindVerb in {where} only",
            "kube-scheduler lets one extender bind and refuses to start with more.",
            "Remove bindVerb from the others.",
        )
    yield from _check_verbs(where, ours, config, settings)
    yield from check_address(where, ours, settings)
    yield from _check_timeout(where, ours, settings)
    yield from _check_calls(where, ours, config, settings)


def _position_of_ours(extenders: Sequence[ExtenderEntry]) -> int | None:
    """Return the position of Kohort's entry in the list ``extenders``; None where no entry takes part in placing pods.

    Of the entries that do, it is the first whose URL has the path of Kohort's verbs, or else the first of all.
    """
    deciding = [i for i, one in enumerate(extenders) if one.decides]
    by_path = [i for i in deciding if split(extenders[i].url_prefix).path.rstrip("/") == VERBS_PATH]
    return next(iter(by_path or deciding), None)


def _check_verbs(where: str, ours: ExtenderEntry, config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    guards = any(one.preempt_verb for one in config.extenders)
    preempting = any(one.preempts for one in config.profiles if one.scheduler_name != settings.scheduler_name)
    verbs = (
        ("filterVerb", ours.filter_verb, "filter", "error", "members would be placed one by one, not by the plan."),
        ("bindVerb", ours.bind_verb, "bind", "error", "the default binder would bind half a gang."),
        (
            "prioritizeVerb",
            ours.prioritize_verb,
            "prioritize",
            "error" if settings.answer == "ranked" else None,
            "the setting answer: ranked places members by the scores of this verb, which would never be requested.",
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
            why = f"Kohort has no verb of this name, and kube-scheduler notices that only at its first call: {without}"
            yield ConfigFinding(f"{where}.{field}", shown(value), verb, why, f"Set {field}: {verb}.")
        elif not value and level is not None:
            missing: Literal["error", "warning"] = "error" if level == "error" else "warning"
            yield ConfigFinding(
                f"{where}.{field}", "absent", verb, f"Without it {without}", f"Set {field}: {verb}.", missing
            )
    if ours.prioritize_verb and ours.weight < 1:
        yield ConfigFinding(
            f"{where}.weight",
            str(ours.weight or "absent"),
            "at least 1",
            "kube-scheduler refuses to start when an extender with prioritizeVerb has no weight.",
            "Set weight: 20, with which co-location outweighs the scores of the plugins.",
        )


def _check_timeout(where: str, ours: ExtenderEntry, settings: Settings) -> Iterator[ConfigFinding]:
    barrier = settings.barrier
    least, field = barrier.http_timeout_seconds, f"{where}.httpTimeout"
    mend = f"Set httpTimeout: {barrier.http_timeout_seconds:g}s."
    seconds = go_duration_seconds(ours.http_timeout or "0")
    if seconds is None or seconds < 0:
        why = "kube-scheduler would refuse to start with this file."
        yield ConfigFinding(field, shown(ours.http_timeout), "a duration such as 20s", why, mend)
        return
    absent = seconds == 0
    seconds = seconds or go_duration_seconds(DEFAULT_HTTP_TIMEOUT) or 0.0
    if seconds < least:
        yield ConfigFinding(
            field,
            f"absent, which means {DEFAULT_HTTP_TIMEOUT}" if absent else ours.http_timeout,
            f"at least {least:g}s (barrier.http_timeout_seconds: binds are held up to {barrier.hold_seconds:g} s)",
            "kube-scheduler would give up on a bind that is still held for the rest of its gang, and count the pod as "
            "failed while it is being bound.",
            mend,
        )
    elif seconds > least:
        yield ConfigFinding(
            field,
            ours.http_timeout,
            f"{barrier.http_timeout_seconds:g}s",
            "Kohort's settings assume another value.",
            f"{mend[:-1]}, or change barrier.http_timeout_seconds.",
            "warning",
        )


def _check_calls(where: str, ours: ExtenderEntry, config: Configuration, settings: Settings) -> Iterator[ConfigFinding]:
    if ours.ignorable:
        yield ConfigFinding(
            f"{where}.ignorable",
            "true",
            "false",
            "While Kohort does not answer, or holds a bind, the default binder would bind members on their own: half a "
            "gang.",
            "Remove ignorable. To guard gangs in another kube-scheduler, use an entry with preemptVerb alone there.",
        )
    if not ours.node_cache_capable:
        yield ConfigFinding(
            f"{where}.nodeCacheCapable",
            "false",
            "true",
            "Every call would contain all node objects, some kilobytes each, instead of their names.",
            "Set nodeCacheCapable: true.",
            "warning",
        )
    yield from _check_managed_resources(where, ours)
    names = [one.scheduler_name or "default-scheduler" for one in config.profiles]
    others = [name for name in names if name != settings.scheduler_name]
    if len(others) < len(names) and others and not ours.managed_resources:
        yield ConfigFinding(
            "profiles",
            ", ".join(others),
            f"{settings.scheduler_name} alone",
            "kube-scheduler calls an extender for the pods of all its profiles: pods of these wait for Kohort too, "
            "and are not bound while it is down.",
            "Give Kohort a kube-scheduler of its own, or accept this.",
            "warning",
        )


def _check_managed_resources(where: str, ours: ExtenderEntry) -> Iterator[ConfigFinding]:
    for i, resource in enumerate(ours.managed_resources):
        if not resource.ignored_by_scheduler:
            yield ConfigFinding(
                f"{where}.managedResources[{i}].ignoredByScheduler",
                "false",
                "true",
                f"Members would have to request {resource.name}, and kube-scheduler would look for a node that offers "
                "it; where none does they stay pending for ever.",
                "Set ignoredByScheduler: true, or remove managedResources.",
            )
    if ours.managed_resources:
        names = ", ".join(resource.name for resource in ours.managed_resources)
        yield ConfigFinding(
            f"{where}.managedResources",
            names,
            "absent",
            "Kohort is only called for pods that request one of these: a member without the request is placed and "
            "bound on its own.",
            "Remove managedResources, or make sure that every member requests one.",
            "warning",
        )
