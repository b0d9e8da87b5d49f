"""Kohort asks the server that kubectl asks, on the same way, as whom kubectl is; or neither asks anybody.

Both are run on the same files, environment and options. Servers and proxies record who comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.build import build
from tests.controlplane.recipes import RECIPES
from tests.kubectl.asking import Case, Pair, ask, pods_are_possible
from tests.kubectl.cases import by_hand, in_pods
from tests.kubectl.drawn import Drawer
from tests.kubectl.servers import World, world

SEED, DRAWN, REFUSED = 21, 60, 6
Asking = Callable[[Case], Pair]


@pytest.fixture(scope="module")
def kubectl() -> Path:
    """Of the version that the control plane has."""
    return build([recipe for recipe in RECIPES if recipe.binary == "kubectl"])["kubectl"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture
def asking(servers: World, kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Ask each case in a folder of its own."""
    folders = (tmp_path / f"{number}" for number in range(1000))
    return lambda case: ask(case, servers, kubectl, next(folders), monkeypatch)


def differences(cases: dict[str, tuple[Case, str]], asking: Asking) -> list[str]:
    """Where kubectl does not do what the case says, and where Kohort does not do as kubectl."""
    found = []
    for name, (case, server) in cases.items():
        pair = asking(case)
        if [one.server for one in pair.kubectl.asked] != ([server] if server else []):
            found.append(f"{name}: kubectl should have asked {server or 'nobody'}\n{pair.told()}")
        if not pair.same:
            found.append(f"{name}: not as kubectl\n{pair.told()}")
    return found


@pytest.mark.timeout(600)
def test_each_rule_by_hand(servers: World, asking: Asking) -> None:
    cases = by_hand(servers)
    assert servers.address, "without an address beside loopback nothing shows which proxy NO_PROXY leaves out"
    assert len(cases) > 150
    found = differences(cases, asking)
    assert not found, "\n".join(found)


@pytest.mark.skipif(not pods_are_possible(), reason="this machine gives a process no mounts of its own")
def test_within_a_pod(servers: World, asking: Asking) -> None:
    found = differences(in_pods(servers), asking)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_drawn_cases(servers: World, asking: Asking, record_property: Callable[[str, object], None]) -> None:
    drawer = Drawer(servers, SEED)
    pairs = [asking(drawer.case()) for _ in range(DRAWN)]
    refused = [pair for pair in pairs if pair.kubectl.done and pair.refused]
    differ = [pair for pair in pairs if not pair.same and pair not in refused]
    done = sum(pair.kubectl.done for pair in pairs)
    told = f"seed {SEED}: {DRAWN} drawn, {done} of them done by kubectl, {len(differ)} differ, {len(refused)} refused"
    print(told, *(pair.told() for pair in [*differ, *refused]), sep="\n")
    record_property("counted", told)
    assert not differ, "\n".join(pair.told() for pair in differ)
    assert len(refused) <= REFUSED
    assert DRAWN // 4 <= done <= DRAWN * 3 // 4, "most of what is drawn should be able to differ"
