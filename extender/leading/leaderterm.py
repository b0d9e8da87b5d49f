"""Begins a term of leading once everything that earlier leaders wrote has been read.

Our watches may lag behind, by as much as a dead connection hides, and a leader that decides by them gives away the room
of pods that another leader has bound. So the pods are listed first: a consistent read, begun after the Lease named us,
and from then on the API server admits nobody else's writes. The jobs are listed too where the policy keeps decisions
for good: these are recorded on the jobs (policy/keep.py), and would be made anew otherwise, even by this same process
when it had lost the Lease for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.reflector import Reflector
from extender.state.ledger import Ledger
from policy.cluster.events import Led


class LeaderTerm:
    """Tells the ledger whether it leads. ``elected``: a Lease decides; otherwise there has been no other leader."""

    def __init__(self, ledger: Ledger, pods: Reflector, jobs: Sequence[Reflector], *, elected: bool) -> None:
        self._ledger = ledger
        self._pods = pods
        self._jobs = jobs
        self._elected = elected
        self._awaited: Sequence[Reflector] = ()  # the lists that must be read before the ledger learns that we lead

    def led(self, leading: bool) -> None:
        """Take in whether the Lease names us now."""
        self._awaited = ()
        if not (leading and self._elected):
            self._ledger.step(Led(leading))
            return
        self._awaited = (self._pods, *(self._jobs if self._ledger.policy.keeps else ()))
        for reflector in self._awaited:
            reflector.refresh()
        self.read()

    def read(self) -> None:
        """Begin the term where a list that has just ended was the last one needed."""
        if self._awaited and all(reflector.fresh for reflector in self._awaited):
            self._awaited = ()
            self._ledger.step(Led(True))
