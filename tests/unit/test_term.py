"""A term of leading: a policy that remembers decides when the jobs have been read anew, another at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from extender.clock import Clock
from extender.leading.term import Term
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.snapshot import Rules
from policy.systems import make_policy


class Reader:
    """A reflector as far as a term needs one."""

    def __init__(self) -> None:
        self.asked = 0
        self.read = 0

    @property
    def fresh(self) -> bool:
        return self.read == self.asked

    def refresh(self) -> None:
        self.asked += 1

    def ends(self, term: Term) -> None:
        """The list comes to its end."""
        self.read = self.asked
        term.read()


def made(policy: str) -> tuple[Term, Ledger, Sequence[Reader]]:
    ledger = Ledger(make_policy(policy), Rules(), Clock(), Journal())
    readers: Any = (Reader(), Reader())
    term = Term(ledger, readers)
    term.led(False)
    return term, ledger, readers


def test_what_remembers_nothing_begins_at_once() -> None:
    term, ledger, readers = made("kod2")
    term.led(True)
    assert ledger.snapshot.leading
    assert [reader.asked for reader in readers] == [0, 0]


@pytest.mark.parametrize("policy", ["oasis", "specon", "kod2+specon"])
def test_what_remembers_begins_when_every_kind_has_been_read(policy: str) -> None:
    term, ledger, (one, other) = made(policy)
    for asked in (1, 2):  # each term anew
        term.led(True)
        assert (one.asked, other.asked) == (asked, asked)
        one.ends(term)
        assert not ledger.snapshot.leading
        other.ends(term)
        assert ledger.snapshot.leading
        term.led(False)
        assert not ledger.snapshot.leading


def test_a_term_that_is_over_before_the_jobs_were_read_never_began() -> None:
    term, ledger, (one, other) = made("oasis")
    term.led(True)
    one.ends(term)
    term.led(False)
    other.ends(term)
    assert not ledger.snapshot.leading
