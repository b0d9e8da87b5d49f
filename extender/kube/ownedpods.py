"""Holds what is known of the pods that name one owner (a job or a pod group) by its object's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from policy.cluster.model import WORKER, Job, Phase, Pod, Role, Slot


@dataclass(frozen=True, slots=True)
class OwnedPod:
    """A pod that names its owner.

    ``slot``: the slot that its labels state, None where they state none. ``role``: for a pod of a group, the role that
    it names, with its requests. ``bound_slot``: the slot in which it was bound. ``lone``: the gang of one pod that it
    forms if its group does not need it. ``invalid``: the reason why its spec cannot be planned, empty if it can.
    ``replaced``: whether a controller creates a new pod when this one is deleted.
    """

    pod: Pod
    slot: Slot | None = None
    role: Role | None = None
    bound_slot: Slot | None = None
    lone: Job | None = None
    invalid: str = ""
    replaced: bool = True

    @property
    def keeps_slot(self) -> bool:
        """Tell whether the pod keeps its slot: a failed or deleted pod leaves its slot to its successor."""
        return self.pod.phase is not Phase.FAILED and not self.pod.terminating

    @property
    def role_name(self) -> str:
        """Return the name of the pod's role: the one that it states, or worker."""
        return self.role.name if self.role is not None else WORKER


@dataclass(slots=True)
class OwnedPods:
    """The pods of one owner.

    ``job``: the owner as its object states it, None while there is no such object. ``least``: the number of pods that a
    group needs, None for a job. ``assigns_slots``: the pods have no index, so that Kohort assigns slots. ``pods``: the
    pods as they were read, by uid. ``slots``: the slots that Kohort has assigned, by pod uid. ``published``: the pods
    as the last events stated them, by uid. ``gang``: a group's gang as the last event stated it.
    """

    job: Job | None = None
    least: int | None = None
    assigns_slots: bool = False
    pods: dict[str, OwnedPod] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    published: dict[str, Pod] = field(default_factory=dict)
    gang: Job | None = None

    def live(self) -> list[str]:
        """Return the uids of the pods that can have a slot: bound ones first, then the oldest first."""
        pods = [member.pod for member in self.pods.values() if member.keeps_slot]
        return [pod.uid for pod in sorted(pods, key=lambda pod: (not pod.node, pod.since, pod.name))]

    def members(self) -> list[OwnedPod]:
        """Return the pods that have an assigned slot and keep it, in the order of their slots."""
        return [self.pods[uid] for uid in sorted(self.slots, key=self.slots.__getitem__) if self.pods[uid].keeps_slot]
