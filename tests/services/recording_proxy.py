"""A proxy in front of an HTTP server that hands every byte on as it is and writes down the requests."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from typing import BinaryIO

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class RecordingProxy:
    """Listens on a free port of 127.0.0.1 for as long as the `with` lasts.

    Attributes:
        port: where it listens.
        requests: (method, target) of each request so far, in the order of their arrival.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[tuple[str, str]] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    def take(self) -> list[tuple[str, str]]:
        """The requests since the last call."""
        with self._lock:
            taken, self.requests = self.requests, []
        return taken

    def __enter__(self) -> RecordingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown wakes the threads that wait on a socket; close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            with self._lock:
                self._sockets += (client, server)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        try:
            with client.makefile("rb") as source:
                while head := _head(source):
                    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                    with self._lock:
                        self.requests.append((method, target))
                    server.sendall(head)
                    for piece in _body(head, source):
                        server.sendall(piece)
        except OSError:  # one of the two has hung up
            return
        finally:
            _shut(server)


def _head(source: BinaryIO) -> bytes:
    """A request's lines up to the empty one; nothing where the client has hung up."""
    head = b""
    while line := source.readline():
        head += line
        if line == b"\r\n":
            return head
    return b""


def _body(head: bytes, source: BinaryIO) -> Iterator[bytes]:
    if _CHUNKED.search(head):
        size = -1
        while size:
            line = source.readline()
            if not line:
                return
            size = int(line.split(b";")[0], 16)
            yield line
            if size:
                yield source.read(size + 2)
        yield _head(source)  # trailers
        return
    length = _LENGTH.search(head)
    left = int(length[1]) if length else 0
    while left:
        piece = source.read(min(left, 1 << 16))
        if not piece:
            return
        left -= len(piece)
        yield piece


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while block := source.recv(1 << 16):
            target.sendall(block)
    except OSError:  # one of the two has hung up
        return
    finally:
        _shut(target)


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is already
        return
