"""Writes logs as JSON lines, one per event, on a thread of their own.

Scheduling must not wait for the reader of our output: if lines are not read in time, further ones are dropped and
counted, and the count is logged once lines can be written again. JSON escapes control characters, so that no object's
text can forge a line.
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

LINES: Final = 10_000  # LINES is the largest number of lines that wait to be written; further lines are dropped.
# At its end the process waits at most this many seconds until the queued lines are written.
FLUSH_SECONDS: Final = 1.0
_LONGEST_TEXT: Final = 4096
_current: Pipe | None = None


class Pipe(logging.Handler):
    """A logging handler that queues lines for a thread, which writes them; `emit` never waits."""

    def __init__(self, stream: TextIO, lines: int = LINES) -> None:
        """Start the writing thread; it ends with the process, even if a write to the stream blocks."""
        super().__init__()
        self.dropped = 0
        self._reported = 0
        self._put = _writer(stream)
        self._lines: queue.Queue[str | None] = queue.Queue(lines)
        self._thread = threading.Thread(target=self._write, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one line, or drop it if the queue is full or the record cannot be formatted."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:  # a record that cannot be formatted is not reported on stderr, which could block the caller
            self.dropped += 1

    def finish(self, seconds: float = FLUSH_SECONDS) -> None:
        """Write the queued lines, for at most ``seconds``."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=seconds)
            self._thread.join(seconds)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._put(line + "\n")
                if self.dropped != self._reported:
                    self._log_dropped()
            except (OSError, ValueError):  # the reader of the stream, or this process, has closed it
                self.dropped += 1

    def _log_dropped(self) -> None:
        self._reported, before = self.dropped, self._reported
        line = {
            "level": "warning",
            "logger": __name__,
            "msg": "log lines were dropped, because their reader was too slow",
            "lines": self._reported - before,
        }
        self._put(json.dumps(line) + "\n")


def _writer(stream: TextIO) -> Callable[[str], object]:
    """Return a function that writes text to the stream; if the stream has a file, directly to that and not to a buffer.

    A blocked thread that held the buffer's lock would prevent the process from exiting.
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
    global _current  # noqa: PLW0603 - a process has only one logging setup
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
    """Return how many log lines were dropped since the start."""
    return _current.dropped if _current is not None else 0


def _rename(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a log line, those that every line has first, the text as ``msg``, and long values shortened.

    The function is a structlog processor; ``event`` has the fields of one record.
    """
    event["msg"] = event.pop("event", "")
    event.pop("color_message", None)  # uvicorn repeats its text in this field with escape sequences for colours
    ordered = {key: event.pop(key) for key in ("ts", "level", "logger", "msg") if key in event} | dict(event)
    return {key: _cut(value) for key, value in ordered.items()}


def _cut(value: object) -> object:
    """Return the value without its middle if it is a long text, because a traceback's ends show caller and error."""
    if not isinstance(value, str) or len(value) <= _LONGEST_TEXT:
        return value
    head = _LONGEST_TEXT // 4
    return f"{value[:head]} … {value[head - _LONGEST_TEXT :]}"
