"""mkdocs hooks: pages of the checkout's root (CHANGELOG.md ...) become pages of the site; folders fill the
navigation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
FOLDERS: Final = {"Policies": "policies", "Decisions": "decisions"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every page of a folder below its heading, in the order of the names."""
    docs = Path(config.docs_dir)
    for entry in config.nav or ():
        for heading, folder in FOLDERS.items():
            if isinstance(entry, dict) and heading in entry:
                entry[heading] = [str(path.relative_to(docs)) for path in sorted((docs / folder).glob("*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root; their links lead into docs/ from one level above."""
    for name in PAGES:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        for other in PAGES:
            text = text.replace(f"]({other})", f"]({other.lower()})")
        files.append(File.generated(config, name.lower(), content=text))
    return files
