"""Stands before a NameNode, and loses or holds back what a test names."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_BLOCK = 1 << 16


class NameNodeProxy:
    """Passes connections on to a NameNode at 127.0.0.1.

    Attributes:
        port: that of the proxy.
        carried_out: the NameNode has answered the request whose answer is lost.
        held: a request is, or was, held back.
    """

    def __init__(self, namenode_port: int) -> None:
        self._namenode_port = namenode_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lost: bytes | None = None
        self._held: bytes | None = None
        self._cut = False
        self._released = threading.Event()
        self.carried_out = threading.Event()
        self.held = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self, method: str) -> None:
        """The connection ends when the NameNode answers the next request of a method; the answer does not arrive."""
        self.carried_out.clear()
        self._lost = method.encode()

    @contextmanager
    def holding(self, method: str, *, cut: bool = False) -> Iterator[None]:
        """A request of a method reaches the NameNode when the block ends.

        Args:
            method: or a part of a path.
            cut: the client's connection ends at once, so that the client tries again and never hears of it.
        """
        self._released.clear()
        self.held.clear()
        self._cut = cut
        self._held = method.encode()
        try:
            yield
        finally:
            self._held = None
            self._released.set()

    def close(self) -> None:
        _end(self._listener)  # else `accept` may go on with the number of the file, which is the next proxy's
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._namenode_port))
            lose = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, lose), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server, lose), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, lose: threading.Event) -> None:
        while block := _received(client):
            if self._lost and self._lost in block:
                self._lost = None
                lose.set()
            if self._held and self._held in block:
                self.held.set()
                if self._cut:
                    lose.set()
                    _end(client)
                self._released.wait()
            server.sendall(block)
        # A NameNode whose client has ended does not say that it has carried out a request.
        if not lose.is_set():
            _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, lose: threading.Event) -> None:
        while block := _received(server):
            if lose.is_set():
                self.carried_out.set()
                break
            client.sendall(block)
        _end(client, server)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(_BLOCK)
    except OSError:
        return b""


def _end(*ends: socket.socket) -> None:
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # ended already
