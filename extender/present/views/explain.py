"""The view that explains one job: the reasons for its state, and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, create_model
from pydantic.dataclasses import dataclass

from extender.present.views.decisions import StepView
from extender.present.views.jobs import JobDetail
from policy.answers.explanation import Explanation

if TYPE_CHECKING:

    class _Explained(JobDetail, Explanation): ...

else:  # create_model is used because with a base class the fields of Explanation would come before those of the job
    _told = dataclass(Explanation, frozen=True).__pydantic_fields__
    _fields = {name: (one.annotation, one) for name, one in _told.items()}
    _Explained = create_model("_Explained", __base__=JobDetail, **_fields)


class ExplainView(_Explained):
    """GET /v1/explain: a job with the reasons for its state, which are the fields of `Explanation`."""

    history: tuple[StepView, ...] = Field((), description="The decisions about the job, oldest first.")
