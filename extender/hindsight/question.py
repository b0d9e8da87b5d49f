"""What the service and the comparing process say to one another."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from extender.present.views.comparison import ComparisonView


class Question(BaseModel):
    """folder: of the journal. seconds, bytes: what it may take."""

    folder: str
    policy: str
    parameters: dict[str, Any] = {}
    seconds: float
    bytes: int


class Answer(BaseModel):
    """found, or the reason why there is none."""

    found: ComparisonView | None = None
    error: str = ""
