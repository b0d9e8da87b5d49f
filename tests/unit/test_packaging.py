"""The project as others get it: commands, wheel, locks, and the two commands of the README."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import entry_points, requires, version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))

# This pattern matches one pinned requirement of a lock file with its continuation lines.
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?P<rest>(?:.*\\\n)+.*)$", re.MULTILINE)


def pins(lock: Path) -> dict[str, set[str]]:
    """Return the versions of each package; two where Python versions differ."""
    found: dict[str, set[str]] = {}
    for pin in PIN.finditer(lock.read_text()):
        found.setdefault(pin["name"], set()).add(pin["version"])
    return found


@pytest.mark.parametrize("command", ["kohort", "kubectl-kohort"])
def test_command_resolves(command: str) -> None:
    (script,) = entry_points(group="console_scripts", name=command)
    assert callable(script.load())


def test_installed_version_is_the_projects() -> None:
    assert version("kohort") == PROJECT["version"]


def test_image_label_and_project_state_the_same_version() -> None:
    assert f'org.opencontainers.image.version="{PROJECT["version"]}"' in (ROOT / "Dockerfile").read_text()


def test_wheel_holds_the_three_packages_what_training_code_imports_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "policy",
        "extender",
        "lab",
        "kohort.py",
        f"kohort-{PROJECT['version']}.dist-info",
    }
    assert not [name for name in names if "__pycache__" in name]
    parts = ("assets/kohort.css", "assets/kohort.js", "assets/lists.js", "templates/overview.html")
    page = {f"extender/page/{name}" for name in parts}
    assert page <= set(names)
    # `kohort render` needs the manifests in the wheel
    assert "extender/install/manifests/base/kustomization.yaml" in names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_has_a_hash(lock: Path) -> None:
    pinned = list(PIN.finditer(lock.read_text()))
    assert pinned
    assert [pin["name"] for pin in pinned if "--hash=sha256:" not in pin["rest"]] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_lock_names_no_host_and_no_path(lock: Path) -> None:
    unwanted = re.compile(r"://|index-url|find-links|@ |file:|^-[^-\s]|^\S*/", re.MULTILINE)
    assert unwanted.findall(lock.read_text()) == []


def test_locks_cover_what_the_project_asks_for() -> None:
    runtime, everything = pins(ROOT / "requirements/runtime.txt"), pins(ROOT / "requirements/dev.txt")
    wanted = [Requirement(line) for line in requires("kohort") or []]
    assert wanted
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        extra = requirement.marker is not None and "extra" in str(requirement.marker)
        lock = everything if extra else runtime
        assert name in lock, f"{name} is not locked: run `make lock`"
        assert all(requirement.specifier.contains(pinned) for pinned in lock[name]), f"{name}: run `make lock`"


def test_locks_agree_so_that_one_environment_can_hold_them_all() -> None:
    everything = pins(ROOT / "requirements/dev.txt")
    for name in ("build.txt", "runtime.txt"):
        smaller = pins(ROOT / "requirements" / name)
        assert {p: v for p, v in smaller.items() if everything.get(p, v) != v} == {}


def test_ci_runs_make_test() -> None:
    run = ROOT / ".ci/run"
    assert run.stat().st_mode & 0o111, "not executable"
    assert re.search(r"^make test\b", run.read_text(), re.MULTILINE)


@pytest.fixture
def ci_with(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a function that runs `.ci/run` with a Makefile whose target `test` has the given recipe."""

    def run(recipe: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / ".ci").mkdir()
        (tmp_path / ".ci/run").write_text((ROOT / ".ci/run").read_text())
        (tmp_path / "Makefile").write_text(f"test:\n\t@{recipe}\n")
        return subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


CLOSING = "========= 1 failed, 2 passed in 0.10s ========="


@pytest.mark.parametrize(("recipe", "status"), [(f'echo "{CLOSING}"', 0), (f'echo "{CLOSING}"; exit 1', 2)])
def test_ci_ends_with_pytests_closing_line_and_keeps_the_status(
    ci_with: Callable[[str], subprocess.CompletedProcess[str]], recipe: str, status: int
) -> None:
    done = ci_with(recipe)
    assert done.stdout.splitlines()[-1] == CLOSING
    assert done.returncode == status


def test_readme_names_two_commands_that_make_knows() -> None:
    named = set(re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
