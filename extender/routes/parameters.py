"""What REST's questions may say: each parameter with its bounds; another one is an error."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from extender.routes.problems import Paged

LONGEST_POLL_SECONDS: Final = 60.0
MOST_DECISIONS: Final = 1000


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DesiredParameters(_Parameters):
    """``after``: answer once the generation is above it, at the latest after ``timeout_seconds``."""

    after: int = Field(-1, ge=-1)
    timeout_seconds: float = Field(0.0, ge=0.0, le=LONGEST_POLL_SECONDS, allow_inf_nan=False)


class DecisionsParameters(_Parameters):
    """``since``: entries after this sequence number; without it the newest."""

    since: int | None = Field(None, ge=0, description="the entries after this number; without it the newest")
    limit: int = Field(MOST_DECISIONS, ge=1, le=MOST_DECISIONS, description="so many at most")


class ExplainParameters(_Parameters):
    """``unblock``: tell also what would admit the job now, when it may start, and what holds its growth back.

    That takes dozens of decisions on copies.
    """

    unblock: bool = False


class ComparisonParameters(_Parameters):
    """``policy``: the one that is asked, by its name."""

    policy: str = Field(max_length=100, description="kod2, drs, dragon ...")


class QueueParameters(Paged):
    """``expected``: tell also when each job may start, which takes longer."""

    expected: bool = False
