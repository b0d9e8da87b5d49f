"""The control plane that the end-to-end tests share, and their time limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.gangs import new_namespace, own_namespace
from tests.e2e.waiting import TEST_LIMIT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit the tests' time without fixtures, because the first one may have to build binaries."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_LIMIT, func_only=True))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield one control plane for the session: three nodes, the training operator, the default kube-scheduler.

    There is no controller manager, so objects of a deleted owner stay: each test needs a namespace of its own.
    """
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("controlplane")) as plane:
        plane.start_scheduler()
        yield plane


@pytest.fixture(scope="session")
def live_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield the control plane of the policies' tests: three nodes of ten cores, garbage collection, no scheduler
    yet.
    """
    with ControlPlane.start(workdir=tmp_path_factory.mktemp("live"), controller_manager=True) as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    """Return a new namespace named after the test."""
    return new_namespace(control_plane, request.node.name)


@pytest.fixture
def space(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a namespace of the test's own on its module's control plane; it is emptied afterwards."""
    with own_namespace(plane, request.node.name) as name:
        yield name
