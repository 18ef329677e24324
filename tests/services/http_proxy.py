"""A forwarding HTTP proxy that asks for a user and a password."""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OF_ONE_CONNECTION = {"connection", "content-length", "keep-alive", "transfer-encoding"}


class HttpProxy:
    """Listens on a free port of 127.0.0.1 for as long as the `with` lasts.

    It alone knows where a host is: each name stands for one server of this machine.

    Attributes:
        port: where it listens.
        passed: the method and the URL of each request that went through; of TLS, CONNECT and the host of each
            connection.
        refused: how many came without the user and the password.
    """

    def __init__(self, server_port: int, user: str, password: str) -> None:
        self.passed: list[tuple[str, str]] = []
        self.refused = 0
        self._login = (user, password)
        login = base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(_Handler):
            proxy, target_port, authorization = self, server_port, f"Basic {login}"

        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._listener.daemon_threads = True
        self.port: int = self._listener.server_address[1]

    def storage_options(self) -> dict[str, str]:
        """How S3 is reached through it, in Hadoop's names."""
        user, password = self._login
        return {
            "fs.s3a.proxy.host": "127.0.0.1",
            "fs.s3a.proxy.port": str(self.port),
            "fs.s3a.proxy.username": user,
            "fs.s3a.proxy.password": password,
        }

    def __enter__(self) -> HttpProxy:
        threading.Thread(target=self._listener.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: HttpProxy
    target_port: int
    authorization: str

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._is_let_through():
            return
        del self.headers["Proxy-Authorization"]
        target = urlsplit(self.path)
        server = http.client.HTTPConnection("127.0.0.1", self.target_port)
        server.request(self.command, target._replace(scheme="", netloc="").geturl(), body, dict(self.headers))
        with server.getresponse() as answer:
            self._answer(answer.status, dict(answer.headers), answer.read())
        server.close()

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = forward

    def do_CONNECT(self) -> None:
        if not self._is_let_through():
            return
        self.close_connection = True
        with socket.create_connection(("127.0.0.1", self.target_port)) as server:
            self.send_response_only(200)
            self.end_headers()
            threading.Thread(target=_pass_on, args=(server, self.connection), daemon=True).start()
            _pass_on(self.connection, server)

    def _is_let_through(self) -> bool:
        if self.headers["Proxy-Authorization"] != self.authorization:
            self.proxy.refused += 1
            self._answer(407, {"Proxy-Authenticate": 'Basic realm="tests"'}, b"")
            return False
        self.proxy.passed.append((self.command, self.path))
        return True

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until one of the two hangs up."""
    try:
        while content := source.recv(1 << 16):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
