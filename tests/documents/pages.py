"""The pages of docs/ that are generated from the code, as a whole or in blocks between two marks.

A generated page is a title, a sentence or two for its reader, and the generated content. A block is a part of a
handwritten page between ``<!-- made: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.documents import blocks, commands, rest

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
BY: Final = "<!-- Made by `python -m tests.documents`: change the code, not this page. -->"

HEADS: Final = """\
# Annotations

Everything under `kohort.dev/` on jobs, pods and nodes. A value that cannot be read makes the job invalid: `kohort
explain` names the field, the value and what is allowed.
---
# Settings

A YAML file (`--config FILE`, or the variable `KOHORT_CONFIG`), then the environment: `KOHORT_GATE=never`,
`KOHORT_BARRIER__WINDOW_SECONDS=12`, lists as JSON: `KOHORT_API__AUDIENCES='["kohort.dev"]'`. The later wins.
Extender and controller read the same file. A setting that is
unknown, out of bounds or impossible beside another stops the start.
---
# Metrics

Prometheus, at `/metrics` of the extender (8901) and of the controller (8902). What is told may be a second
old. No label names a job, a pod or a node. A dashboard and the alerts are in `manifests/components/monitoring`
([how to monitor](../how-to/monitor.md)).
---
# Reasons and events

Why a pod or a job does not run now: one closed list, the same in pod conditions, `kohort queue`, REST and metrics.
---
# REST

On `server.port` (8900, loopback), and for [people with a token](../how-to/give-people-access.md) on `api.port` (8905),
where answers hold what they may read. Nothing here changes the cluster. The service itself has this as OpenAPI at
`/openapi.json`.
---
# Command line

`kohort`, and `kubectl kohort` where it is on PATH. `kohort COMMAND --help` says the same.
"""
TEXTS: Final[Mapping[str, Callable[[], str]]] = {
    "annotations": blocks.all_annotations,
    "settings": blocks.settings,
    "metrics": blocks.metrics,
    "reasons": blocks.reasons,
    "rest": rest.routes,
    "cli": commands.commands,
}
BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "lifecycle": blocks.lifecycle,
    "rooms": blocks.rooms,
    "kinds": blocks.kinds,
    "plugins": blocks.plugins,
}
_MARKED: Final = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def made() -> dict[Path, str]:
    """Return by path the text that every generated page, and every page with a generated block, should have."""
    heads = zip(TEXTS.items(), HEADS.split("---\n"), strict=True)
    whole = {DOCS / "reference" / f"{name}.md": f"{head}\n{BY}\n\n{text()}\n" for (name, text), head in heads}
    marked = {path: path.read_text() for path in sorted(DOCS.rglob("*.md")) if path not in whole}
    return whole | {path: _filled(text) for path, text in marked.items() if _MARKED.search(text)}


def _filled(text: str) -> str:
    """Return the page's text with all blocks generated. Raises KeyError if a mark names an unknown block."""
    return _MARKED.sub(lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}", text)
