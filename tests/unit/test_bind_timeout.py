"""check-config reports how long VolumeBinding may hold a member's room while its volume is not available."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.config.settings import Settings
from extender.kubescheduler.checkconfig import findings
from extender.kubescheduler.schedulerconfig import ConfigFinding

MANIFESTS = Path(__file__).parents[2] / "manifests"
FIELD = "profiles[0].pluginConfig[VolumeBinding].bindTimeoutSeconds"


def shipped() -> dict[str, Any]:
    text = yaml.safe_load((MANIFESTS / "base" / "scheduler-config.yaml").read_text())["data"]["kube-scheduler.yaml"]
    config: dict[str, Any] = yaml.safe_load(text)
    return config


def found(seconds: object, window: float = 8) -> list[ConfigFinding]:
    config = shipped()
    config["profiles"][0]["pluginConfig"] = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": seconds}}]
    return findings(config, Settings.model_validate({"barrier": {"window_seconds": window}}))


@pytest.mark.parametrize("seconds", [2, 5, 7])
def test_what_ends_before_the_window_is_good(seconds: int) -> None:
    assert found(seconds) == []


@pytest.mark.parametrize("seconds", [0, 1, 8, 600, True, "5"])
def test_what_lasts_longer_or_cannot_work_is_warned_of(seconds: object) -> None:
    (one,) = found(seconds)
    assert (one.field, one.level) == (FIELD, "warning")
    assert one.allowed.startswith("2 to 7 ")


def test_the_bound_follows_the_window() -> None:
    assert found(10, window=12) == []
    assert [one.field for one in found(5, window=5)] == [FIELD]


@pytest.mark.parametrize("config", [None, [], [{"name": "NodeResourcesFit", "args": {"bindTimeoutSeconds": 5}}]])
def test_without_it_kube_schedulers_own_ten_minutes_are_told(config: object) -> None:
    changed = shipped()
    changed["profiles"][0]["pluginConfig"] = config
    (one,) = findings(changed, Settings())
    assert (one.field, one.value) == (FIELD, "absent (600)")


def test_the_shipped_profiles_state_it() -> None:
    assert findings(shipped(), Settings()) == []
    shared = yaml.safe_load((MANIFESTS / "overlays" / "shared-scheduler" / "kube-scheduler.yaml").read_text())
    ours = next(one for one in shared["profiles"] if one["schedulerName"] == "kohort")
    assert ours["pluginConfig"] == [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 3}}]
