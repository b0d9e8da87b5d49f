"""Translates a ResourceQuota into an event of ``policy``.

Only the amounts of resources that pods use up are read; a malformed amount is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.kube.api import MALFORMED
from extender.kube.fields import Json, ObjectError, amount, listed, part, text, whole
from policy.cluster.constraints import Requirement
from policy.cluster.events import Event, QuotaGone, QuotaSeen
from policy.cluster.quota import LIMITS, POD_OBJECTS, PODS, Quota
from policy.cluster.resources import Resources

PLAIN = ("cpu", "memory", "ephemeral-storage", PODS, POD_OBJECTS)
REQUESTS, HUGE_PAGES, OF_VOLUMES = "requests.", "hugepages-", "requests.storage"


def quota_events(item: dict[str, object], *, gone: bool) -> list[Event]:
    """Return the event that follows from a ResourceQuota, or from its deletion (``gone``).

    The limits are read from its status, which the API server's admission uses as well, and not from its spec.
    """
    meta = part(item, "metadata")
    namespace, name = text(meta, "namespace"), text(meta, "name")
    if not (namespace and name) or (MALFORMED in item and not gone):
        return []
    if gone:
        return [QuotaGone(f"{namespace}/{name}")]
    hard, used = _amounts(part(item, "status"))
    scopes, version = tuple(_scopes(part(item, "spec"))), whole(meta, "resourceVersion")
    return [QuotaSeen(Quota(namespace, name, Resources(hard), Resources(used), scopes, text(meta, "uid"), version))]


def _amounts(status: Json) -> tuple[dict[str, int], dict[str, int]]:
    """Return the quota's hard amounts and its used amounts, each by the resource name that a pod's charge has.

    Where two entries limit the same resource (``cpu`` and ``requests.cpu``), the entry that leaves less counts.
    """
    hard, used = dict[str, int](), dict[str, int]()
    for entry, value in part(status, "hard").items():
        name = _name(str(entry))
        try:
            most = amount(name.removeprefix(LIMITS), value, "status.hard") if name else 0
            taken = amount(name.removeprefix(LIMITS), part(status, "used").get(entry, 0), "status.used") if name else 0
        except ObjectError:
            continue
        if name and (name not in hard or most - taken < hard[name] - used[name]):
            hard[name], used[name] = most, taken
    return hard, used


def _name(entry: str) -> str:
    """Return the resource name in a pod's charge that an entry of the quota limits: ``cpu`` for ``requests.cpu``.

    The name is empty for an entry that pods do not use up, such as ``services``.
    """
    if entry in PLAIN or entry.startswith((LIMITS, HUGE_PAGES)):
        return entry
    return entry.removeprefix(REQUESTS) if entry.startswith(REQUESTS) and entry != OF_VOLUMES else ""


def _scopes(spec: Json) -> Iterator[Requirement]:
    yield from (Requirement(scope, "Exists", ()) for scope in listed(spec, "scopes") if isinstance(scope, str))
    for one in listed(part(spec, "scopeSelector"), "matchExpressions"):
        values = tuple(value for value in listed(one, "values") if isinstance(value, str))
        yield Requirement(text(one, "scopeName"), text(one, "operator") or "Exists", values)
