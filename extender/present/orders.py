"""Makes the view of the desired state, which the controller should bring about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeVar

from extender.present.names import api_uid
from extender.present.views.orders import DesiredView
from policy.cluster.orders import Desired, NoteOrder, ReplicaOrder, SuspendOrder
from policy.cluster.snapshot import Snapshot

Order = TypeVar("Order", ReplicaOrder, SuspendOrder, NoteOrder)
GateSetting = Literal["when-queued", "always", "never"]


def desired_view(snapshot: Snapshot, wanted: Desired, gate: GateSetting, instance: str) -> DesiredView:
    """Return the orders for the controller as REST's answer.

    gate: the setting that says whether pods get the scheduling gate; the view's ``gate`` is None while this replica has
    not read all lists or does not lead. instance: the name of this process.
    """
    decides = snapshot.synced and snapshot.leading
    on = {"always": True, "never": False, "when-queued": wanted.gate}[gate]
    return DesiredView(
        instance=instance,
        generation=snapshot.generation,
        gate=on if decides else None,
        ungate=wanted.ungate,
        wake=wanted.wake,
        nominate=wanted.nominate,
        renumber=wanted.renumber,
        scheduled=wanted.scheduled,
        replicas=_on_objects(wanted.replicas),
        suspend=_on_objects(wanted.suspend),
        release=wanted.release,
        evict=wanted.evict,
        checkpoint=wanted.checkpoint,
        note=_on_objects(wanted.note),
        mark=wanted.mark,
    )


def _on_objects(orders: Iterable[Order]) -> tuple[Order, ...]:
    """Return the orders with the UIDs of jobs as the API server has them, in place of the ledger's
    ``namespace/UID``.
    """
    return tuple(replace(order, uid=api_uid(order.namespace, order.uid)) for order in orders)
