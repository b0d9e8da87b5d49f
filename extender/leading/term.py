"""A term of leading begins when what earlier leaders have written has been read.

Our watches may lag behind, by as much as a dead connection hides: who goes by them gives away the room of pods that
another leader has bound. So the pods are listed first: a consistent read, begun after the Lease named us, and from then
on nobody else's writes are admitted. And the jobs, where the policy remembers: what it decides for good stands on them
(policy/keep.py), and would be decided anew, also by this very process when it has lost the Lease for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.reflector import Reflector
from extender.state.ledger import Ledger
from policy.cluster.events import Led


class Term:
    """Tells the ledger whether it leads. ``elected``: by a Lease; else there has been no other leader."""

    def __init__(self, ledger: Ledger, pods: Reflector, jobs: Sequence[Reflector], *, elected: bool) -> None:
        self._ledger = ledger
        self._pods = pods
        self._jobs = jobs
        self._elected = elected
        self._awaited: Sequence[Reflector] = ()  # we lead, and the ledger is told when these have been read

    def led(self, leading: bool) -> None:
        """Whether the Lease names us has changed."""
        self._awaited = ()
        if not (leading and self._elected):
            self._ledger.step(Led(leading))
            return
        self._awaited = (self._pods, *(self._jobs if self._ledger.policy.keeps else ()))
        for reflector in self._awaited:
            reflector.refresh()
        self.read()

    def read(self) -> None:
        """A list has come to its end."""
        if self._awaited and all(reflector.fresh for reflector in self._awaited):
            self._awaited = ()
            self._ledger.step(Led(True))
