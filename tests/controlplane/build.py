"""Build the binaries that the cache lacks, and return their paths."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import IO

import yaml

from tests.controlplane.cache import cache_directory, is_json, is_program, locked
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.recipes import GO_MODULES, RECIPES, TRAINING_OPERATOR_MODULE, Recipe
from tests.controlplane.toolchain import find_go

PROGRESS_EVERY = 15.0
JOB_KINDS = ("tfjobs", "pytorchjobs", "mpijobs")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The paths of the built binaries, and the custom resource definitions of the training operator."""

    paths: dict[str, Path]
    job_definitions: Path

    def __getitem__(self, binary: str) -> Path:
        return self.paths[binary]


def build(recipes: Sequence[Recipe] = RECIPES) -> Binaries:
    """Build what the cache lacks, with progress on standard output, and return the paths.

    Raises ControlPlaneError with the compiler's last lines if a build fails.
    """
    paths = {recipe.binary: _cached(recipe) for recipe in recipes}
    definitions = _cached_definitions()
    if not (all(map(is_program, paths.values())) and is_json(definitions)):
        lock = cache_directory() / "build.lock"
        with locked(lock, "waiting for another run that builds the control plane"):
            _build_missing(recipes, definitions)
    return Binaries(paths, definitions)


def _cached(recipe: Recipe) -> Path:
    return cache_directory() / f"{recipe.binary}-{recipe.version}-{recipe.fingerprint}"


def _cached_definitions() -> Path:
    operator = next(recipe for recipe in RECIPES if recipe.binary == "training-operator")
    return cache_directory() / f"job-definitions-{operator.version}-{operator.fingerprint}.json"


def _build_missing(recipes: Sequence[Recipe], definitions: Path) -> None:
    """Build the missing binaries while holding the lock; skip those that another process has built meanwhile."""
    missing = [recipe for recipe in recipes if not is_program(_cached(recipe))]
    for damaged in [path for path in map(_cached, missing) if path.exists()]:
        print(f"{damaged} is not whole: it is built anew", flush=True)
    go = find_go()
    started = time.monotonic()
    for number, recipe in enumerate(missing, start=1):
        _build_one(go, recipe, f"[{number}/{len(missing)}] {recipe.binary} {recipe.version}")
    if not is_json(definitions):
        _write_definitions(go, definitions)
    if missing:
        print(f"control plane built in {time.monotonic() - started:.0f} s", flush=True)


def _build_one(go: Path, recipe: Recipe, title: str) -> None:
    target = _cached(recipe)
    partial = target.with_name(f"{target.name}.partial")
    started = time.monotonic()
    print(f"{title}: building", flush=True)
    command: list[str | Path] = ["nice", go, "build", "-v", "-trimpath", "-buildvcs=false"]
    # -v prints the name of each package when it is compiled; the Go command shows no other progress.
    command += ["-tags", recipe.tags] if recipe.tags else []
    command += ["-ldflags", f"-s -w {recipe.ldflags}".strip(), "-o", partial, recipe.package]
    process = subprocess.Popen(
        command,
        cwd=recipe.directory,
        env=_go_environment(go),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    output = _follow(process.stderr, title)
    if process.wait():
        raise ControlPlaneError(f"{title}: build failed\n" + "\n".join([*output[-30:], *_if_full(go, output)]))
    # The file is renamed only when complete, so that an interrupted build is never taken for a binary.
    partial.rename(target)
    print(f"{title}: done in {time.monotonic() - started:.0f} s", flush=True)


def _if_full(go: Path, output: Sequence[str]) -> Iterator[str]:
    """Yield advice on where to make room, if the disk was full."""
    if any("no space left on device" in line or "file too large" in line for line in output):
        asked = ("GOCACHE", "GOMODCACHE", "GOTMPDIR")
        said = subprocess.run([go, "env", *asked], env=_go_environment(go), capture_output=True, text=True, check=False)
        folders = [folder for folder in said.stdout.splitlines() if folder] + [str(cache_directory())]
        yield f"the disk is full: a build from nothing takes 4 GB in {', '.join(folders)} and {gettempdir()}; make room"


def _follow(stream: IO[str], title: str) -> list[str]:
    """Read the compiler's output to its end, and print the progress now and then."""
    lines: list[str] = []
    started = time.monotonic()
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(PROGRESS_EVERY):
            print(f"{title}: {time.monotonic() - started:.0f} s, {len(lines)} packages compiled or fetched", flush=True)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    for line in stream:
        # Lines are added one at a time, because another thread counts them to report the progress.
        lines.append(line.rstrip())
    finished.set()
    reporter.join()
    return lines


def _go_environment(go: Path) -> dict[str, str]:
    """Return the environment of a build: no C compiler, no other toolchain, none of the user's Go settings."""
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _write_definitions(go: Path, target: Path) -> None:
    """Copy the operator's resource definitions out of its module as JSON.

    Parsing their YAML would take seconds at every start.
    """
    folder = _module_folder(go) / "manifests" / "base" / "crds"
    definitions = [
        yaml.load((folder / f"kubeflow.org_{kind}.yaml").read_text(), Loader=_yaml_loader()) for kind in JOB_KINDS
    ]
    partial = target.with_name(f"{target.name}.partial")
    partial.write_text(json.dumps(definitions))
    partial.rename(target)


def _module_folder(go: Path) -> Path:
    answer = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", TRAINING_OPERATOR_MODULE],
        cwd=GO_MODULES / "training-operator",
        env=_go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise ControlPlaneError(f"the folder of {TRAINING_OPERATOR_MODULE} is not known to Go:\n{answer.stderr}")
    return Path(answer.stdout.strip())


def _yaml_loader() -> type[yaml.SafeLoader]:
    """Return PyYAML's loader in C if it was built, which is much faster, or else the one in Python."""
    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader
