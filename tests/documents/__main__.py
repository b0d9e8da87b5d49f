"""``python -m tests.documents``: write every generated page and block, and print which have changed."""

from __future__ import annotations

from tests.documents.pages import ROOT, made


def main() -> None:
    """Write each generated page whose text differs from the file, and print its path."""
    for path, text in made().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
