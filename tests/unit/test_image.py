"""The RUN and COPY lines of the Dockerfile's first stage, carried out in a folder; no image is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGE = re.compile(r"^FROM .* AS build\n(.*?)^FROM ", re.MULTILINE | re.DOTALL)
BUILT_IN, MADE, TOOLS = "/src", "/opt/kohort", "/opt/build"


def steps() -> list[tuple[str, str]]:
    """Return the RUN and COPY instructions of the Dockerfile's first stage, each with its arguments, in order."""
    found = STAGE.search((ROOT / "Dockerfile").read_text())
    assert found, "the stage that builds"
    lines = found[1].replace("\\\n", " ").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word in ("RUN", "COPY")]


def run(command: str, cwd: Path) -> str:
    """Run a command with an image's bare environment (PATH, HOME and pip's settings), and return its output."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME") or name.startswith("PIP_")}
    done = subprocess.run(["sh", "-euc", command], cwd=cwd, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def copy(given: str, to: Path) -> None:
    *sources, folder = given.split()
    for name in sources:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (to / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to / folder)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_what_the_image_holds_starts_and_renders(tmp_path: Path) -> None:
    source, made = tmp_path / "src", tmp_path / "kohort"
    here = {BUILT_IN: str(source), MADE: str(made), TOOLS: str(tmp_path / "build")}
    source.mkdir()
    for word, given in steps():
        if word == "COPY":
            copy(given, source)
            continue
        command = re.sub("|".join(map(re.escape, here)), lambda found: here[found[0]], given)
        run(re.sub(r"(?<![\w/.-])python(?= -m venv)", sys.executable, command), source)
    kohort = made / "bin" / "kohort"
    shutil.rmtree(source)  # the image has no checkout
    assert run(f"{kohort} version", tmp_path).startswith("kohort ")
    rendered = run(f"{kohort} render", tmp_path)
    assert "kind: Deployment" in rendered
    assert "kind: MutatingAdmissionPolicy" in rendered
    assert not list(made.glob("lib/python*/site-packages/pip")), "nothing to install with"
