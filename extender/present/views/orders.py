"""What the controller should make true."""

from __future__ import annotations

from extender.present.views.base import View
from policy.cluster.orders import NoteOrder, PodOrder, ReplicaOrder, SuspendOrder


class DesiredView(View):
    """GET /v1/desired.

    ``gate`` is null while this replica does not decide (it is being rebuilt, or does not lead): then the gate stays as
    it is. ``instance`` names the process that answers: where it changes, generations and sequence numbers begin anew.
    """

    instance: str
    generation: int
    gate: bool | None
    ungate: tuple[PodOrder, ...] = ()
    wake: tuple[PodOrder, ...] = ()
    nominate: tuple[PodOrder, ...] = ()
    renumber: tuple[PodOrder, ...] = ()
    replicas: tuple[ReplicaOrder, ...] = ()
    suspend: tuple[SuspendOrder, ...] = ()
    release: tuple[PodOrder, ...] = ()
    evict: tuple[PodOrder, ...] = ()
    checkpoint: tuple[PodOrder, ...] = ()
    note: tuple[NoteOrder, ...] = ()
