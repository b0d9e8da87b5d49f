"""Tests of the page over a slow connection: parts that are drawn do not move while the rest arrives."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.browser.conftest import Look
from tests.browser.scenes import PATIENT, Scene, cluster

pytestmark = pytest.mark.full
PAUSE_SECONDS = 0.06  # The pause is longer than a frame, so that the browser draws each piece as it arrives.
WIDTHS = (1600, 1100, 600)  # The stylesheet has a layout for each of these widths in pixels.
PIECE = re.compile(rb"(?=<(?:body|header|section|div|p|h2|ul|li|ol|dl|figure|button|nav|input|table|tr)\b)")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_moves_while_the_page_still_comes(look: Look, width: int) -> None:
    scene, viewer = Scene(PATIENT), look(width=width)
    with scene.served() as url, slow_line(url) as slow:
        scene.do(*cluster(4, 6, 4, scene.ledger.now()))
        viewer.open(slow)
        viewer.page.wait_for_load_state("networkidle")
        assert viewer.page.locator(".tile").count() == 4
        assert viewer.shifts() == []


@contextmanager
def slow_line(url: str) -> Iterator[str]:
    """Serve the page of ``url`` with its HTML one element at a time, and styles and scripts at once."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/stream"):
                self.send_error(503)  # Without the stream the page is not updated.
                return
            answer = client.get(self.path)
            kind = answer.headers["content-type"]
            self.send_response(answer.status_code)
            self.send_header("content-type", kind)
            self.end_headers()
            for piece in PIECE.split(answer.content) if kind.startswith("text/html") else [answer.content]:
                self.wfile.write(piece)
                time.sleep(PAUSE_SECONDS if kind.startswith("text/html") else 0)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with httpx.Client(base_url=url) as client, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
