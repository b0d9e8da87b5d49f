"""The base class of all views, and parts that many of them share."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field


class View(BaseModel):
    """An answer of REST, or a part of one. Parsing ignores unknown fields, so older clients can read newer answers."""

    model_config = ConfigDict(frozen=True)


WARNINGS: Final = (
    "Why the list may be incomplete, or why no decision is made: the service starts, does not lead, or lacks something."
)


class ListView(View):
    """A list at one revision of the ledger.

    If the request had a ``limit``, ``continue`` is the value of that parameter for the next page.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    generation: int
    warnings: tuple[str, ...] = Field((), description=WARNINGS)
    continues: str = Field("", alias="continue", description="Empty at the end of the list.")
    remaining: int = Field(0, description="The number of entries after this page.")


class JobName(View):
    """The namespace, name, kind and UID of a job, as the API server knows them."""

    namespace: str
    name: str
    kind: str
    uid: str

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"
