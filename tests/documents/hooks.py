"""Hooks for mkdocs: CHANGELOG.md and other files of the root become pages, and the navigation lists whole folders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
FOLDERS: Final = {"Policies": "policies", "Decisions": "decisions"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every page of docs/policies and docs/decisions into the navigation, ordered by file name."""
    docs = Path(config.docs_dir)
    for entry in config.nav or ():
        for heading, folder in FOLDERS.items():
            if isinstance(entry, dict) and heading in entry:
                entry[heading] = [str(path.relative_to(docs)) for path in sorted((docs / folder).glob("*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the root as pages, with links into docs/ changed to fit their new place."""
    for name in PAGES:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        for other in PAGES:
            text = text.replace(f"]({other})", f"]({other.lower()})")
        files.append(File.generated(config, name.lower(), content=text))
    return files
