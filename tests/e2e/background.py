"""Work that runs in a thread beside a test."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class Background(ABC):
    """A context manager whose thread executes `run` until the context ends, which sets the event ``stopped``."""

    stopped: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name=type(self).__name__.lower(), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self._thread is not None:
            self._thread.join(10)

    @abstractmethod
    def run(self) -> None:
        """Do the thread's work, and return soon after ``stopped`` is set; subclasses implement this method."""
