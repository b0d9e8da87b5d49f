"""The base class of all sections of the settings file."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _refuse_boolean(value: object) -> object:
    """Return the value unless it is a boolean.

    Raises ValueError for a boolean, because pydantic would read YAML's `yes` as the number 1.
    """
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


NUMBER: Final = BeforeValidator(_refuse_boolean)


class Section(BaseModel):
    """The base class of all sections of the settings: an unknown key is an error, and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
