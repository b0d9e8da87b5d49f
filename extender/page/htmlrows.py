"""The templates of whole pages and of the rows of lists.

The HTML of a row is reused until its content changes, so that most updates of a page cost little.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from extender.page.formatting import because, clean, clock, duration, in_line, short_name
from extender.page.frames import let_loop_run
from extender.page.marks import icon
from policy.cluster.words import and_more, counted, listed

ASSETS: Final = {
    "kohort.css": "text/css",
    "kohort.js": "text/javascript",
    "lists.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_ROWS_AT_ONCE: Final = 20  # each time that this many rows have been made, the event loop may run
_PLACE: Final = '<td class="number"></td>'
_SINCE: Final = re.compile(r'(<time data-since="([\d.]+)">)(?=</time>)')


@cache
def asset(name: str) -> bytes:
    """Return the content of a style sheet, script or icon. Raise KeyError for any name that is not in ASSETS."""
    if name not in ASSETS:
        raise KeyError(name)
    return files("extender.page").joinpath("assets", name).read_bytes()


@cache
def stamp(name: str) -> str:
    """Return a hash of the file for its URL. A changed file gets another URL, so browsers may cache it for long."""
    return hashlib.sha256(asset(name)).hexdigest()[:12]


@cache
def environment() -> Environment:
    """Return the environment of the templates: it escapes every value, and a missing value is an error."""
    found = Environment(
        loader=PackageLoader("extender.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    found.filters |= {"clean": clean, "duration": duration, "placed": placed}
    named = (and_more, because, clock, counted, duration, icon, in_line, listed, short_name, stamp)
    found.globals |= {function.__name__: function for function in named}
    return found


def placed(html: str, place: str, now: float) -> str:
    """Return a row of the queue with the job's place and waiting time filled in.

    html: the row without both, as `Rows` keeps it. In the browser kohort.js fills them in.
    """
    whole = html.replace(_PLACE, f'<td class="number">{place}</td>', 1)
    return _SINCE.sub(lambda since: f"{since[1]}{duration(now - float(since[2]))}", whole)


def page(template: str, **values: Any) -> str:
    """Return the HTML of a whole page, from its template and the template's arguments."""
    return environment().get_template(template).render(**values)


class Rows:
    """Makes the HTML of rows with the macros of rows.html.

    prefix: the path from the page that shows the rows to ``/``, such as ``../``; links to other pages begin with it.
    """

    def __init__(self, prefix: str = "") -> None:
        self._macros: Any = environment().get_template("rows.html").make_module({"prefix": prefix})
        self._known: dict[str, dict[Hashable, str]] = {}

    def html(self, macro: str, **values: Any) -> str:
        """Return the HTML of one row; ``values`` are the arguments of the macro."""
        return str(self._call(macro)(**values)).strip()

    def all(self, macro: str, rows: Sequence[Hashable], more: Iterable[str] = ()) -> list[str]:
        """Return the HTML of all rows, followed by ``more``. The HTML of a row that the last call also returned is
        reused.
        """
        known, make = self._known.get(macro, {}), self._call(macro)
        found: dict[Hashable, str] = {}
        html = []
        for at, row in enumerate(rows):
            if at % _ROWS_AT_ONCE == 0:
                let_loop_run()
            if row not in found:
                found[row] = known.get(row) or str(make(row)).strip()
            html.append(found[row])
        self._known[macro] = found
        return [*html, *more]

    def _call(self, macro: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._macros, macro)
        return found
