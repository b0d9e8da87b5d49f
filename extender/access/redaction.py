"""Removes from an answer what belongs to namespaces that the caller may not read.

Entries of such namespaces are left out and not counted. If another entry names such a job (the job ahead, the job for
which another was shrunk, a job that would have to end), the name is replaced by `OTHER_JOB`. Every text is searched for
``namespace/name``, so that a sentence that is added to the code later discloses no name either. Two facts about hidden
jobs stay visible: how many jobs are ahead in the queue, and what is free on nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

from extender.access.visibility import Visibility
from extender.present.views.base import JobName, View
from extender.present.views.cluster import NodeMemberView, NodeView
from extender.present.views.decisions import DecisionView
from extender.present.views.refused import RefusedView
from extender.state.journal import Entry
from policy.answers.explanation import Ahead, HeldRoom

OTHER_JOB: Final = "a job of another namespace"
OTHER_POD: Final = "a pod of another namespace"
COMES_FIRST: Final = "comes first"
REFUSED: Final = f"the API server refuses a write of {OTHER_JOB}"
_KEY: Final = re.compile(r"(?<![\w./-])([a-z0-9][-a-z0-9]{0,62})/[\w.-]+")
# A decision that resizes a job for the benefit of another job has inputs under these keys; their values are figures of
# that other job.
_OF_RIVAL: Final = ("it needs", "its weight")
ViewT = TypeVar("ViewT")


class Redaction:
    """Removes from REST's answers and from the page what one caller may not read."""

    def __init__(self, visibility: Visibility) -> None:
        """Store what the caller may read; a caller who may read all namespaces gets unchanged answers."""
        self.visibility = visibility

    def text(self, told: str, other: str = OTHER_JOB) -> str:
        """Return the text ``told`` with each ``namespace/name`` of a hidden namespace replaced by ``other``."""
        if self.visibility.every or "/" not in told:
            return told
        return _KEY.sub(lambda found: found[0] if self.visibility.sees(found[1]) else other, told)

    def view(self, view: ViewT) -> ViewT:
        """Return the view or dataclass without the parts that the caller may not read."""
        if self.visibility.every:
            return view
        if isinstance(view, RefusedView) and self.text(view.job) != view.job:
            return view.model_copy(update={"job": OTHER_JOB, "text": REFUSED})
        if isinstance(view, Ahead) and self.text(view.job) != view.job:
            return replace(view, job=OTHER_JOB, why=COMES_FIRST)
        if isinstance(view, View):
            uncounted = {"other_pods": 0} if isinstance(view, NodeView) else {}
            return view.model_copy(update={name: self._field(name, value) for name, value in view} | uncounted)
        parts: Any = view
        shown = {one.name: self._field(one.name, getattr(view, one.name)) for one in fields(parts)}
        return cast(ViewT, replace(parts, **shown))

    def entries(self, views: Iterable[ViewT]) -> tuple[ViewT, ...]:
        """Return the views that the caller may read, each redacted.

        A list must be redacted before it is divided into pages, so that hidden entries are not counted.
        """
        if self.visibility.every:
            return tuple(views)
        return tuple(self.view(view) for view in views if self._shown(view))

    def journal(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the journal's entries about namespaces that the caller may read, also those about deleted jobs."""
        if self.visibility.every:
            return list(entries)
        return [entry for entry in entries if self.visibility.sees(entry.subject.namespace)]

    def decisions(self, entries: Iterable[Entry], views: Iterable[DecisionView]) -> tuple[DecisionView, ...]:
        """Return the views that the caller may read, each redacted. ``entries``: the journal's entries from which the
        views were made.
        """
        seen = {entry.sequence for entry in self.journal(entries)}
        return tuple(self.view(view) for view in views if view.sequence in seen)

    def warnings(self, told: Iterable[str]) -> tuple[str, ...]:
        """Return only the name of each warning's check, because its figures count the jobs of all namespaces."""
        if self.visibility.every:
            return tuple(told)
        return tuple(f"{one.partition(':')[0]}: ask an administrator of Kohort to look at it" for one in told)

    def inputs(self, told: Mapping[str, str]) -> dict[str, str]:
        """Return the inputs of a decision, without the figures of the job in whose favour it was made if that job is
        hidden.
        """
        ours = self.text(told.get("for", "")) == told.get("for", "")
        return {name: self.text(value) for name, value in told.items() if ours or name not in _OF_RIVAL}

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, View) or is_dataclass(value):
            return self.view(value)
        if isinstance(value, tuple | list):
            if name == "waits_for":
                return tuple(self.text(one, OTHER_POD) for one in value)
            return tuple(self._field(name, one) for one in value if self._shown(one))
        if isinstance(value, Mapping):
            return self.inputs(value) if name == "inputs" else self._mapping(value)
        return value

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._field(key, one) for key, one in value.items()}

    def _shown(self, value: object) -> bool:
        if isinstance(value, JobName):
            return self.visibility.sees(value.namespace)
        if isinstance(value, HeldRoom | NodeMemberView):
            return self.visibility.sees(value.job.partition("/")[0])
        return True
