"""Logs: JSON lines that no text can forge, and that never make the writer wait."""

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

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
        done.join(5)
        assert not done.is_alive()
        assert pipe.dropped >= 150
        os.set_blocking(reader, False)
        read = bytearray()
        while b"log lines were dropped" not in read:
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
