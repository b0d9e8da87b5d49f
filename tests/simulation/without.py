"""``python -m tests.simulation.without quotas texts --seeds 14 22``: decide these seeds without a part of the code.

The parts are ``quotas`` and ``texts``. Without quotas, the imitated API server has no ResourceQuotas and the extender
does not watch them. Without texts, the controller writes no Events, and kube-scheduler writes no message into a pod's
condition PodScheduled; both are requests whose latencies are drawn at random, so another text or reason otherwise
shifts the times of all that follows.

The command prints whether each seed's decisions are those of ``--against``, a file like digests.json of another commit,
and the digest itself. The module has no needs of its own: copied to an older commit, it runs there.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from extender import app
from extender.control.eventwriter import EventWriter
from lab.embedded.bridge import Bridge
from lab.embedded.embeddedscheduler import EmbeddedScheduler
from tests.simulation.decisions import marks
from tests.simulation.digests import FILE, decisions_of, written
from tests.simulation.run import Simulation

PARTS: Final = ("quotas", "texts")


@contextmanager
def without(parts: Sequence[str]) -> Iterator[None]:
    """Leave these parts out of all seeds that are run meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        if "quotas" in parts:
            _hide_quotas(patch)
        if "texts" in parts:
            _hide_texts(patch)
        yield


def _hide_quotas(patch: pytest.MonkeyPatch) -> None:
    every = app.resources
    patch.setattr(app, "resources", lambda: [one for one in every() if one.plural != "resourcequotas"])
    # Each write of a quota raises the resourceVersion that the API server's watches and conflicts are about.
    patch.setattr(Bridge, "_show_quotas", lambda bridge: None, raising=False)
    if "quotas" in Simulation.__init__.__code__.co_names:
        # rule L10 says that the leader must know every quota, so it would end the run
        patch.setattr("tests.simulation.quotas.QuotaRule.look", lambda rule, leader: None)


def _hide_texts(patch: pytest.MonkeyPatch) -> None:
    write = EmbeddedScheduler._patch

    async def nothing(writer: EventWriter) -> None:
        await asyncio.get_running_loop().create_future()

    def without_message(scheduler: Any, pod: Any, reason: str, message: str, nominated: str | None) -> Any:
        return write(scheduler, pod, reason, "", nominated)

    patch.setattr(EventWriter, "run", nothing)
    patch.setattr(EmbeddedScheduler, "_patch", without_message)


def main() -> None:
    """Run the seeds and print a line for each."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="python -m tests.simulation.without", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, help="what is left out")
    parser.add_argument("--seeds", nargs="+", type=int, required=True)
    parser.add_argument("--against", type=Path, default=FILE, help="a file like digests.json")
    given = parser.parse_args()
    known = written(given.against)
    for seed in given.seeds:
        with without(given.parts):
            found = marks(decisions_of(seed))
        same = found == known[f"seed {seed}"]
        print(f"seed {seed} {'is the same' if same else 'differs'}: {found[-1]}", flush=True)


if __name__ == "__main__":
    main()
