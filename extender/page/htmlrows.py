"""Templates: whole pages, and rows that are kept as long as they show the same, which makes most of a frame cheap."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from extender.page.formatting import amount, because, clean, clock, duration, short_name
from extender.page.frames import let_loop_run
from extender.page.marks import icon
from policy.cluster.words import and_more, counted, listed

ASSETS: Final = {
    "kohort.css": "text/css",
    "kohort.js": "text/javascript",
    "lists.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_BREATH: Final = 20  # rows
_PLACE: Final = '<td class="number"></td>'
_SINCE: Final = re.compile(r'(<time data-since="([\d.]+)">)(?=</time>)')


@cache
def asset(name: str) -> bytes:
    """Return a file of the package. Raise KeyError for any name that is not in ASSETS."""
    if name not in ASSETS:
        raise KeyError(name)
    return files("extender.page").joinpath("assets", name).read_bytes()


@cache
def stamp(name: str) -> str:
    """Return a hash of the file for the asset's URL, so that browsers may keep the file for ever."""
    return hashlib.sha256(asset(name)).hexdigest()[:12]


@cache
def environment() -> Environment:
    """Return the templates. Every value is escaped, and a value that is missing is an error."""
    found = Environment(
        loader=PackageLoader("extender.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    found.filters |= {"clean": clean, "duration": duration, "placed": placed}
    named = (amount, and_more, because, clock, counted, duration, icon, listed, short_name, stamp)
    found.globals |= {function.__name__: function for function in named}
    return found


def placed(html: str, place: str, now: float) -> str:
    """Return a row of the queue with its place and its wait, which the kept rows leave out.

    In the browser kohort.js does the same.
    """
    whole = html.replace(_PLACE, f'<td class="number">{place}</td>', 1)
    return _SINCE.sub(lambda since: f"{since[1]}{duration(now - float(since[2]))}", whole)


def page(template: str, **values: Any) -> str:
    """Return a whole page."""
    return environment().get_template(template).render(**values)


class Rows:
    """Rows made by the macros of rows.html.

    prefix: of links to other pages, relative to the address of the page that shows the rows.
    """

    def __init__(self, prefix: str = "") -> None:
        self._macros: Any = environment().get_template("rows.html").make_module({"prefix": prefix})
        self._known: dict[str, dict[Hashable, str]] = {}

    def html(self, macro: str, **values: Any) -> str:
        """Return one row."""
        return str(self._call(macro)(**values)).strip()

    def all(self, macro: str, rows: Sequence[Hashable], more: Iterable[str] = ()) -> list[str]:
        """Return all rows and then ``more``; a row that the last call returned is not made again."""
        known, make = self._known.get(macro, {}), self._call(macro)
        found: dict[Hashable, str] = {}
        html = []
        for at, row in enumerate(rows):
            if at % _BREATH == 0:
                let_loop_run()
            if row not in found:
                found[row] = known.get(row) or str(make(row)).strip()
            html.append(found[row])
        self._known[macro] = found
        return [*html, *more]

    def _call(self, macro: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._macros, macro)
        return found
