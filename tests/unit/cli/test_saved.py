"""``kohort what-if --snapshot FILE`` asks about the state at the end of a journal, and asks no service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from policy.cluster.events import NodeSeen
from tests import builders
from tests.unit.cli.conftest import Server
from tests.unit.comparison.test_comparepolicies import recorded, scene

Run = Callable[..., Result]
POD = {
    "spec": {
        "schedulerName": "kohort",
        "containers": [{"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
}
TFJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "new", "namespace": "team"},
    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": POD}}},
}


@pytest.fixture
def journal(tmp_path: Path) -> str:
    recorded(tmp_path, *scene())
    return str(tmp_path / "journal-000001.jsonl")


def asked(kohort: Run, journal: str, *question: str) -> dict[str, str]:
    """Return the new state of each job that would change."""
    found = json.loads(kohort("what-if", "--snapshot", journal, *question, "-o", "json").stdout)
    return {job["name"]: job["after"]["state"] for job in found["jobs"]}


def test_the_end_of_the_journal_is_asked_and_no_service(kohort: Run, server: Server, journal: str) -> None:
    assert asked(kohort, journal, "--remove-node", "n1") == {"light": "repairing", "heavy": "waiting"}
    assert server.asked == []


def test_a_job_finds_room_on_the_recorded_nodes_or_on_more_of_them(kohort: Run, journal: str, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(TFJOB))
    assert asked(kohort, journal, "-f", str(manifest))["new"] == "waiting"
    assert asked(kohort, journal, "-f", str(manifest), "--add-nodes", "n1=1")["new"] == "planned"
    shown = kohort("what-if", "--snapshot", journal, "-f", str(manifest), "--add-nodes", "n1=1")
    (line,) = [line for line in shown.stdout.splitlines() if " new " in line]
    assert line.split()[:5] == ["team", "new", "-", "planned,", "2"]


def test_another_policy_is_asked_about_the_same_state(kohort: Run, journal: str) -> None:
    found = json.loads(kohort("what-if", "--snapshot", journal, "--policy", "fifo", "-o", "json").stdout)
    assert found["policy"] == "fifo"


@pytest.mark.parametrize(
    ("file", "question", "told"),
    [
        (
            "nowhere.jsonl",
            ("--cordon", "n1"),
            "nowhere.jsonl: No such file or directory; name a file of the service's journal (setting journal.folder)",
        ),
        ("spoilt.jsonl", ("--cordon", "n1"), "spoilt.jsonl, line 1: this line does not begin a journal"),
        (
            "early/journal-000001.jsonl",
            ("--cordon", "n1"),
            "ends before the service had read all its lists; name a later file",
        ),
        ("journal-000001.jsonl", ("--cordon", "n9"), "kohort: --cordon: 'n9' is not allowed; allowed: one of n1"),
        ("journal-000001.jsonl", ("--policy", "magic"), "kohort: --policy: 'magic' is not known; known are"),
        (
            "journal-000001.jsonl",
            ("--add-nodes", "n1=0"),
            "kohort: --add-nodes: 0 is not allowed; allowed: a whole number from 1 to 500",
        ),
    ],
)
def test_what_cannot_be_asked_is_told(
    kohort: Run, journal: str, tmp_path: Path, file: str, question: tuple[str, ...], told: str
) -> None:
    (tmp_path / "spoilt.jsonl").write_text("{}\n")
    (tmp_path / "early").mkdir()
    recorded(tmp_path / "early", [NodeSeen(builders.node("n1"))])
    found = kohort("what-if", "--snapshot", str(tmp_path / file), *question)
    assert found.exit_code == 2
    assert told in found.stderr
    assert "Traceback" not in found.output


def job(**changes: object) -> str:
    """Return the manifest with another number of workers, or with annotations."""
    worker = {"replicas": changes.pop("replicas", 2), "template": POD}
    meta = {"name": "new", "namespace": "team", "annotations": changes}
    return yaml.safe_dump({**TFJOB, "metadata": meta, "spec": {"tfReplicaSpecs": {"Worker": worker}}})


@pytest.mark.parametrize(
    ("question", "manifest", "told"),
    [
        (("--workers", "0"), "", "--workers: 0 is not allowed; allowed: a whole number from 1 to 100000"),
        (("--workers", "-3"), "", "--workers: -3 is not allowed; allowed: a whole number from 1 to 100000"),
        (("--workers", "2", "--ps", "-1"), "", "--ps: -1 is not allowed; allowed: a whole number from 0 to 100000"),
        (
            ("--workers", "4", "--min", "4", "--max", "2"),
            "",
            "--max: 2 is not allowed; allowed: 4 or more, which is --min",
        ),
        (
            ("--workers", "2", "--requests", "cpu=banana"),
            "",
            "--requests: cpu: 'banana' is not allowed; allowed: a Kubernetes quantity such as 500m or 8Gi",
        ),
        (("--add-nodes", "nope=2"), "", "--add-nodes: 'nope' is not allowed; allowed: one of n1"),
        (("--uncordon", "nope"), "", "--uncordon: 'nope' is not allowed; allowed: one of n1"),
        (("--remove-node", "nope"), "", "--remove-node: 'nope' is not allowed; allowed: one of n1"),
        (
            ("-f", "job.yaml"),
            "kind: Pod\nmetadata: {name: a}\n",
            "-f: job.yaml: kind: 'Pod' is not allowed; allowed: one of",
        ),
        (
            ("-f", "job.yaml"),
            job(replicas="four"),
            "-f: job.yaml: spec.tfReplicaSpecs.Worker.replicas: 'four' is not allowed; allowed: a whole number",
        ),
        (
            ("-f", "job.yaml"),
            job(**{"kohort.dev/min-workers": "4", "kohort.dev/max-workers": "2"}),
            "-f: job.yaml: metadata.annotations.kohort.dev/max-workers: 2 is not allowed; allowed: 4 or more",
        ),
    ],
)
def test_what_was_given_wrong_is_told_by_its_option(
    kohort: Run, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    question: tuple[str, ...], manifest: str, told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(manifest)
    found = kohort("what-if", "--snapshot", journal, *question)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"kohort: {told}")


def test_a_journal_alone_asks_nothing(kohort: Run, journal: str) -> None:
    found = kohort("what-if", "--snapshot", journal)
    assert found.exit_code == 2
    assert found.stderr.startswith("kohort: the question is empty; give -f FILE")
