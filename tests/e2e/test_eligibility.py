"""Kohort binds no pod by itself to a node that kube-scheduler's own plugins would refuse (``barrier.commit: first``).

Pods and nodes are drawn at random. A stock kube-scheduler with Kohort's profile and without Kohort schedules the pods,
and its verdict on each is compared with that of ``policy/placement/eligible.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.eligibility.draw import TRAITS, pairs
from tests.eligibility.ours import BROKEN, broken, refusal
from tests.eligibility.theirs import PLUGINS, Judged, judged

SEED = 22
FEW, MANY = 100, 2040  # of the many, some are refused by the API server
LEAST_JUDGED = 2000
LEAST_BOUND = 0.25  # the share of pairs that both must bind, or the draw would show little
MOST_CAREFUL = 0.35  # the share of pairs that Kohort may leave to kube-scheduler although it would bind them


@dataclass(frozen=True, slots=True)
class Compared:
    """The pairs of a seed with both verdicts.

    ours: why Kohort refuses each pair, empty where it binds. refused: why the API server refused a pair's pod, by the
    pair's name.
    """

    pairs: Sequence[Judged]
    ours: Sequence[str]
    refused: dict[str, str]

    def where(self, *, we_bind: bool, it_binds: bool) -> list[str]:
        """Return a line on each pair with these verdicts."""
        return [
            f"{one.pair.name} ({', '.join(one.pair.traits)}): we: {words or 'bind'}; it: {one.refusal or 'binds'}"
            for one, words in zip(self.pairs, self.ours, strict=True)
            if (not words, not one.refusal) == (we_bind, it_binds)
        ]

    def told(self) -> str:
        """Return the figures in words, and why Kohort refuses the pairs that kube-scheduler would bind."""
        both, neither = (self.where(we_bind=same, it_binds=same) for same in (True, False))
        careful, wrong = self.where(we_bind=False, it_binds=True), self.where(we_bind=True, it_binds=False)
        count = len(self.pairs)
        plugins = Counter(name for one in self.pairs for name in one.plugins)
        reasons = Counter(
            words.replace(one.pair.name, "NODE")
            for one, words in zip(self.pairs, self.ours, strict=True)
            if words and not one.refusal
        )
        return "\n".join(
            [
                f"seed {SEED}: {count} pairs, {len(self.refused)} more refused by the API server",
                f"both bind {len(both)}, both refuse {len(neither)}, only kube-scheduler binds {len(careful)} "
                f"({len(careful) / count:.1%}), only Kohort binds {len(wrong)}",
                f"refusing plugins: {', '.join(f'{name} {number}' for name, number in plugins.most_common())}",
                "only kube-scheduler binds, because Kohort says:",
                *(f"{number:5} {words}" for words, number in reasons.most_common()),
            ]
        )


def compared(folder: Path, count: int) -> Compared:
    """Let a kube-scheduler of a new control plane and Kohort judge the first pairs of the seed."""
    with ControlPlane.start(None, operator=False, workdir=folder) as plane:
        plane.processes["kwok"].stop()
        found, refused = judged(plane, list(pairs(SEED, count)))
    return Compared(found, [refusal(one.seen) for one in found], refused)


def check(found: Compared, record: Callable[[str, object], None]) -> None:
    print(found.told(), *found.refused.items(), sep="\n")
    record("counted", found.told())
    assert not found.where(we_bind=True, it_binds=False)
    count = len(found.pairs)
    assert len(found.where(we_bind=True, it_binds=True)) >= LEAST_BOUND * count
    assert len(found.where(we_bind=False, it_binds=True)) <= MOST_CAREFUL * count


def test_kohort_binds_no_pair_that_the_plugins_refuse(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = compared(tmp_path, FEW)
    assert {trait for one in found.pairs for trait in one.pair.traits} >= TRAITS.keys()
    check(found, record_property)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return compared(tmp_path_factory.mktemp("pairs"), MANY)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_kohort_binds_none_of_many_pairs_that_the_plugins_refuse(
    many: Compared, record_property: Callable[[str, object], None]
) -> None:
    check(many, record_property)
    assert len(many.pairs) >= LEAST_JUDGED
    assert {name for one in many.pairs for name in one.plugins} == PLUGINS.keys()


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_caught(many: Compared, rule: str) -> None:
    with broken(BROKEN[rule]):
        caught = next((one for one in many.pairs if one.refusal and not refusal(one.seen)), None)
    assert caught is not None
    print(f"{rule}: {caught.pair.name} ({', '.join(caught.pair.traits)}): {caught.refusal}")
