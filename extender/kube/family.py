"""The pods that name one job or group by its object's name, as they are known now."""

from __future__ import annotations

from dataclasses import dataclass, field

from policy.cluster.model import WORKER, Job, Phase, Pod, Role, Slot


@dataclass(frozen=True, slots=True)
class Kin:
    """One pod: ``slot`` as it tells it itself; ``role``: what it asks for, and the role that it says it has.

    ``wish``: the slot in which it was bound. ``lone``: the gang of one that it is where its group needs no more.
    """

    pod: Pod
    slot: Slot | None = None
    role: Role | None = None
    wish: Slot | None = None
    lone: Job | None = None
    invalid: str = ""
    replaced: bool = True

    @property
    def stays(self) -> bool:
        """Whether it is there to take a place: a failed or deleted one leaves it to its successor."""
        return self.pod.phase is not Phase.FAILED and not self.pod.terminating

    @property
    def named(self) -> str:
        """Its role: as it says, else a worker."""
        return self.role.name if self.role is not None else WORKER


@dataclass(slots=True)
class Family:
    """The pods that name one job. ``job``: as its object states it; ``least``: of a group, the pods that it needs."""

    job: Job | None = None
    least: int | None = None
    allots: bool = False
    kin: dict[str, Kin] = field(default_factory=dict)
    places: dict[str, Slot] = field(default_factory=dict)
    told: dict[str, Pod] = field(default_factory=dict)
    gang: Job | None = None

    def live(self) -> list[str]:
        """Pods that can have a place, the bound ones first, then by age."""
        pods = [kin.pod for kin in self.kin.values() if kin.stays]
        return [pod.uid for pod in sorted(pods, key=lambda pod: (not pod.node, pod.since, pod.name))]

    def members(self) -> list[Kin]:
        """Who has a place and stays, by place."""
        return [self.kin[uid] for uid in sorted(self.places, key=self.places.__getitem__) if self.kin[uid].stays]
