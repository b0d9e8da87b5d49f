"""The view of an error: the answer to a request that cannot be served."""

from __future__ import annotations

from pydantic import Field

from extender.present.views.base import View


class ProblemView(View):
    """What is wrong with a request (RFC 9457). If a field is wrong: its name, its value, and what is allowed."""

    type: str = Field("about:blank", description="Always about:blank: the title says what is wrong.")
    title: str = Field(description="The HTTP status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what is allowed.")
    field: str = Field(
        "", description="The field that is wrong: a parameter, a key of the body, `body`, `path` or `method`."
    )
    value: str | bool | int | float = Field(
        "", description="The value of that field, as text of at most 100 characters; empty where it is missing."
    )
    allowed: str = Field("", description="The values that are allowed for that field.")
