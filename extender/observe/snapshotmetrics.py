"""Computes metrics from a snapshot at each scrape: gangs, the queue, room, traffic and prices.

The computation takes some 20 ms at 1,000 nodes. It is done on a thread beside the event loop, and at most once a second
however often the metrics are requested (`health.Exposition`), so that steps and verbs are slowed down only because
Python's threads share one interpreter. No label names a job, a pod or a node: labels come from closed sets, or are the
first ten resources that the nodes offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from extender.observe.health import gated_pods
from policy.answers.refusals import backs_off_from_refusal
from policy.answers.unplaced import unplaced
from policy.cluster.gang import SUSPENDED, State, state_name
from policy.cluster.job import PS, WORKER
from policy.cluster.reasons import Reason
from policy.cluster.refusedwrite import BIND, WRITES
from policy.cluster.resources import HOST_PORT, NOTHING, Resources, total
from policy.cluster.snapshot import Snapshot, reason_of
from policy.placement.gang import cross_node_pairs
from policy.systems.base import Policy

# At most RESOURCES resources get metrics, because an administrator may define any number of them.
RESOURCES: Final = 10
# These two resources get no metrics. They limit the number of pods and the scratch space, which are of no interest
# here.
UNPRICED: Final = ("pods", "ephemeral-storage")
USE: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)  # the buckets for the share of a node that is used end at these bounds


class Unit(NamedTuple):
    """The unit in which the metrics give a resource, such as cores for cpu. ``size``: how many of the ledger's units
    (such as millicores) make one of the metrics' units.
    """

    name: str
    size: float


def unit_of(resource: str) -> Unit:
    """Return the unit of a resource in the metrics: cores for cpu, bytes for memory, pieces for all others."""
    return {"cpu": Unit("core", 1000.0), "memory": Unit("byte", 1.0)}.get(resource, Unit("piece", 1.0))


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, text, value=float(value))


def snapshot_metrics(snapshot: Snapshot, policy: Policy, now: float) -> Iterator[Metric]:
    """Yield every metric of the snapshot. ``now``: seconds since the epoch."""
    yield _gangs(snapshot)
    yield _queue(snapshot)
    yield _refused(snapshot)
    invalid = sum(1 for job in snapshot.jobs.values() if job.invalid)
    yield gauge("kohort_invalid_jobs", "Jobs that are refused because their objects are malformed.", invalid)
    waiting = sum(len(missing) for _, missing in unplaced(snapshot))
    yield gauge("kohort_unplaced_members", "Members of running gangs that have no node.", waiting)
    yield gauge("kohort_gated_pods", "Pods behind the admission gate.", gated_pods(snapshot))
    yield gauge("kohort_nodes", "Nodes known.", len(snapshot.nodes))
    yield from _failing(snapshot)
    yield gauge("kohort_ledger_generation", "Steps of the ledger since the start.", snapshot.generation)
    yield from _room(snapshot)
    yield from _traffic(snapshot)
    yield _prices(policy.base.prices(snapshot, now))


def _gangs(snapshot: Snapshot) -> Metric:
    counts = Counter(state_name(job, snapshot.gang(uid)) for uid, job in snapshot.jobs.items())
    # Malformed jobs are left out, because they have a metric of their own.
    states = (*(state.value for state in State), SUSPENDED)
    return _labelled("kohort_gangs", "Gangs by state.", "state", {state: counts[state] for state in states})


def _queue(snapshot: Snapshot) -> Metric:
    counts = dict.fromkeys((reason.value for reason in Reason), 0)
    for job in snapshot.waiting():
        counts[reason_of(snapshot, job).reason.value] += 1
    return _labelled("kohort_queue_jobs", "Jobs that wait, by reason.", "reason", counts)


def _refused(snapshot: Snapshot) -> Metric:
    counts = dict.fromkeys(WRITES, 0)
    for uid, gang in snapshot.gangs.items():
        counts[BIND] += uid in snapshot.jobs and backs_off_from_refusal(gang)
    for one in chain.from_iterable(snapshot.refused_writes.values()):
        counts[one.write] += 1
    text = "Writes that the API server refuses now, by kind; for bindings, the number of gangs that wait because of it."
    return _labelled("kohort_refused_writes", text, "write", counts)


def _failing(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the metrics of nodes on which members of gangs have failed."""
    counts = {"barred": 0, "last": 0}
    for name in snapshot.failures:
        node = snapshot.nodes.get(name)
        if node is not None and node.shunned:
            counts["barred" if node.barred else "last"] += 1
    text = "Nodes that are avoided because members of different jobs have failed there: used not at all, or last."
    yield _labelled("kohort_avoided_nodes", text, "used", {"not": counts["barred"], "last": counts["last"]})
    failures = sum(len(found) for found in snapshot.failures.values())
    text = "Failures of members that count against their nodes, at most one for each job and node."
    yield gauge("kohort_node_failures", text, failures)


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], float(count))
    return family


# -- The functions below make the metrics of the nodes' room. ---------------------------------------


def _room(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the metrics of the usable nodes: their resources, what is requested and planned there, what is in use, and
    how fragmented the free rest is.
    """
    nodes, charged = snapshot.index.room.nodes, snapshot.charged
    whole = total(node.allocatable for node in nodes.values())
    by = {
        "others": total(snapshot.foreign[name] for name in nodes if name in snapshot.foreign),
        "all": total(charged[name] for name in nodes if name in charged),
    }
    by = {"kohort": by["all"] - by["others"], "others": by["others"]}
    there = GaugeMetricFamily(
        "kohort_allocatable", "Allocatable resources of usable nodes, by resource.", labels=["resource", "unit"]
    )
    text = "Requests and plans on usable nodes, by resource and by whether they are Kohort's or others'."
    taken = GaugeMetricFamily("kohort_requested", text, labels=["resource", "unit", "holder"])
    text = "Usable nodes by the share of the resource that is requested or planned there."
    use = GaugeHistogramMetricFamily("kohort_node_utilisation_ratio", text, labels=["resource"])
    text = "Usable nodes by the share of the resource that the metrics API says is in use; none where it is not served."
    measured = GaugeHistogramMetricFamily("kohort_node_used_ratio", text, labels=["resource"])
    text = "Share of the resource's free amount that is on partly used nodes."
    scattered = GaugeMetricFamily("kohort_fragmentation_ratio", text, labels=["resource"])
    for name in _measured_resources(whole):
        unit = unit_of(name)
        there.add_metric([name, unit.name], whole[name] / unit.size)
        for holder, amounts in by.items():
            taken.add_metric([name, unit.name, holder], amounts[name] / unit.size)
        shares = [(node.allocatable[name], charged.get(at, NOTHING)[name]) for at, node in nodes.items()]
        shares = [(has, took) for has, took in shares if has > 0]
        buckets, sums = _buckets([took / has for has, took in shares])
        use.add_metric([name], buckets, sums)
        buckets, sums = _buckets(_measured(snapshot, name))
        measured.add_metric([name], buckets, sums)
        scattered.add_metric([name], _fragmentation(shares))
    yield from (there, taken, use, measured, scattered)


def _measured(snapshot: Snapshot, resource: str) -> list[float]:
    """Return for each usable node with measured usage which share of this resource is in use there."""
    nodes, usage = snapshot.index.room.nodes, snapshot.usage
    known = ((nodes[name].allocatable[resource], use) for name, use in usage.items() if name in nodes)
    return [use[resource] / whole for whole, use in known if whole > 0 and resource in use.amounts]


def _measured_resources(whole: Resources) -> list[str]:
    """Return the names of at most `RESOURCES` resources that get metrics: CPU, memory and devices.

    ``whole``: what all usable nodes have together.
    """
    names = (n for n in whole if whole[n] > 0 and n not in UNPRICED and not n.startswith((HOST_PORT, "hugepages-")))
    return list(names)[:RESOURCES]


def _buckets(shares: list[float]) -> tuple[list[tuple[str, float]], float]:
    counts = [(f"{end:g}" if end % 1 else f"{end:.1f}", float(sum(1 for s in shares if s <= end))) for end in USE]
    return [*counts, ("+Inf", float(len(shares)))], sum(shares)


def _fragmentation(shares: list[tuple[int, int]]) -> float:
    """Return which share, from 0 to 1, of the free amount of a resource is on partly used nodes.

    ``shares``: for each node the amount that it has, and the amount that is taken. The result is 0 if all free amounts
    are on empty nodes or nothing is free, and 1 if no node is empty.
    """
    free = sum(max(0, has - took) for has, took in shares)
    partly = sum(max(0, has - took) for has, took in shares if took > 0)
    return partly / free if free else 0.0


# -- The functions below make the metrics of traffic between nodes and of prices. -------------------


def _traffic(snapshot: Snapshot) -> Iterator[Metric]:
    pairs = across = 0
    for job in snapshot.running():
        nodes = snapshot.gang(job.uid).nodes
        servers = sum(1 for slot in nodes if slot.role == PS)
        if servers:
            pairs += servers * sum(1 for slot in nodes if slot.role == WORKER)
            across += cross_node_pairs(nodes)
    yield gauge("kohort_ps_worker_pairs", "ps-worker pairs of gangs that have room.", pairs)
    yield gauge(
        "kohort_cross_node_pairs",
        "ps-worker pairs of gangs that have room whose two pods are on different nodes.",
        across,
    )


def _prices(prices: Mapping[str, float]) -> Metric:
    text = "Present price of one unit of the resource, the mean over the nodes; only under a policy with prices."
    family = GaugeMetricFamily("kohort_price", text, labels=["resource", "unit"])
    for name in sorted(prices)[:RESOURCES]:
        unit = unit_of(name)
        family.add_metric([name, unit.name], prices[name] * unit.size)
    return family
