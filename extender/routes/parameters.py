"""The parameters of REST's requests, each with its bounds. An unknown parameter is an error."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Header, Path
from pydantic import BaseModel, ConfigDict, Field

from extender.http.headers import CLIENT_HEADER, CONTROLLER
from extender.routes.problems import Paged
from policy.systems import SYSTEMS

LONGEST_POLL_SECONDS: Final = 60.0
MOST_DECISIONS: Final = 1000


Namespace = Annotated[str, Path(description="The job's namespace.")]
Name = Annotated[str, Path(description="The job's name; of several kinds with one name, the job that came last.")]
Client = Annotated[
    str,
    Header(alias=CLIENT_HEADER, description=f"`{CONTROLLER}`, from the controller alone: that is its sign of life."),
]
LastEvent = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        description="The id of the last event that was seen: the stream goes on behind it. Without it: from now on.",
    ),
]


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoParameters(_Parameters):
    """No parameters: any parameter that is given is an error."""


class DesiredParameters(_Parameters):
    """Parameters of the long poll.

    With ``after`` the answer waits until the generation is above it, but no longer than ``timeout_seconds``.
    """

    after: int = Field(-1, ge=-1, description="The generation that was told last: the answer waits for another one.")
    timeout_seconds: float = Field(
        0.0,
        ge=0.0,
        le=LONGEST_POLL_SECONDS,
        allow_inf_nan=False,
        description="How long the answer waits at most while the generation is `after`; 0: not at all.",
    )


class DecisionsParameters(_Parameters):
    """``since``: return entries after this sequence number; without it, the newest entries."""

    since: int | None = Field(None, ge=0, description="The entries after this number; without it the newest.")
    limit: int = Field(MOST_DECISIONS, ge=1, le=MOST_DECISIONS, description="Entries at most.")


class ExplainParameters(_Parameters):
    """``unblock``: also say what would admit the job now, when it may start, and what limits its growth.

    That takes dozens of decisions on copies of the ledger.
    """

    unblock: bool = Field(
        False, description="Tell also what would admit the job now, and when it may start; takes longer."
    )


class ComparisonParameters(_Parameters):
    """``policy``: the name of the policy to compare with."""

    policy: str = Field(max_length=100, description=f"The policy that is asked: one of {', '.join(sorted(SYSTEMS))}.")


class QueueParameters(Paged):
    """``expected``: also say when each job may start, which takes longer."""

    expected: bool = Field(False, description="Tell also when each job may start; takes longer.")
