"""The service's comparisons run in one process at a time, within bounds of time and memory; an answer is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.comparison import comparisons
from extender.comparison.comparingprocess import ComparisonAnswer, ComparisonRequest
from extender.comparison.comparisons import ComparisonError, Comparisons, UnknownPolicyError
from extender.config.settings import Settings
from extender.state.journal import Journal
from extender.state.ledger import Ledger
from policy.cluster.events import Tick
from policy.cluster.snapshot import Rules
from policy.systems.kod2 import Kod2
from tests.builders import START
from tests.stage import HandClock
from tests.unit.comparison.test_comparepolicies import recorded, scene


def of_service(folder: Path | str, **bounds: float) -> tuple[Comparisons, Ledger, HandClock]:
    clock = HandClock()
    ledger = Ledger(Kod2(), Rules(), clock, Journal())
    patient = {"compare_seconds": 600.0}  # a busy machine may need long for the process to start
    settings = Settings.model_validate({"journal": {"folder": str(folder), **patient, **bounds}})
    return Comparisons(ledger, lambda: settings), ledger, clock


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the policy of every comparison for which a process is started; return the growing list of policies."""
    found: list[str] = []
    real = comparisons._process

    async def counted(request: ComparisonRequest) -> ComparisonAnswer:
        found.append(request.policy)
        return await real(request)

    monkeypatch.setattr(comparisons, "_process", counted)
    return found


async def test_one_process_answers_all_who_ask_about_the_same_revision(tmp_path: Path, asked: list[str]) -> None:
    recorded(tmp_path, *scene())
    ours, ledger, _ = of_service(tmp_path)
    first, second = await asyncio.gather(ours.compare("fifo"), ours.compare("fifo"))
    assert first is second
    assert (first.differing, first.generation, asked) == (2, ledger.snapshot.generation, ["fifo"])
    assert ours.known("fifo") is first
    assert ours.known("drs") is None


async def test_an_answer_is_good_for_a_while_after_the_ledger_has_moved_on(tmp_path: Path, asked: list[str]) -> None:
    recorded(tmp_path, *scene())
    ours, ledger, clock = of_service(tmp_path)
    first = await ours.compare("fifo")
    ledger.step(Tick())
    clock.time = START + comparisons.LEAST_REST - 1
    assert await ours.compare("fifo") is first
    clock.time = START + comparisons.LEAST_REST + 1
    second = await ours.compare("fifo")
    assert (second.generation, asked) == (first.generation + 1, ["fifo", "fifo"])


async def test_what_cannot_be_compared_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match=r"set journal\.folder"):
        await of_service("")[0].compare("fifo")
    with pytest.raises(UnknownPolicyError, match="known are"):
        await of_service(tmp_path)[0].compare("magic")
    with pytest.raises(ComparisonError, match="no step is recorded yet"):
        await of_service(tmp_path)[0].compare("fifo")
    (tmp_path / "journal-000001.jsonl").write_text("spoilt\n")
    with pytest.raises(ComparisonError, match="line 1: this line does not begin a journal"):
        await of_service(tmp_path)[0].compare("fifo")


async def test_a_process_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path, *scene())
    monkeypatch.setattr(comparisons, "GRACE_SECONDS", 0.01)
    with pytest.raises(ComparisonError, match=r"raise journal\.compare_seconds"):
        await of_service(tmp_path, compare_seconds=0.01)[0].compare("fifo")


def swell(folder: Path) -> None:
    """Lengthen the journal's last line by 64 MiB of blanks, more than the memory that the process may use."""
    (newest,) = folder.iterdir()
    newest.write_bytes(newest.read_bytes().rstrip(b"\n") + b" " * (64 << 20) + b"\n")


async def test_a_process_that_lacks_memory_leaves_the_service_alone(tmp_path: Path) -> None:
    recorded(tmp_path, *scene())
    swell(tmp_path)
    request = ComparisonRequest(folder=str(tmp_path), policy="fifo", seconds=60, bytes=1 << 20)
    try:
        answer = await comparisons._process(request)
    except ComparisonError as error:  # the process had too little memory left even to write its error
        answer = ComparisonAnswer(error=str(error))
    assert answer.found is None
    assert "status" in answer.error or "journal.compare_bytes" in answer.error
