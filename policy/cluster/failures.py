"""Failures of members on a node: what is remembered of them, for how long the node is avoided, and the annotation.

Each job counts once for each node, with its last failure there. A failure weighs 1 at first, and half as much after
each half-life.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from policy.cluster.node import Node
from policy.cluster.written import SpoiltError, number, rows, table, word

FORMAT: Final = 1
JOBS_TO_AVOID: Final = 2  # A node is avoided once members of so many different jobs have failed there.
REMEMBERED_HALF_LIVES: Final = 2.0  # A failure is forgotten after so many half-lives, unless the node is avoided.
MOST_JOBS: Final = 16  # Of each node at most the last MOST_JOBS failures are kept.
SHARE_BARRED: Final = 10  # At most one node in SHARE_BARRED is barred; the other avoided nodes are used last.
AHEAD_SECONDS: Final = 60.0  # A failure further in the future than this cannot have been written by Kohort.
LONGEST: Final = 8192  # The annotation has at most LONGEST characters.
EVERYWHERE: Final = ""  # Stands in ``Suspicions`` for the node of a job whose members have failed on several nodes.

Suspicions = Mapping[tuple[str, str], float]
"""Failures that do not count yet: job uid and node -> until when the job's other members must live on."""


class Failure(NamedTuple):
    """The last failure of a job's members on a node. job: the job's uid. at: when, in seconds since the epoch."""

    job: str
    at: float


Failures = tuple[Failure, ...]
"""The failures on one node, oldest first, one for each job."""


class Failing(Protocol):
    """The maps of a snapshot that say where members have failed."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def failures(self) -> Mapping[str, Failures]: ...
    @property
    def suspected(self) -> Suspicions: ...


def with_failure(known: Failures, job: str, at: float) -> Failures:
    """Return the failures with one of the job at that time; an earlier one of the same job no longer counts."""
    others = (one for one in known if one.job != job)
    return tuple(sorted((*others, Failure(job, at)), key=lambda one: (one.at, one.job)))[-MOST_JOBS:]


def avoided_until(found: Failures, half_life: float) -> float:
    """Return until when the node is to be avoided (seconds since the epoch); 0 if it is not.

    The node is avoided from the failure on that makes at least ``JOBS_TO_AVOID`` different jobs, for as long as all
    failures together weigh more than 1, and for at least one half-life after the last failure.
    """
    last = max((one.at for one in found), default=0.0)
    recent = [last - one.at for one in found if last - one.at < REMEMBERED_HALF_LIVES * half_life]
    if len(recent) < JOBS_TO_AVOID:
        return 0.0
    weight = math.fsum(0.5 ** (age / half_life) for age in recent)
    return last + half_life * max(1.0, math.log2(weight))


def remembered(found: Failures, half_life: float, now: float) -> Failures:
    """Return the failures that are not forgotten yet: all while the node is avoided, else those that are recent."""
    if now < avoided_until(found, half_life):
        return found
    return tuple(one for one in found if now - one.at < REMEMBERED_HALF_LIVES * half_life)


def failed_on(facts: Failing, job_uid: str) -> frozenset[str]:
    """Return the names of the nodes where members of the job have failed, whether or not the failure counts."""
    if not (facts.failures or facts.suspected):
        return frozenset()
    known = (name for name, found in facts.failures.items() if any(one.job == job_uid for one in found))
    return frozenset((*known, *(node for uid, node in facts.suspected if uid == job_uid)))


def moments(facts: Failing) -> Iterator[float]:
    """Yield the times at which time alone changes which failures count or which nodes are avoided."""
    yield from facts.suspected.values()
    nodes = facts.nodes
    yield from (nodes[name].shunned for name in facts.failures if name in nodes and nodes[name].shunned)


# -- The functions below write and read the annotation of the node. ---------------------------------


def write_failures(node_uid: str, found: Failures) -> str:
    """Return the text that keeps the failures on the node object; empty if there are none.

    The text has the node's uid, because people copy objects with their annotations.
    """
    if not found:
        return ""
    written = {"v": FORMAT, "node": node_uid, "jobs": [[one.job, round(one.at, 3)] for one in found]}
    return json.dumps(written, separators=(",", ":"), sort_keys=True)


def read_failures(node: Node, now: float) -> Failures:
    """Return the failures from the node object; none if the text is another node's, malformed or too long.

    A failure in the future is left out, because the node would be avoided for as long as its writer liked.
    """
    if not node.failures or len(node.failures) > LONGEST or node.forgiven:
        return ()
    try:
        written: Any = table(json.loads(node.failures))
        if (written.get("v"), written.get("node")) != (FORMAT, node.uid):
            return ()
        found = [_failure(rows(row, 2)) for row in rows(written.get("jobs"))]
    except (ValueError, RecursionError):
        return ()
    return _one_of_each(one for one in found if 0.0 <= one.at <= now + AHEAD_SECONDS)


def _failure(row: list[Any]) -> Failure:
    job = word(row[0])
    if not job:
        raise SpoiltError("'' is not allowed; allowed: the uid of a job")
    return Failure(job, number(row[1]))


def _one_of_each(found: Iterable[Failure]) -> Failures:
    known: Failures = ()
    for one in sorted(found, key=lambda one: (one.at, one.job)):
        known = with_failure(known, one.job, one.at)
    return known
