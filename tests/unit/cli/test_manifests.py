"""Manifests for ``kohort what-if -f`` as people have them; they are read as kubectl reads them.

tests/e2e/test_manifests_agree.py gives the same manifests to kubectl.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from extender.cli.errors import CliError
from extender.cli.whatifoptions import manifest

Json = dict[str, Any]
JOB = "kind: TFJob\napiVersion: kubeflow.org/v1\nmetadata: {name: j}\n"
MEMBER = "{kind: TFJob, apiVersion: kubeflow.org/v1, metadata: {name: j}}"
NINE = "".join(f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n" for before, after in pairwise("abcdefg"))
BOMB = f"a: &a [{', '.join('x' * 9)}]\n{NINE}{JOB}"

# Each manifest with the labels of its objects, in order.
READ: dict[str, tuple[bytes, list[str]]] = {
    "one document": (JOB.encode(), ["TFJob j"]),
    "JSON": (b'{"kind": "TFJob", "apiVersion": "kubeflow.org/v1", "metadata": {"name": "j"}}', ["TFJob j"]),
    "JSON with tabs": (b'{\n\t"kind": "TFJob",\n\t"apiVersion": "v1",\n\t"metadata": {"name": "j"}\n}', ["TFJob j"]),
    "empty documents": (f"---\n---\n{JOB}---\n# nothing\n---\nnull\n---\n".encode(), ["TFJob j"]),
    "an end of a document": (f"{JOB}...\n---\nkind: Pod\napiVersion: v1\n".encode(), ["TFJob j", "Pod -"]),
    "a byte order mark": (b"\xef\xbb\xbf" + JOB.encode(), ["TFJob j"]),
    "Windows line ends": (JOB.replace("\n", "\r\n").encode(), ["TFJob j"]),
    "UTF-16": (JOB.encode("utf-16"), ["TFJob j"]),
    "a List": (f"kind: List\napiVersion: v1\nitems:\n- {MEMBER}\n".encode(), ["TFJob j"]),
    "a list of one kind": (f"kind: TFJobList\napiVersion: kubeflow.org/v1\nitems:\n- {MEMBER}\n".encode(), ["TFJob j"]),
    "an empty List beside it": (f"kind: List\napiVersion: v1\nitems: []\n---\n{JOB}".encode(), ["TFJob j"]),
    "a Job of Volcano's beside it": (
        f"{JOB}---\nkind: Job\napiVersion: batch.volcano.sh/v1alpha1\nmetadata: {{name: v}}\n".encode(),
        ["TFJob j", "Job v"],
    ),
    "a generated name": (JOB.replace("name:", "generateName:").replace("j}", "j-}").encode(), ["TFJob j-"]),
    "an anchor": (f"x: &a {{b: 1}}\ny: *a\n{JOB}".encode(), ["TFJob j"]),
}
# Manifests that kubectl refuses too, with what is reported.
REFUSED = {
    "a tab before a key": (
        b"kind: TFJob\n\tapiVersion: v1\n",
        "neither JSON nor YAML: found character '\\t' that",
    ),
    "a JSON list": (b'[{"kind": "TFJob"}]', "holds a list; allowed: one job's manifest, which is a mapping"),
    "text": (b"just text\n", "holds a single value; allowed: one job's manifest"),
    "a list in a list": (
        f"kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items:\n  - {MEMBER}\n".encode(),
        "holds a list within a list; allowed: one job's manifest, or a list of objects",
    ),
    "a number in a List": (b"kind: List\napiVersion: v1\nitems:\n- 3\n", "holds a single value"),
    "aliases that grow": (BOMB.encode(), "a document has more than 200000 values, or an alias of itself"),
    "an alias of itself": (b"kind: Pod\nmetadata: &m {x: *m}\n", "or an alias of itself; give one job's manifest"),
    "compressed": (b"\x1f\x8b\x08\x00\x00", "neither JSON nor YAML: unacceptable character #x008b"),
    "a control character": (b"kind: TFJob\nmetadata: {name: \x01}\n", "special characters are not allowed"),
    "an open bracket": (b"a: [", "neither JSON nor YAML: "),
    "a number without end": (f"{JOB}x: .inf\n".encode(), "one of its values is inf, which is not allowed; allowed: "),
    "an unknown anchor": (b"kind: TFJob\nx: *none\n", "found undefined alias"),
}
# Manifests that kubectl reads, and that are refused here, because JSON cannot express them as they are.
ONLY_HERE = {
    "NaN in JSON": b'{"kind": "TFJob", "x": NaN}',
    "bytes": f"{JOB}x: !!binary aGVsbG8=\n".encode(),
    "a set": f"{JOB}x: !!set {{a, b}}\n".encode(),
    "a date": f"{JOB}x: !!timestamp 2026-01-01\n".encode(),
}
# Texts that YAML 1.1 would read as a date or as a number of base 60.
SCALARS = {"2026-01-01": "2026-01-01", "12:30": "12:30", "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z", "0o17": 15}


def read(folder: Path, content: bytes) -> tuple[Json, tuple[str, ...]]:
    (folder / "job.yaml").write_bytes(content)
    return manifest(folder / "job.yaml")


@pytest.mark.parametrize(("content", "labels"), READ.values(), ids=READ.keys())
def test_a_manifest_is_read_as_kubectl_reads_it(tmp_path: Path, content: bytes, labels: list[str]) -> None:
    job, others = read(tmp_path, content)
    meta = job["metadata"]
    assert [f"{job['kind']} {meta.get('name') or meta['generateName']}", *others] == labels


@pytest.mark.parametrize(("content", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_kubectl_refuses_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(CliError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"-f: {tmp_path / 'job.yaml'}: ")
    assert told in str(error.value)
    assert error.value.code == 2


@pytest.mark.parametrize("content", ONLY_HERE.values(), ids=ONLY_HERE.keys())
def test_what_json_cannot_express_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CliError, match=r"one of its values is .*, which is not allowed; allowed: text, numbers, "):
        read(tmp_path, content)


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_a_scalar_is_what_it_is_to_kubectl(tmp_path: Path, text: str, value: object) -> None:
    assert read(tmp_path, f"{JOB}data: {{a: {text}}}\n".encode())[0]["data"] == {"a": value}
