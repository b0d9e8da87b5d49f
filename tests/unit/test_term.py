"""A term of leading: no decision is made before the pods, and for some policies the jobs, have been listed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from extender.clock import Clock
from extender.leading.leaderterm import LeaderTerm
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Rules
from policy.systems import make_policy


class Reader:
    """A stand-in for a reflector that counts the lists that it is asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.read = 0

    @property
    def fresh(self) -> bool:
        return self.read == self.asked

    def refresh(self) -> None:
        self.asked += 1

    def ends(self, term: LeaderTerm) -> None:
        """Report to the term that the list has been read."""
        self.read = self.asked
        term.read()


def made(policy: str, *, elected: bool = True) -> tuple[LeaderTerm, Ledger, Sequence[Reader]]:
    """Return the LeaderTerm of a replica that does not lead yet, its ledger, and stand-ins for three readers.

    ``elected``: whether replicas elect a leader. The readers are those of pods and of two job kinds.
    """
    ledger = Ledger(make_policy(policy), Rules(), Clock(), Journal())
    readers: Any = (Reader(), Reader(), Reader())
    term = LeaderTerm(ledger, readers[0], readers[1:], elected=elected)
    term.led(False)
    return term, ledger, readers


@pytest.mark.parametrize("policy", ["kod2", "oasis"])
def test_who_is_not_elected_leads_at_once(policy: str) -> None:
    term, ledger, readers = made(policy, elected=False)
    term.led(True)
    assert ledger.snapshot.leading
    assert [reader.asked for reader in readers] == [0, 0, 0]


def test_what_remembers_nothing_begins_when_the_pods_have_been_read() -> None:
    term, ledger, (pods, one, other) = made("kod2")
    for asked in (1, 2):  # in each term the pods are listed again
        term.led(True)
        assert not ledger.snapshot.leading
        pods.ends(term)
        assert ledger.snapshot.leading
        assert (pods.asked, one.asked, other.asked) == (asked, 0, 0)
        term.led(False)
        assert not ledger.snapshot.leading


@pytest.mark.parametrize("policy", ["oasis", "specon", "kod2+specon"])
def test_what_remembers_begins_when_every_kind_has_been_read_as_well(policy: str) -> None:
    term, ledger, (pods, one, other) = made(policy)
    for asked in (1, 2):  # in each term the pods are listed again
        term.led(True)
        assert (pods.asked, one.asked, other.asked) == (asked, asked, asked)
        pods.ends(term)
        one.ends(term)
        assert not ledger.snapshot.leading
        other.ends(term)
        assert ledger.snapshot.leading
        term.led(False)
        assert not ledger.snapshot.leading


def test_a_term_that_is_over_before_the_jobs_were_read_never_began() -> None:
    term, ledger, (pods, one, other) = made("oasis")
    term.led(True)
    pods.ends(term)
    one.ends(term)
    term.led(False)
    other.ends(term)
    assert not ledger.snapshot.leading
