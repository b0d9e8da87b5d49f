"""The messages between the service and the comparing process."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from extender.present.views.comparison import ComparisonView


class ComparisonRequest(BaseModel):
    """A request to compare the policy of the journal in ``folder`` with ``policy``, which gets ``parameters``.

    ``seconds``, ``bytes``: how much time and memory the comparison may take.
    """

    folder: str
    policy: str
    parameters: dict[str, Any] = {}
    seconds: float
    bytes: int


class ComparisonAnswer(BaseModel):
    """The comparison, or in ``error`` the reason why there is none."""

    found: ComparisonView | None = None
    error: str = ""
