"""The messages between the service and the comparing process."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from extender.present.views.comparison import ComparisonView


class ComparisonRequest(BaseModel):
    """A request to compare. ``folder``: of the journal; ``seconds`` and ``bytes``: how much time and memory it may
    take.
    """

    folder: str
    policy: str
    parameters: dict[str, Any] = {}
    seconds: float
    bytes: int


class ComparisonAnswer(BaseModel):
    """The comparison, or the reason why there is none."""

    found: ComparisonView | None = None
    error: str = ""
