"""The values of a draft that a step reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from policy.cluster.failures import Failures, Suspicions
from policy.cluster.index import Facts, Index
from policy.cluster.quota import Quota
from policy.cluster.reasons import Verdict
from policy.cluster.refusedwrite import RefusedWrite
from policy.cluster.resources import Resources
from policy.cluster.snapshot import Charge, Rules
from policy.cluster.training import Report


class Now(Facts, Protocol):
    """The current values of a draft's fields. Read them here; only the draft's methods may change them."""

    rules: Rules
    generation: int
    synced: bool
    leading: bool
    gone: Mapping[str, float]
    charges: Mapping[str, Charge]
    quotas: Mapping[str, Quota]
    short: Mapping[str, float]
    reports: Mapping[str, tuple[Report, ...]]
    usage: Mapping[str, Resources]
    verdicts: Mapping[str, Verdict]
    resizes: tuple[float, ...]
    memory: Mapping[str, object]
    refused_writes: Mapping[str, tuple[RefusedWrite, ...]]
    texts: Mapping[str, str]
    repelling: Mapping[str, tuple[str, ...]]
    failures: Mapping[str, Failures]
    suspected: Suspicions
    index: Index
