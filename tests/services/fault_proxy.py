"""A proxy in front of an HTTP server that writes down the requests, and does to some of them what a test says."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_AGENT = re.compile(rb"\r\nuser-agent: *([^\r]*)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_CONDITION = re.compile(rb"\r\nif-none-match:[^\r]*", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)

Kind = Literal["answer", "reset", "lose", "cut", "cut head", "trickle", "hang", "delay", "unconditional"]


@dataclass
class Fault:
    """What becomes of requests.

    Attributes:
        kind: answer: the server never sees it, and the client gets `status` and `code`;
            reset: the connection is reset before the server sees it;
            lose: the server has answered, and the connection is reset;
            cut: the client gets `keep` bytes of the answer's body, and the connection is closed;
            cut head: the same, of the answer's status line and headers;
            trickle: the client gets the answer byte by byte, five in a second;
            hang: the server never sees it, and the client gets nothing until the proxy ends.
            delay: `before` is called, and then all goes on;
            unconditional: the server never sees an If-None-Match. It refuses a signed request for that.
        method, part: of the requests that it is for: their method, and a part of their target; "" for any.
        times: so many of them.
        statuses: of the server's answers to them.
    """

    kind: Kind
    method: str = ""
    part: str = ""
    times: int = 1
    status: int = 503
    code: str = "SlowDown"
    keep: int = 0
    before: Callable[[], object] | None = None
    met: int = field(default=0, init=False)
    statuses: list[int] = field(default_factory=list, init=False)


class FaultProxy:
    """Listens on a free port of 127.0.0.1 for as long as the `with` lasts.

    Attributes:
        port: where it listens.
        requests: (method, target) of each request, in the order of their arrival.
        agents: the User-Agent of each of them.
        connections: how many there were.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[tuple[str, str]] = []
        self.agents: list[str] = []
        self.connections = 0
        self._faults: list[Fault] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def plan(self, *faults: Fault) -> tuple[Fault, ...]:
        """From now on, each request meets the first fault that is for it and has any left."""
        with self._lock:
            self._faults = list(faults)
        return faults

    def take(self) -> list[tuple[str, str]]:
        """The requests since the last call."""
        return [request for request, _ in self.take_with_agents()]

    def take_with_agents(self) -> list[tuple[tuple[str, str], str]]:
        """The same, each with its User-Agent."""
        with self._lock:
            taken = list(zip(self.requests, self.agents, strict=True))
            self.requests, self.agents = [], []
        return taken

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        _shut(self._listener)
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
            with self._lock:
                self._sockets.append(client)
                self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            with client, client.makefile("rb") as source:
                while head := _head(source):
                    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                    agent = _AGENT.search(head)
                    fault = self._note(method, target, agent[1].decode() if agent else "")
                    kind = fault.kind if fault else None
                    if kind == "reset":
                        return _reset(client)
                    if _EXPECT.search(head):
                        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                        head = _EXPECT.sub(b"", head)
                    body = b"".join(_body(head, source))
                    if kind == "hang":
                        self._ended.wait()
                        return None
                    if kind == "answer":
                        assert fault is not None
                        client.sendall(_refusal(fault, method))
                        continue
                    if kind == "unconditional":
                        head = _CONDITION.sub(b"", head)
                    if kind == "delay" and fault is not None and fault.before is not None:
                        fault.before()
                    if server is None:
                        server = socket.create_connection(("127.0.0.1", self._server_port))
                        with self._lock:
                            self._sockets.append(server)
                        answers = server.makefile("rb")
                    server.sendall(head + body)
                    answer, content = _answer(answers, method)
                    if fault is not None:
                        fault.statuses.append(int(answer.split(b" ", 2)[1]))
                    if kind == "lose":
                        return _reset(client)
                    if kind == "cut":
                        assert fault is not None
                        client.sendall(answer + content[: fault.keep])
                        return None
                    if kind == "cut head":
                        assert fault is not None
                        client.sendall(answer[: min(fault.keep, len(answer) - 1)])
                        return None
                    if kind == "trickle":
                        for at in range(len(answer)):
                            client.sendall(answer[at : at + 1])
                            if self._ended.wait(0.2):
                                return None
                    client.sendall((b"" if kind == "trickle" else answer) + content)
        except OSError:  # one of the two has hung up
            return None
        finally:
            if server is not None:
                _shut(server)

    def _note(self, method: str, target: str, agent: str) -> Fault | None:
        with self._lock:
            self.requests.append((method, target))
            self.agents.append(agent)
            for fault in self._faults:
                if fault.met < fault.times and fault.method in ("", method) and fault.part in target:
                    fault.met += 1
                    return fault
        return None


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


def _answer(source: BinaryIO, method: str) -> tuple[bytes, bytes]:
    head = _head(source)
    if not head:
        raise ConnectionError("the server has hung up")
    status = int(head.split(b" ", 2)[1])
    bare = method == "HEAD" or status in (204, 304) or status < 200
    return head, b"" if bare else b"".join(_body(head, source))


def _refusal(fault: Fault, method: str) -> bytes:
    text = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>as planned</Message></Error>".encode()
    head = f"HTTP/1.1 {fault.status} Planned\r\nContent-Type: application/xml\r\nx-amz-request-id: PLANNED\r\n"
    head += f"Content-Length: {len(text)}\r\n\r\n"
    return head.encode() + (b"" if method == "HEAD" else text)


def _reset(client: socket.socket) -> None:
    """Closes with a RST instead of a FIN."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is already
        return
