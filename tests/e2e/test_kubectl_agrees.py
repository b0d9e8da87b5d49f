"""Tests that Kohort calls the same API server as kubectl, by the same proxy and with the same identity, or both refuse.

Both commands run with the same files, environment and options; servers and proxies record the requests.
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
    """Return the kubectl of the control plane's version."""
    return build([recipe for recipe in RECIPES if recipe.binary == "kubectl"])["kubectl"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture
def asking(servers: World, kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Return a function that runs kubectl and kohort for a case, in a new folder each time."""
    folders = (tmp_path / f"{number}" for number in range(1000))
    return lambda case: ask(case, servers, kubectl, next(folders), monkeypatch)


def differences(cases: dict[str, tuple[Case, str]], asking: Asking) -> list[str]:
    """Return a message for each case in which kubectl calls another server than expected, or Kohort differs from it."""
    found = []
    for name, (case, server) in cases.items():
        pair = asking(case)
        if [one.server for one in pair.kubectl.asked] != ([server] if server else []):
            found.append(f"{name}: kubectl should have asked {server or 'nobody'}\n{pair.told()}")
        if not pair.same:
            found.append(f"{name}: not as kubectl\n{pair.told()}")
    return found


TOLD: dict[str, tuple[str, ...]] = {
    "the first file's current-context counts": ("cannot be asked", "cannot connect to 127.0.0.1:", "refused"),
    "a plugin that fails": ("user 'u'", "failed with exit code 1", "Your SSO session has expired"),
    "a plugin that is not installed": ("'no-such-plugin' is not installed", "install it by hand"),
    "a user that is not there": ("user 'a' has no credentials", "give"),
    "no file at all": ("no such file", "set KUBECONFIG"),
    "a provider that has gone": ("auth-provider 'gcp' is not supported", "give the user an exec plugin"),
    "a certificate of a stranger": ("certificate verify failed",),
    "proxy-url where nobody is": ("cannot connect to the proxy 127.0.0.1:", "refused"),
    "proxy-url socks5 without the login": (
        "cannot connect to 127.0.0.1:",
        "the SOCKS5 proxy requires a name and a password",
    ),
    "--request-timeout that is none": ("--request-timeout: 'soon' is not allowed; allowed: ",),
}


@pytest.mark.parametrize("name", TOLD)
def test_why_nobody_was_asked_is_told(servers: World, asking: Asking, name: str) -> None:
    told = asking(by_hand(servers)[name][0]).kohort.words
    assert all(words in told for words in TOLD[name]), told
    assert "anonymous" not in told


def test_a_write_goes_as_whom_kubectl_writes(servers: World, asking: Asking) -> None:
    """Both impersonate the user from `as` in the kubeconfig, or from --as, which takes precedence."""
    cases = by_hand(servers)
    for name, acts_as in (("as in the file", "nobody-special"), ("--as is stronger", "bob")):
        asked = asking(cases[name][0]).kohort.asked
        assert [(one.certificate, one.acts_as) for one in asked] == [("admin", (("impersonate-user", acts_as),))]


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
    drawer = Drawer(servers, SEED, pods=pods_are_possible())
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
