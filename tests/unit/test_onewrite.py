"""How many writes to the socket an HTTP answer takes."""

from typing import Any, cast

import pytest

from extender.http.onewrite import OneWrite

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
STREAMED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Socket:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ([HEAD, b"{}"], [HEAD + b"{}"]),
        ([HEAD, b""], [HEAD]),
        ([HEAD, b"{", b"}"], [HEAD + b"{", b"}"]),
        ([STREAMED, b"2\r\n{}\r\n", b"0\r\n\r\n"], [STREAMED, b"2\r\n{}\r\n", b"0\r\n\r\n"]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", HEAD, b"{}"], [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"{}"]),
    ],
    ids=["with a body", "with an empty one", "in two parts", "streamed", "after a word in between"],
)
def test_a_head_with_a_length_leaves_with_its_body(parts: list[bytes], written: list[bytes]) -> None:
    socket = Socket()
    answer = OneWrite(cast(Any, socket))
    for part in parts:
        answer.write(part)
    assert socket.written == written


def test_a_head_whose_body_never_comes_leaves_before_the_end() -> None:
    socket = Socket()
    answer = OneWrite(cast(Any, socket))
    answer.write(HEAD)
    answer.close()
    assert socket.written == [HEAD, b"closed"]


def test_a_head_without_a_body_waits_for_none() -> None:
    socket = Socket()
    OneWrite(cast(Any, socket), has_body=False).write(HEAD)
    assert socket.written == [HEAD]


def test_nothing_is_written_to_a_connection_that_was_cut() -> None:
    socket = Socket()
    answer = OneWrite(cast(Any, socket))
    answer.write(HEAD)
    socket.closing = True
    answer.write(b"{}")
    answer.close()
    assert socket.written == [b"closed"]
