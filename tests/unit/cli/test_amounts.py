"""Amounts in tables: every requested resource is shown, cpu and memory first."""

from __future__ import annotations

import pytest

from extender.cli.console import offered, short
from policy.cluster.amounts import amounts
from policy.cluster.resources import HOST_PORT, Resources
from tests.builders import res

NPU = "example.com/npu"
ASKED = {
    "a device": (res(pods=1, **{NPU: 16}), f"16 {NPU}"),
    "every kind": (
        res(1.5, 8, pods=1, **{NPU: 2, "ephemeral-storage": 2**30, "hugepages-2Mi": 2**29}),
        f"1.5 cpu 8Gi 1Gi ephemeral-storage 2 {NPU} 512Mi hugepages-2Mi",
    ),
    "a host port": (res(1, pods=1, **{f"{HOST_PORT}TCP/8080": 1}), "1 cpu host port TCP/8080"),
    "nothing": (res(pods=1), "-"),
}


@pytest.mark.parametrize(("asked", "told"), ASKED.values(), ids=ASKED.keys())
def test_what_is_asked_for(asked: Resources, told: str) -> None:
    assert short(amounts(asked)) == told


def test_pods_count_where_they_are_missing() -> None:
    assert short(amounts(res(1, pods=4)), pods=True) == "1 cpu 4 pods"


def test_a_node_shows_its_devices_also_when_all_are_taken() -> None:
    whole = res(8, 32, pods=110, **{NPU: 8, "amd.com/gpu": 0, "ephemeral-storage": 2**30})
    free = whole - res(8, 1, pods=3, **{NPU: 8})
    assert offered(amounts(free), amounts(whole)) == f"0 cpu 31Gi 0 {NPU}"
    assert offered(amounts(free), amounts(whole), ["pods"]) == f"0 cpu 31Gi 0 {NPU} 107 pods"
