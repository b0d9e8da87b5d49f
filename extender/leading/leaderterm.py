"""Begins a term of leading once everything that earlier leaders wrote has been read.

Our watches may lag behind, for as long as a dead connection goes unnoticed. A leader that decided by them would give
away the room of pods that another leader has bound. So the pods are listed first, by a consistent read that begins
after the Lease named this replica, because from then on the API server refuses the writes of other replicas. The jobs
are listed too if the policy decides about each job once, when it comes: such decisions are recorded on the jobs
(policy/keep.py). Without that list a new term would make these decisions a second time, even in the same process when
it had lost the Lease for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.reflector import Reflector
from extender.state.ledger import Ledger
from policy.cluster.events import Led


class LeaderTerm:
    """Tells the ledger whether this replica leads, and delays the news of a new term until the lists have been read.

    ``elected``: whether a Lease decides; if not, there is never another leader, and no list is read.
    """

    def __init__(self, ledger: Ledger, pods: Reflector, jobs: Sequence[Reflector], *, elected: bool) -> None:
        self._ledger = ledger
        self._pods = pods
        self._jobs = jobs
        self._elected = elected
        # _awaited has the reflectors whose lists must be read before the ledger learns that we lead
        self._awaited: Sequence[Reflector] = ()

    def led(self, leading: bool) -> None:
        """End our term if the Lease no longer names us; if it does, list what the new term needs.

        ``leading``: whether the Lease names us now.
        """
        self._awaited = ()
        if not (leading and self._elected):
            self._ledger.step(Led(leading))
            return
        self._awaited = (self._pods, *(self._jobs if self._ledger.policy.keeps else ()))
        for reflector in self._awaited:
            reflector.refresh()
        self.read()

    def read(self) -> None:
        """Begin the term if all lists that it needs have been read; to be called whenever a list has been read."""
        if self._awaited and all(reflector.fresh for reflector in self._awaited):
            self._awaited = ()
            self._ledger.step(Led(True))
