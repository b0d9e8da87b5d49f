"""Declares the types of the functions by which the controller reads from the extender's REST and posts to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

View = TypeVar("View", bound=BaseModel)


class ExtenderError(Exception):
    """The extender did not answer, or its answer cannot be used."""


Fetch = Callable[[str, Mapping[str, str], float], Awaitable[bytes]]
"""A function that sends GET with a path, a query and the seconds to wait, and returns the body of a 200. Raises
ExtenderError.
"""


Post = Callable[[str, bytes, float], Awaitable[None]]
"""A function that posts a JSON body to a path and waits so many seconds for the answer. Raises ExtenderError."""


def read_view(kind: type[View], body: bytes) -> View:
    """Return the JSON body of an answer of the extender as a model of class ``kind``.

    Raises ExtenderError where the body does not fit the model.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise ExtenderError(
            f"the extender's answer is not a {kind.__name__} of this version: {error.errors()[0]['msg']}"
        ) from None
