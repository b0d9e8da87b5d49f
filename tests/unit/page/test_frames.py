"""How often the page is drawn: at once after a quiet time, and never for more than its share of a busy time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from extender.clock import Clock
from extender.page.frames import AT_ONCE, SHARE, Frames, Lists, PageThread

FRAME = 0.03


class Drawing(Clock):
    """A clock for a page whose frames it draws itself: a sleep moves it by its length, and drawing a frame by `FRAME`
    seconds. ``drawn`` has the time of each drawing, and every frame has a new revision.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at = 1000.0
        self.drawn: list[float] = []
        self.frames = Frames(self.make, lambda _: True, self, PageThread(self))

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds

    def make(self) -> tuple[int, Lists, Mapping[str, str]]:
        self.drawn.append(self.at)
        self.at += FRAME
        return len(self.drawn), {}, {}


async def test_after_a_quiet_time_frames_follow_one_another() -> None:
    page = Drawing()
    for _ in range(int(AT_ONCE / FRAME)):
        await page.frames.news("")
    assert page.drawn == pytest.approx([1000 + FRAME * at for at in range(len(page.drawn))])


async def test_in_a_busy_time_they_take_their_share() -> None:
    page = Drawing()
    while page.at < 1060:
        await page.frames.news("")
    assert len(page.drawn) * FRAME == pytest.approx(SHARE * 60 + AT_ONCE, rel=0.02)


async def test_who_has_no_time_gets_the_frame_of_a_moment_ago() -> None:
    page = Drawing()
    while not page.frames._maker.rest():
        await page.frames.news("")
    made, since = len(page.drawn), page.at
    assert (await page.frames.newest()).generation == made
    assert (len(page.drawn), page.at) == (made, since)
