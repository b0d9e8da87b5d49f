"""What the page draws: a look for every job, the node map and charts; and which part of a frame is sent again."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.page.charts import charts_of
from extender.page.frames import Frame, row_changes
from extender.page.loadhistory import LoadSample, sample_of
from extender.page.marks import COLOURS, SHAPES, Looks
from extender.page.nodemap import NodeMapDrawer
from tests import builders
from tests.builders import World, job, node

# -- The tests below are about the colour and shape that each job has. ---------------------------


def test_jobs_look_different_as_long_as_there_are_looks() -> None:
    looks = Looks()
    every = COLOURS * len(SHAPES)
    assert len({looks.of(f"job-{at}") for at in range(every)}) == every


def test_a_job_keeps_its_look_and_gives_it_back_when_it_is_gone() -> None:
    looks = Looks()
    first = {f"job-{at}": looks.of(f"job-{at}") for at in range(COLOURS * len(SHAPES))}
    looks.keep(first.keys() - {"job-7"})
    assert looks.of("another") == first["job-7"]
    assert looks.of("job-3") == first["job-3"]


# -- The tests below are about the node map. -----------------------------------------------------


def drawn(world: World) -> list[str]:
    return list(NodeMapDrawer(Looks(), lambda: None).draw(world.snapshot).tiles)


def test_members_beside_their_ps_are_filled_and_those_across_the_network_hollow() -> None:
    together = World().nodes(node("n1", cpu=10)).start(job("a").ps(cpu=1).workers(2, cpu=2))
    (tile,) = drawn(together)
    assert 'away"' not in tile
    assert "cross" not in tile
    apart = World().nodes(node("n1", cpu=5), node("n2", cpu=5)).start(job("a").ps(cpu=1).workers(4, cpu=2))
    tiles = drawn(apart)
    assert all("cross" in tile for tile in tiles)
    found = NodeMapDrawer(Looks(), lambda: None).draw(apart.snapshot)
    assert (found.pairs, found.cross, found.cross_jobs) == (4, 2, 1)


def test_a_job_without_ps_crosses_nothing() -> None:
    world = World().nodes(node("n1", cpu=4), node("n2", cpu=4)).start(job("a").workers(4, cpu=2))
    assert all("away" not in tile for tile in drawn(world))


def test_a_tile_says_in_words_who_is_there() -> None:
    world = World().nodes(node("n1", cpu=10)).start(job("a").ps(cpu=1).workers(2, cpu=2))
    world.see(builders.guest("other", "n1"))
    label = re.search(r'aria-label="([^"]*)"', drawn(world)[0])
    assert label is not None
    assert label[1] == "n1: 6 of 10 cpu, 11 GiB of 32 GiB | team/a ps 0, worker 0–1 | 1 pod of other schedulers"


def test_only_tiles_that_change_are_drawn_again() -> None:
    world = World().nodes(node("n1"), node("n2")).start(job("a").ps(cpu=1).workers(1, cpu=1))
    mapper = NodeMapDrawer(Looks(), lambda: None)
    before = mapper.draw(world.snapshot).tiles
    world.see(builders.guest("other", "n2"))
    after = mapper.draw(world.snapshot).tiles
    assert after[0] is before[0] or after[1] is before[1]
    assert after != before


# -- The tests below are about the charts and their samples. -------------------------------------


def test_a_sample_counts_what_ready_nodes_have_and_jobs_take() -> None:
    world = World().nodes(node("n1", cpu=10), node("n2", cpu=10)).start(job("a").ps(cpu=1).workers(2, cpu=2))
    world.submit(job("b").workers(1, cpu=99))
    sample = sample_of(world.snapshot, world.now, {})
    assert (sample.used["cpu"], sample.waiting, sample.running) == (0.25, 1, 1)


def test_a_line_is_broken_where_nobody_looked() -> None:
    samples = [LoadSample(at, {"cpu": 0.5}, 1, 2) for at in (0, 20, 40, 60, 4000, 4020, 4040)]
    usage, jobs = charts_of(samples, 4040, prices=False)
    assert usage.lines[0].path.count("M") == 2
    assert (usage.lines[0].now, usage.top, jobs.top) == ("50 %", "100 %", "2")


def test_the_first_sample_alone_is_a_line() -> None:
    usage, _ = charts_of([LoadSample(1_000_000.0, {"cpu": 0.5}, 1, 2)], 1_000_000.0, prices=False)
    assert (usage.lines[0].now, usage.lines[0].path.count("M")) == ("50 %", 1)


def test_prices_have_a_chart_of_their_own_where_there_are_any() -> None:
    samples = [LoadSample(at, {"cpu": 0.5}, 1, 2, {"cpu": 0.003}) for at in (0, 20)]
    assert [chart.title for chart in charts_of(samples, 20, prices=True)] == ["Utilisation", "Jobs", "Prices"]


# -- The tests below are about the rows that a viewer is sent with a new frame. ------------------


def test_a_viewer_is_sent_the_rows_that_it_has_not() -> None:
    first = Frame(1, "me", 7, {"queue": ["a", "b", "c"], "nodes": ["n"]})
    second = Frame(2, "me", 8, {"queue": ["a", "x"], "nodes": ["n"]})
    assert second.changes_since(first)["lists"] == {"queue": [(0, 1), "x"]}
    assert second.changes_since(second)["lists"] == {}
    assert second.changes_since(None)["lists"] == {"queue": ["a", "x"], "nodes": ["n"]}


rows_of = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(rows_of, rows_of)
def test_pieces_put_together_are_the_new_rows_and_no_old_row_is_used_twice(old: list[str], new: list[str]) -> None:
    found: list[str] = []
    used: list[int] = []
    for piece in row_changes(old, new):
        at = range(piece[0], sum(piece)) if isinstance(piece, tuple) else range(0)
        used += at
        found += [old[one] for one in at] if isinstance(piece, tuple) else [piece]
    assert found == new
    assert len(used) == len(set(used)) == sum((Counter(old) & Counter(new)).values())


def test_a_row_on_top_of_many_is_one_row_to_send() -> None:
    assert row_changes("abcdefgh", "xabcdefgh") == ["x", (0, 8)]
