"""Journals that earlier versions wrote are read, and run again to the decisions that they record.

Each is of ``kohort simulate --policy NAME --trace kod2 --pods --journal FILE`` at commit 5595fa4, or at the commit that
its name ends with.
"""

import lzma
from pathlib import Path

import pytest

from lab.study.replay import ask_other_policy, replay_journal
from policy.systems.kod2 import Kod2

JOURNALS = sorted(Path(__file__).with_name("journals").glob("*.jsonl.xz"))


def test_there_is_a_journal_of_each_system() -> None:
    assert {path.name.partition(".")[0] for path in JOURNALS} >= {"kod2", "drs", "dragon", "specon", "oasis"}


@pytest.mark.parametrize("packed", JOURNALS, ids=lambda path: path.name.partition(".")[0])
def test_an_earlier_versions_journal_runs_again_to_the_same_decisions(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    found = replay_journal(path)
    assert found.departures == ()
    assert found.steps == len(path.read_bytes().splitlines()) - 1 > 250
    assert ask_other_policy(path, Kod2()).decided > 50
