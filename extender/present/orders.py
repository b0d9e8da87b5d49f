"""What the controller should do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from extender.present.names import api_uid
from extender.present.views import DesiredView, NoteOrderView, PodOrderView, ReplicaOrderView, SuspendOrderView
from policy.cluster.snapshot import Snapshot
from policy.desired import Desired, NoteOrder, PodOrder, ReplicaOrder, SuspendOrder

GateSetting = Literal["when-queued", "always", "never"]


def desired_view(snapshot: Snapshot, wanted: Desired, gate: GateSetting, instance: str) -> DesiredView:
    """The controller's orders; ``gate`` is the setting. While nobody may decide, the gate stays as it is."""
    decides = snapshot.synced and snapshot.leading
    on = {"always": True, "never": False, "when-queued": wanted.gate}[gate]
    return DesiredView(
        instance=instance,
        generation=snapshot.generation,
        gate=on if decides else None,
        ungate=_pod_orders(wanted.ungate),
        wake=_pod_orders(wanted.wake),
        nominate=_pod_orders(wanted.nominate),
        replicas=tuple(_replica_order(order) for order in wanted.replicas),
        suspend=tuple(_suspend_order(order) for order in wanted.suspend),
        release=_pod_orders(wanted.release),
        evict=_pod_orders(wanted.evict),
        checkpoint=_pod_orders(wanted.checkpoint),
        note=tuple(_note_order(order) for order in wanted.note),
    )


def _pod_orders(orders: Iterable[PodOrder]) -> tuple[PodOrderView, ...]:
    return tuple(PodOrderView(uid=o.uid, namespace=o.namespace, name=o.name, value=o.value) for o in orders)


def _replica_order(order: ReplicaOrder) -> ReplicaOrderView:
    return ReplicaOrderView(
        uid=api_uid(order.namespace, order.uid), namespace=order.namespace, name=order.name, kind=order.kind,
        workers=order.workers, replicas=order.replicas, version=order.version,
        min_workers=order.min_workers, max_workers=order.max_workers,
    )  # fmt: skip


def _note_order(order: NoteOrder) -> NoteOrderView:
    return NoteOrderView(
        uid=api_uid(order.namespace, order.uid), namespace=order.namespace, name=order.name, kind=order.kind,
        version=order.version, reports=order.reports, memory=order.memory,
    )  # fmt: skip


def _suspend_order(order: SuspendOrder) -> SuspendOrderView:
    return SuspendOrderView(
        uid=api_uid(order.namespace, order.uid), namespace=order.namespace, name=order.name, kind=order.kind,
        suspend=order.suspend, version=order.version,
    )  # fmt: skip
