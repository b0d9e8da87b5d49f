"""Gangs of journals since commit 5595fa4 become those of today. They had one flat list of parts and a bare deadline."""

import json
import re
from typing import Any

import pytest

from extender.state.codec import CodecError, plain, value_of
from policy.cluster.constraints import Constraints, Requirement, Term
from policy.cluster.gang import NEVER_SCALED, NO_FAILURE, Deadline, Gang, HeldBinds, Scaling, State, Tries
from policy.cluster.job import Role, Slot
from policy.cluster.lifecycle import Awaits
from policy.cluster.resources import NOTHING

SLOT = Slot("worker", 0)


def written(state: str, **changes: object) -> dict[str, Any]:
    """Return the JSON that commit 5595fa4 wrote for a gang in that state, with these fields changed."""
    parts: dict[str, object] = {
        "job_uid": "j", "plan": "", "nodes": {}, "workers": 0, "ps": None, "ps_next": None, "least": 0, "whole": True,
        "waits_for": (), "held": {}, "in_flight": {}, "window_ends": None, "hold_ends": None, "deadline": None,
        "awaited": 0, "saving": False, "retried": False, "attempts": 0, "misses": 0, "not_before": 0.0,
        "admitted_at": None, "scaled_at": None, "grew": None, "on_behalf_of": "", "turns": (), "kept_at": None,
        "targets": (),
    } | changes  # fmt: skip
    head = {"is": "policy.cluster.gang:Gang", "state": {"is": "policy.cluster.gang:State", "value": state}}
    return head | {name: plain(part) for name, part in parts.items()}


FORMS: dict[str, tuple[dict[str, Any], Gang]] = {
    "one that waits": (written("waiting"), Gang("j")),
    "one that backs off": (
        written("waiting", attempts=2, misses=1, not_before=9.0),
        Gang("j", tries=Tries(attempts=2, misses=1, not_before=9.0)),
    ),
    "a plan whose room is being freed": (
        written("planned", deadline=7.0, workers=1, nodes={SLOT: "n"}, waits_for=("p",)),
        Gang("j", State.PLANNED, nodes={SLOT: "n"}, workers=1, waits_for=("p",), deadline=Deadline(Awaits.ROOM, 7.0)),
    ),
    "a plan with a bind at the barrier": (
        written("planned", deadline=7.0, held={"p": SLOT}, window_ends=5.0, hold_ends=6.0, retried=True),
        Gang(
            "j", State.PLANNED, barrier=HeldBinds({"p": SLOT}, 5.0, 6.0), tries=Tries(retried=True),
            deadline=Deadline(Awaits.MEMBERS, 7.0),
        ),
    ),
    "one that is moved, and saves": (
        written("migrating", deadline=7.0, saving=True, awaited=2),
        Gang("j", State.MIGRATING, awaited=2, deadline=Deadline(Awaits.CHECKPOINT, 7.0)),
    ),
    "one that was resized": (
        written("running", scaled_at=3.0, grew=False, on_behalf_of="k", turns=(1.0,), targets=(4,), before=4, lost={}),
        Gang(
            "j", State.RUNNING,
            scaling=Scaling(scaled_at=3.0, grew=False, on_behalf_of="k", turns=(1.0,), targets=(4,), before=4),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("form", "gang"), FORMS.values(), ids=FORMS.keys())
def test_a_gang_of_an_earlier_version_is_read(form: dict[str, Any], gang: Gang) -> None:
    assert value_of(form) == gang
    assert value_of(plain(gang)) == gang


@pytest.mark.parametrize(
    ("state", "parts", "awaits"),
    [
        ("waiting", {}, Awaits.OUTCOMES),
        ("planned", {}, Awaits.MEMBERS),
        ("binding", {}, Awaits.BINDINGS),
        ("running", {}, Awaits.OUTCOMES),
        ("running", {"awaited": 1}, Awaits.GROWTH),
        ("migrating", {"awaited": 1}, Awaits.MIGRATION),
        ("paused", {}, Awaits.OUTCOMES),
        ("repairing", {}, Awaits.REPAIR),
        ("releasing", {}, Awaits.RELEASE),
        ("completed", {}, Awaits.OUTCOMES),
    ],
)
def test_a_bare_deadline_is_that_of_what_its_state_waits_for(state: str, parts: Any, awaits: Awaits) -> None:
    assert value_of(written(state, deadline=7.0, **parts)).deadline == Deadline(awaits, 7.0)


def test_a_gang_that_cannot_be_is_not_read() -> None:
    with pytest.raises(CodecError, match="a gang that is waiting must not have a plan"):
        value_of(written("waiting", workers=3))


def test_parts_that_were_never_written_are_those_of_a_new_gang() -> None:
    assert (Gang("j").tries, Gang("j").scaling) == (NO_FAILURE, NEVER_SCALED)


@pytest.mark.parametrize("name", ["Slot", "Role", "Constraints", "Requirement"])
def test_a_class_that_was_in_another_module_is_read(name: str) -> None:
    role = Role("worker", 2, NOTHING, Constraints(terms=(Term((Requirement("zone", "In", ("a",)),), ()),)))
    value = (role, Slot("worker", 1))
    now = json.dumps(plain(value))
    earlier = re.sub(r"policy[.]cluster[.](constraints|job):", "policy.cluster.model:", now)
    assert f"policy.cluster.model:{name}" in earlier
    assert value_of(json.loads(earlier)) == value
