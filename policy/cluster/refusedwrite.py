"""A write that the API server has refused, with its own words."""

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
    "SetGate": "switch",
}
"""Every write by its name, and the verb that people are told for it."""
MOST_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """One write that was refused.

    write: a key of ``WRITES``. uid: of the object that is written; empty for the switch of the admission gate.
    name: ``namespace/name`` of that object, as the ledger knows it. message: what the API server says.
    lasting: the same write would be refused again, as by an admission policy; a conflict or a lost answer may pass.
    """

    write: str
    uid: str
    message: str
    lasting: bool = False
    name: str = ""

    @property
    def text(self) -> str:
        """The refusal as one sentence for people."""
        what = self.name or "the admission gate"
        return f"the API server refused to {WRITES.get(self.write, self.write)} {what}: {self.message}"


def shortened(message: str) -> str:
    """Return the API server's words on one line, no longer than people can read."""
    line = " ".join(message.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
