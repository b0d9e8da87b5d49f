"""A term of leading begins when what earlier leaders have written on the jobs has been read.

What a policy decides for good stands on the job objects (policy/keep.py). Our watch of them may lag behind, by as much
as a dead connection hides: who goes by it decides anew what another leader has decided, or this very process before it
lost the Lease for a moment. So the jobs are listed first: a consistent read, begun after the Lease named us, and from
then on nobody else's writes are admitted. A policy that remembers nothing begins at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.reflector import Reflector
from extender.state.ledger import Ledger
from policy.cluster.events import Led
from policy.systems.base import Keeps


class Term:
    """Tells the ledger whether it leads; ``reflectors`` are those of jobs."""

    def __init__(self, ledger: Ledger, reflectors: Sequence[Reflector]) -> None:
        self._ledger = ledger
        self._reflectors = reflectors
        self._awaited = False  # we lead, and the ledger has not been told yet

    def led(self, leading: bool) -> None:
        """Whether the Lease names us has changed."""
        self._awaited = leading and isinstance(self._ledger.policy, Keeps)
        if not self._awaited:
            self._ledger.step(Led(leading))
            return
        for reflector in self._reflectors:
            reflector.refresh()
        self.read()

    def read(self) -> None:
        """A list has come to its end."""
        if self._awaited and all(reflector.fresh for reflector in self._reflectors):
            self._awaited = False
            self._ledger.step(Led(True))
