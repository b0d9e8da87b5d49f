"""Writes that the API server refuses: as the controller reports them, and as people see them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from extender.present.views.base import View
from policy.cluster.refusedwrite import BIND, MOST_CHARACTERS, WRITES

MOST_REFUSED: Final = 100
OF_CONTROLLER: Final = tuple(name for name in WRITES if name != BIND)


def _known(write: str) -> str:
    if write not in OF_CONTROLLER:
        raise ValueError(f"{write[:40]!r} is not allowed; allowed: {', '.join(OF_CONTROLLER)}")
    return write


class RefusedBody(BaseModel):
    """One write of the controller that the API server refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write: Annotated[str, AfterValidator(_known)] = Field(description="The kind of the write.")
    namespace: str = Field(max_length=63, description="The namespace of the object; empty for the admission gate.")
    uid: str = Field(max_length=500, description="The UID of the job or pod; empty for the admission gate.")
    message: str = Field(max_length=MOST_CHARACTERS, description="The API server's message.")
    lasting: bool = Field(description="Whether the API server would refuse the same write again.")


class RefusedWritesBody(BaseModel):
    """All writes of the controller that are refused now. A write that is not in this list is no longer refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refused: tuple[RefusedBody, ...] = Field(max_length=MOST_REFUSED)


class RefusedView(View):
    """A write that the API server refuses, or that it refused before a plan was given up because of that refusal.

    ``job`` is the job that the write changes (namespace/name). A job that waits for the write's effect shows it too.
    """

    job: str
    write: str = Field(description="The kind of the write: Bind, SetReplicas, Suspend, Ungate and so on.")
    text: str = Field(description="A sentence with the API server's own message.")
