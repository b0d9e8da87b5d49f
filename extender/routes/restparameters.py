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
Name = Annotated[
    str, Path(description="The job's name; where several kinds have a job of that name, the job that arrived last.")
]
Client = Annotated[
    str,
    Header(alias=CLIENT_HEADER, description=f"`{CONTROLLER}`: sent by the controller alone, as its heartbeat."),
]
LastEvent = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        description="The id of the last event that the client has seen; the stream goes on after it. Default: now.",
    ),
]


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoParameters(_Parameters):
    """A route without parameters: any parameter in a request is an error."""


class DesiredParameters(_Parameters):
    """Parameters of the long poll for the desired state.

    With ``after``, the answer waits until the generation is above that number, but at most ``timeout_seconds``.
    """

    after: int = Field(-1, ge=-1, description="The generation that the client has; the answer waits for another one.")
    timeout_seconds: float = Field(
        0.0,
        ge=0.0,
        le=LONGEST_POLL_SECONDS,
        allow_inf_nan=False,
        description="The longest time that the answer waits while the generation is `after`; 0: it does not wait.",
    )


class DecisionsParameters(_Parameters):
    """Parameters of the decisions. ``since``: return entries after this sequence number; default: the newest ones."""

    since: int | None = Field(
        None, ge=0, description="Return the entries after this number; default: the newest entries."
    )
    limit: int = Field(
        MOST_DECISIONS, ge=1, le=MOST_DECISIONS, description="The largest number of entries in the answer."
    )


class ExplainParameters(_Parameters):
    """Parameters of explain.

    ``unblock``: also say what would admit the job now, when it may start, and what limits its growth. That takes dozens
    of trial decisions on copies of the ledger.
    """

    unblock: bool = Field(
        False, description="Also say what would admit the job now, and when it may start; this takes longer."
    )


class ComparisonParameters(_Parameters):
    """Parameters of the comparison. ``policy``: the name of the policy to compare with."""

    policy: str = Field(max_length=100, description=f"The policy to compare with: one of {', '.join(sorted(SYSTEMS))}.")


class QueueParameters(Paged):
    """Parameters of the queue. ``expected``: also say when each job may start, which takes longer."""

    expected: bool = Field(False, description="Also say when each job may start; this takes longer.")
