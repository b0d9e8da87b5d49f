"""What is wrong with a request."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import View


class ProblemView(View):
    """What is wrong with a request (RFC 9457): the field, its value, and what is allowed, where it is a field."""

    type: str = "about:blank"
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong, and what is allowed.")
    field: str = ""
    value: str = ""
    allowed: str = ""
