"""Sends the head and body of an answer in one write.

uvicorn alone writes the head, then the body, and each write to a socket wakes up the reader at the other end. This
module knows one transport; it must not know what is answered.
"""

from __future__ import annotations

import asyncio


class OneWrite:
    """The transport to which one request writes its answer. It holds back the head until the body comes, and writes
    both together.

    Only a head with a content-length is held back, because its body follows at once (except for HEAD). A stream has no
    content-length, and is written as it comes.
    """

    __slots__ = ("_has_body", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport, *, has_body: bool = True) -> None:
        self._transport = transport
        self._has_body = has_body
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write the data, or hold it back if it is a head whose body follows; drop it if the connection is closing."""
        if self._transport.is_closing():
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif self._has_body and data.startswith(b"HTTP/1.1 ") and b"\r\ncontent-length: " in data:
            self._head = data
            return
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Tell whether the connection is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write a head that is still held back, and close the connection once everything is written."""
        if self._head:
            self.write(b"")
        self._transport.close()
