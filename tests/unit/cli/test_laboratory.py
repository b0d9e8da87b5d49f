"""The package lab may be absent, as in the image: the service's commands run, and lab's commands say how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extender.cli.laboratory import COMMANDS, commands

ROOT = Path(__file__).parents[3]
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

HIDDEN = {"lab", "matplotlib", "scipy"}

class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Hide())
from extender.__main__ import main
main()
"""


def without_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that cannot import lab, matplotlib or scipy."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "--help"), "Run the extender"),
        (("controller", "--help"), "Run the controller"),
        (("check-config", "manifests/base/scheduler-config.yaml"), "good for Kohort"),
    ],
    ids=["serve", "controller", "check-config"],
)
def test_the_commands_of_the_service_run_without_lab(arguments: tuple[str, ...], told: str) -> None:
    found = without_lab(*arguments)
    assert (found.returncode, found.stderr) == (0, "")
    assert told in found.stdout


def test_the_service_itself_is_imported_without_lab() -> None:
    imports = "import extender.app, extender.control.controllerprocess, extender.page.routes, extender.comparison"
    program = WITHOUT.replace("from extender.__main__ import main\nmain()", imports)
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [("simulate", "--policy", "kod2", "--trace", "kod2"), ("demo", "--help"), ("replay", "journal.jsonl")],
    ids=["simulate", "demo", "replay"],
)  # fmt: skip
def test_a_command_of_lab_says_in_a_sentence_how_to_get_it(arguments: tuple[str, ...]) -> None:
    found = without_lab(*arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"kohort: `kohort {arguments[0]}` comes with the package lab, which the image leaves out; "
        "install Kohort from its wheel, or run the command in a checkout\n"
    )


def test_the_help_has_them_with_and_without_lab() -> None:
    listed = without_lab("--help").stdout
    for name in COMMANDS:
        assert f"  {name} " in listed
    assert {one.name or getattr(one.callback, "__name__", "") for one in commands().registered_commands} == {*COMMANDS}


def test_a_fault_within_lab_is_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

    monkeypatch.setattr("extender.cli.laboratory.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="yaml"):
        commands()
