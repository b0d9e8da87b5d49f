"""Text for people: cleaned names that users chose, and amounts, shares and durations in few characters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from policy.cluster.amounts import Amounts
from policy.cluster.resources import HOST_PORT, Resources
from policy.cluster.words import BYTES, cpu_first, said, visible

MOST_CHARACTERS: Final = 240
# a job's namespace/name is cut to this many characters; kohort.js finds the job's rows and marks by the same text
MOST_KEY: Final = 160
_GIB: Final = 2**30
_TIB: Final = 2**40


def clean(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return the text on one line, made `visible` and cut to ``most`` characters."""
    found = str(text)
    return visible(found[:most]) + ("" if len(found) <= most else "…")


def duration(seconds: float) -> str:
    """Return a duration in seconds as ``42s``, ``7m``, ``3h 05m`` or ``2d 4h``; kohort.js has the same rule."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"


CAUSES: Final = {
    "NodeSeen": "a node came or changed",
    "NodeGone": "a node went",
    "JobSeen": "a job came or changed",
    "JobGone": "a job went",
    "PodSeen": "pods came or changed",
    "PodGone": "pods went",
    "QuotaSeen": "a ResourceQuota came or changed",
    "QuotaGone": "a ResourceQuota went",
    "Synced": "the first lists were complete",
    "Led": "this replica began or ceased to lead",
    "PolicyChanged": "another policy decides",
    "BindHeld": "kube-scheduler asked to bind",
    "BindDropped": "kube-scheduler no longer asks to bind",
    "BindDone": "a pod was bound",
    "BindRefused": "a binding was refused",
    "BindUnknown": "a binding had no answer",
    "NodeNotOffered": "kube-scheduler did not offer the node",
    "Reported": "training reported",
    "Saved": "training saved its state",
    "UsageSeen": "use was measured",
    "WritesRefused": "the API server refused writes, or no longer does",
    "Tick": "time passed",
}
"""For each kind of event, the words in which the page names it as the cause of a step."""


def because(cause: Iterable[str]) -> str:
    """Return the causes of a step in words: ``pods came or changed, time passed``."""
    return ", ".join(CAUSES.get(kind, clean(kind, 40)) for kind in cause)


def clock(at: float) -> str:
    """Return the time as ``16:05:09`` in UTC; the browser turns it into local time."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def short_name(resource: str) -> str:
    """Return the resource's name without its domain: ``gpu`` for ``nvidia.com/gpu``."""
    return clean(resource.rsplit("/", 1)[-1], 40)


def amount(resource: str, exact: int) -> str:
    """Return an exact amount (millicores, bytes or pieces) without its resource: ``2.5`` cores, ``12.5 GiB``, ``4``."""
    if resource == "cpu":
        return f"{exact / 1000:.4g}"
    if resource.startswith(BYTES):
        return f"{exact / _TIB:.3g} TiB" if abs(exact) >= _TIB else f"{exact / _GIB:.3g} GiB"
    return str(exact)


def needs(resources: Resources) -> str:
    """Return requests as ``10.5 cpu · 12 GiB · 2 gpu``, without the resource "pods"."""
    return " · ".join(_need(name, resources[name]) for name in _ordered(resources) if resources[name])


def in_line(amounts: Amounts, *, pods: bool = False) -> str:
    """Return amounts as ``10.5 cpu · 12 GiB · 2 gpu``.

    pods: include the resource "pods". A list of what a node lacks includes it, because a node limits its number of
    pods. Requests of members leave it out, because each member is one pod.
    """
    return " · ".join(_need(name, amounts[name].exact) for name in amounts if pods or name != "pods")


def _need(resource: str, exact: int) -> str:
    if resource == "pods" or resource.startswith(HOST_PORT):
        return said(resource, exact)
    told = amount(resource, exact)
    return told if resource == "memory" else f"{told} {short_name(resource)}"


def _ordered(resources: Iterable[str]) -> list[str]:
    return sorted((name for name in resources if name != "pods"), key=cpu_first)


def percent(part: float, whole: float) -> str:
    """Return a share as ``86 %``, or a dash where ``whole`` is 0."""
    return f"{100 * part / whole:.0f} %" if whole > 0 else "–"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: ``0–3, 7`` for 0, 1, 2, 3, 7."""
    told: list[list[int]] = []
    for number in sorted(numbers):
        if told and number == told[-1][1] + 1:
            told[-1][1] = number
        else:
            told.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in told)
