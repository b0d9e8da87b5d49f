"""Writes logs as JSON lines, one per event, on a thread of their own.

Scheduling must not wait for the reader of our output: where the pipe is full, lines are dropped and counted, and the
count is logged once there is room again. JSON escapes control characters, so that no object's text can forge a line.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog

LINES: Final = 10_000  # lines waiting to be written; more are dropped
FLUSH_SECONDS: Final = 1.0  # how long to write at the end of the process
_LONGEST_TEXT: Final = 4096
_current: Pipe | None = None


class Pipe(logging.Handler):
    """A bounded queue with a writing thread behind it; `emit` never waits."""

    def __init__(self, stream: TextIO, lines: int = LINES) -> None:
        """Start the thread; it ends with the process, even where the stream is stuck."""
        super().__init__()
        self.dropped = 0
        self._told = 0
        self._put = _writer(stream)
        self._lines: queue.Queue[str | None] = queue.Queue(lines)
        self._thread = threading.Thread(target=self._write, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one line, or drop it."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:  # a record that cannot be formatted; reporting it on stderr could block the caller
            self.dropped += 1

    def finish(self, seconds: float = FLUSH_SECONDS) -> None:
        """Write what is queued, for at most ``seconds``."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=seconds)
            self._thread.join(seconds)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._put(line + "\n")
                if self.dropped != self._told:
                    self._tell_dropped()
            except (OSError, ValueError):  # nobody reads the stream any more
                self.dropped += 1

    def _tell_dropped(self) -> None:
        self._told, before = self.dropped, self._told
        told = {
            "level": "warning",
            "logger": __name__,
            "msg": "log lines were dropped, because nobody read them in time",
            "lines": self._told - before,
        }
        self._put(json.dumps(told) + "\n")


def _writer(stream: TextIO) -> Callable[[str], object]:
    """Return a function that writes past the stream's buffer where there is a file.

    A stuck thread that held the buffer's lock would prevent the process from exiting.
    """
    try:
        file = stream.fileno()
    except (OSError, ValueError):
        return stream.write
    return lambda text: _write_all(file, text.encode("utf-8", "backslashreplace"))


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def set_up(level: str, stream: TextIO | None = None) -> Pipe:
    """Send everything that is logged, by structlog or by the standard library, through a `Pipe` as JSON lines."""
    global _current  # noqa: PLW0603 - logging itself is one per process
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        _rename,
    ]
    pipe = Pipe(stream or sys.stdout)
    pipe.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers = [pipe]
    root.setLevel(level.upper())
    for chatty in ("httpx", "httpcore", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    atexit.register(pipe.finish)
    _current = pipe
    return pipe


def dropped() -> int:
    """Return how many lines were dropped since the start."""
    return _current.dropped if _current is not None else 0


def _rename(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Put the fields that every line has first, the text under ``msg``, and shorten values that are too long."""
    event["msg"] = event.pop("event", "")
    event.pop("color_message", None)  # uvicorn repeats its text here with escape sequences
    ordered = {key: event.pop(key) for key in ("ts", "level", "logger", "msg") if key in event} | dict(event)
    return {key: _cut(value) for key, value in ordered.items()}


def _cut(value: object) -> object:
    """Leave out the middle of a long text: the end of a traceback shows the error, its beginning the caller."""
    if not isinstance(value, str) or len(value) <= _LONGEST_TEXT:
        return value
    head = _LONGEST_TEXT // 4
    return f"{value[:head]} … {value[head - _LONGEST_TEXT :]}"
