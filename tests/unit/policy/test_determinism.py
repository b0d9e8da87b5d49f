"""The same facts give the same effects, in the same order, whatever the hash seed of the process."""

from tests.hashseeds import printed

STORY = """
from tests.builders import *
world = World().nodes("n1", "n2", "n3")
for i in range(4):
    world.start(job(f"j{i}").ps().workers(1, 5, asked=5, cpu=1.5).arrived(i))
world.now += 9
world.submit(*(job(f"h{i}").ps().workers(2 + i, 4 + i, cpu=2).with_(utility=3.0 + i).arrived(5) for i in range(3)))
world.do(NodeGone("n2"))
for seconds in (9, 31, 61, 121):
    world.pass_time(seconds)
    for i in range(3):
        world.bind(job(f"h{i}"))
print(world.effects)
print(world.snapshot.gangs, world.snapshot.charged, world.snapshot.verdicts)
"""


def told(seed: str) -> str:
    story = printed(seed, "-c", STORY)
    assert "Bind(" in story
    assert "waits_for=('" in story
    return story


def test_two_hash_seeds_tell_the_same_story() -> None:
    assert told("0") == told("1")
