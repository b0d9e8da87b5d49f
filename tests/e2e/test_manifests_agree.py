"""Tests that ``kohort what-if -f`` finds the same objects in a file as kubectl, or that both refuse it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.controlplane.build import build
from tests.controlplane.recipes import RECIPES
from tests.unit.cli.test_manifests import JOB, READ, REFUSED, SCALARS

SECONDS = 30


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return build([recipe for recipe in RECIPES if recipe.binary == "kubectl"])["kubectl"]


def read(kubectl: Path, folder: Path, content: bytes) -> subprocess.CompletedProcess[str]:
    """Let kubectl read the file without any API server; its output has the file's objects as JSON."""
    (folder / "job.yaml").write_bytes(content)
    command = [str(kubectl), "label", "--local", "-f", "job.yaml", "read=yes", "-o", "json"]
    environ = {"KUBECONFIG": str(folder / "none"), "HOME": str(folder)}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize(("content", "labels"), READ.values(), ids=READ.keys())
def test_kubectl_finds_the_same_objects(kubectl: Path, tmp_path: Path, content: bytes, labels: list[str]) -> None:
    done = read(kubectl, tmp_path, content)
    assert done.returncode == 0, done.stderr
    decoder, rest, found = json.JSONDecoder(), done.stdout.strip(), []
    while rest:
        one, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        found.append(f"{one['kind']} {one['metadata'].get('name') or one['metadata'].get('generateName') or '-'}")
    assert found == labels


@pytest.mark.parametrize("content", [content for content, _ in REFUSED.values()], ids=REFUSED.keys())
def test_kubectl_refuses_it_too(kubectl: Path, tmp_path: Path, content: bytes) -> None:
    done = read(kubectl, tmp_path, content)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_a_scalar_is_the_same_to_kubectl(kubectl: Path, tmp_path: Path, text: str, value: object) -> None:
    done = read(kubectl, tmp_path, f"{JOB}data: {{a: {text}}}\n".encode())
    assert json.loads(done.stdout)["data"] == {"a": value}
