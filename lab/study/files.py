"""Write a study's results: JSON and CSV always, Parquet if pyarrow is installed, figures if matplotlib is."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.study.studyerrors import StudyError

SIZE = (9.0, 6.0)  # width and height of a figure in inches


def folder(path: Path) -> Path:
    """Create the folder if it is missing, and return it. Raises StudyError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"--out: {error.filename}: {error.strerror}; name a folder that can be written") from None
    return path


def write_json(path: Path, value: object) -> None:
    """Write the value as indented JSON. Raises StudyError."""
    try:
        path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; name a file that can be written") from None


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """Where and in which format a command reports its result.

    ``file`` is a further file that gets the report as JSON; with ``-``, standard output gets it in place of the tables.
    ``form`` is the output format of option -o.
    """

    file: str | None = None
    form: str = "table"

    @property
    def people(self) -> bool:
        """Tell whether to print tables for people; if not, standard output gets the report and nothing else."""
        return self.file != "-" and self.form not in ("json", "yaml")

    def check(self) -> None:
        """Raise StudyError if the file cannot be written, so that this is found before hours of work.

        The content of an existing file is kept.
        """
        if self.file in (None, "-"):
            return
        path = Path(self.file or "")
        new = not path.exists()
        try:
            path.open("a", encoding="utf-8").close()
        except OSError as error:
            raise StudyError(f"--json: {path}: {error.strerror}; name a file that can be written") from None
        if new:
            path.unlink()

    def write(self, value: object) -> None:
        """Write the report to the file and to standard output, as the options say. Raises StudyError."""
        if self.file not in (None, "-"):
            write_json(Path(self.file or ""), value)
        if self.people:
            return
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
        if self.form == "yaml" and self.file != "-":
            text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=False)
        sys.stdout.write(text)


def write_rows(base: Path, rows: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``base.csv``, and ``base.parquet`` if pyarrow is installed; return the files written.

    Raises StudyError.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    try:
        with base.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise StudyError(f"{base.with_suffix('.csv')}: {error.strerror}; name a folder that can be written") from None
    return [base.with_suffix(".csv"), *_parquet(base.with_suffix(".parquet"), columns, rows)]


def _parquet(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[Path]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return []
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
    pyarrow.parquet.write_table(table, path)
    return [path]


def can_draw() -> bool:
    """Tell whether matplotlib is installed (the extra ``sim``), so that figures can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def write_figure(path: Path, draw: Callable[[Any], None]) -> Path:
    """Call ``draw`` with a new figure and save it; the suffix of the path chooses the file format."""
    from matplotlib.figure import Figure  # pyplot is avoided, because it needs a display and has global state

    figure = Figure(figsize=SIZE, layout="constrained")
    draw(figure)
    figure.savefig(path)
    return path
