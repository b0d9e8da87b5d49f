"""Logs: JSON lines that no text can forge, and that never make the writer wait."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from extender import logs
from extender.logs import Pipe


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(pipe: Pipe, stream: io.StringIO) -> list[dict[str, Any]]:
    pipe.finish()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_logger_and_text_first(stream: io.StringIO) -> None:
    pipe = logs.set_up("info", stream)
    logging.getLogger("extender.x").warning("seen %s", "this", extra={"job": "team/a"})
    structlog.get_logger("extender.y").info("decided", workers=3)
    logging.getLogger("extender.x").debug("not asked for")
    first, second = lines(pipe, stream)
    assert list(first) == ["ts", "level", "logger", "msg", "job"]
    assert (first["level"], first["logger"], first["msg"], first["job"]) == (
        "warning", "extender.x", "seen this", "team/a",
    )  # fmt: skip
    assert (second["logger"], second["msg"], second["workers"]) == ("extender.y", "decided", 3)


def test_no_text_can_forge_a_line_or_steer_a_terminal(stream: io.StringIO) -> None:
    pipe = logs.set_up("info", stream)
    logging.getLogger("x").warning("%s", 'a\n{"level": "error"}\x1b[2J\u2028')
    pipe.finish()
    (line,) = stream.getvalue().split("\n")[:-1]
    assert "\x1b" not in line
    assert "\u2028" not in line
    assert json.loads(line)["msg"].startswith("a\n{")


def test_a_long_traceback_keeps_its_end(stream: io.StringIO) -> None:
    pipe = logs.set_up("info", stream)
    try:
        raise ZeroDivisionError("begin " + 5000 * "x" + " and why")
    except ZeroDivisionError:
        logging.getLogger("x").exception("it failed")
    (line,) = lines(pipe, stream)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith(" and why")
    assert len(line["exception"]) < 4200


def test_a_long_text_is_cut(stream: io.StringIO) -> None:
    pipe = logs.set_up("info", stream)
    logging.getLogger("x").warning("%s", "a" * 100_000)
    assert len(lines(pipe, stream)[0]["msg"]) < 5000


def test_a_traceback_is_part_of_its_line(stream: io.StringIO) -> None:
    pipe = logs.set_up("info", stream)
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = lines(pipe, stream)
    assert "ValueError: why" in line["exception"]


def test_a_reader_that_does_not_read_costs_lines_not_time() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        pipe = Pipe(stream, lines=10)
        record = logging.LogRecord("x", logging.INFO, "", 0, "a" * 10_000, (), None)
        done = threading.Thread(target=lambda: [*map(pipe.emit, [record] * 200)], daemon=True)
        done.start()
        done.join(60)
        assert not done.is_alive()
        assert pipe.dropped >= 150
        os.set_blocking(reader, False)
        read = bytearray()
        while b"log lines were dropped, because their reader was too slow" not in read:
            try:
                read += os.read(reader, 1 << 20)
            except BlockingIOError:
                pipe.finish(0.01)
        pipe.finish()
    os.close(reader)


def test_a_closed_stream_loses_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    stream.close()
    pipe = Pipe(stream)
    pipe.emit(logging.LogRecord("x", logging.INFO, "", 0, "a", (), None))
    pipe.finish()
    assert pipe.dropped == 1


def test_what_cannot_be_formatted_is_counted_and_told_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = Pipe(io.StringIO())
    pipe.emit(logging.LogRecord("x", logging.INFO, "", 0, "%d", ("no number",), None))
    pipe.finish()
    assert pipe.dropped == 1
    assert capsys.readouterr().err == "", "standard error may be a pipe that is full"


SERVE = """
import asyncio, logging
from extender import logs
from extender.http.limits import Limits
from extender.http.server import Endpoint, serve
logs.set_up("info")
async def app(scope, receive, send):
    assert scope["type"] == "http"
    for _ in range(50):
        logging.getLogger("x").warning("a" * 4000)
    logging.getLogger("x").warning("%d", "no number")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
    raise ValueError("after the answer")
ready = lambda addresses: open(3, "w").write(f"{addresses[0][1]}\\n")
asyncio.run(serve([Endpoint(app, "127.0.0.1", 0, Limits(graceful_seconds=0.3))], ready))
"""


@pytest.mark.parametrize("reader", ["never reads", "has gone"])
def test_a_process_serves_and_stops_whatever_its_output_does(reader: str) -> None:
    """Standard output and error are one pipe, as under `kohort serve 2>&1 | something`."""
    told, told_to = os.pipe()
    output, output_to = os.pipe()
    script = f"import os; os.dup2({told_to}, 3)\n{SERVE}"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=output_to, stderr=output_to, pass_fds=(told_to,), env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    os.close(output_to)
    os.close(told_to)
    try:
        port = int(os.read(told, 10))
        if reader == "has gone":
            os.close(output)
        for _ in range(20):  # 4 MiB of lines: a pipe holds 64 KiB
            answer = httpx.get(f"http://127.0.0.1:{port}/", timeout=60, trust_env=False)
            assert answer.text == "ok"
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(told)
        if reader != "has gone":
            os.close(output)
