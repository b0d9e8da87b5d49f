"""A write that the API server has refused, with the API server's message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BIND: Final = "Bind"
SET_REPLICAS: Final = "SetReplicas"

WRITES: Final = {
    BIND: "bind",
    SET_REPLICAS: "resize",
    "Suspend": "suspend or resume",
    "Note": "annotate",
    "Release": "delete",
    "Evict": "evict",
    "Ungate": "remove the scheduling gate of",
    "Nominate": "nominate a node for",
    "Wake": "annotate",
    "AskToSave": "annotate",
    "Renumber": "annotate",
    "MarkScheduled": "write the condition of",
    "MarkNode": "annotate node",
    "SetGate": "switch",
}
"""For each kind of write, the verb with which messages name it."""
MOST_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """One write that was refused.

    write: what kind of write it is, a key of ``WRITES``.
    uid: uid of the object to be written; empty for the switch of the admission gate.
    message: the API server's message.
    lasting: whether the same write would be refused again, for example by an admission policy; a conflict or a lost
    answer is not lasting.
    name: the object's ``namespace/name``, or the name of a node; empty for the switch of the admission gate.
    """

    write: str
    uid: str
    message: str
    lasting: bool = False
    name: str = ""

    @property
    def text(self) -> str:
        """The refusal as one sentence for people, with the API server's message."""
        what = self.name or "the admission gate"
        return f"the API server refused to {WRITES.get(self.write, self.write)} {what}: {self.message}"


def shortened(message: str) -> str:
    """Return the API server's message on one line of at most ``MOST_CHARACTERS`` characters."""
    line = " ".join(message.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
