"""The desired state that the controller should bring about."""

from __future__ import annotations

from extender.present.views.base import View
from policy.cluster.orders import NodeOrder, NoteOrder, PodOrder, ReplicaOrder, SuspendOrder


class DesiredView(View):
    """GET /v1/desired: the orders for the controller.

    ``gate`` is null while this replica does not decide (its state is being rebuilt, or it does not lead); then the
    controller leaves the gate as it is. ``instance`` names the process that answers; generations and sequence numbers
    of another instance are not comparable.
    """

    instance: str
    generation: int
    gate: bool | None
    ungate: tuple[PodOrder, ...] = ()
    wake: tuple[PodOrder, ...] = ()
    nominate: tuple[PodOrder, ...] = ()
    renumber: tuple[PodOrder, ...] = ()
    scheduled: tuple[PodOrder, ...] = ()
    replicas: tuple[ReplicaOrder, ...] = ()
    suspend: tuple[SuspendOrder, ...] = ()
    release: tuple[PodOrder, ...] = ()
    evict: tuple[PodOrder, ...] = ()
    checkpoint: tuple[PodOrder, ...] = ()
    note: tuple[NoteOrder, ...] = ()
    mark: tuple[NodeOrder, ...] = ()
