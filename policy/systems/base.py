"""What a scheduling system is to the rest of Kohort."""

from __future__ import annotations

from typing import Protocol

from policy.cluster.actions import Decision
from policy.cluster.snapshot import Snapshot


class Policy(Protocol):
    """A scheduling system.

    1. It is a frozen bag of parameters; what it must remember lives in ``snapshot.memory`` and changes by ``Remember``.
    2. ``decide`` reads the snapshot and the time it is given, and nothing else.
    3. The actions are applied in their order and as a whole: an Admit may count on the Resize before it.
    4. There is a verdict for every waiting job that is not admitted.
    """

    @property
    def name(self) -> str:
        """The name under which the configuration selects it."""
        ...

    def decide(self, snapshot: Snapshot, now: float) -> Decision:
        """What to do now. ``now``: seconds since the epoch."""
        ...
