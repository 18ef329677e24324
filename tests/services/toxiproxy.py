"""A real toxiproxy, which stands before other servers and breaks connections: TOXIPROXY_BIN, else `toxiproxy-server` on
PATH, else built by Go.

Its toxics are those of https://github.com/Shopify/toxiproxy#toxics: latency, bandwidth, slow_close, timeout,
reset_peer, slicer, limit_data.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.services import go
from tests.services.ports import free_port
from tests.services.process import ServerProcess

MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
_START_SECONDS = 60


def executable() -> Path:
    """Raises:
    ServiceMissingError: there is none, and none can be built.
    """
    return go.executable("TOXIPROXY_BIN", "toxiproxy-server", MODULE)


class Proxy:
    """Stands before one server, for as long as the `with` lasts.

    Attributes:
        port: where it listens.
    """

    def __init__(self, toxiproxy: Toxiproxy, server_port: int) -> None:
        self._toxiproxy = toxiproxy
        self._name = str(uuid.uuid4())
        self._server_port = server_port
        self.port = 0

    def __enter__(self) -> Proxy:
        settings = {"name": self._name, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{self._server_port}"}
        answer = self._toxiproxy.ask("POST", "/proxies", settings)
        self.port = int(answer["listen"].rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._toxiproxy.ask("DELETE", f"/proxies/{self._name}")

    @contextmanager
    def toxic(
        self, kind: str, *, stream: str = "downstream", toxicity: float = 1.0, **attributes: int
    ) -> Iterator[None]:
        """For as long as the `with` lasts, connections meet a toxic.

        Args:
            kind: its type.
            stream: "downstream" is from the server to the client, "upstream" the other way.
            toxicity: the share of connections that meet it.
            attributes: of its type, `latency=20` for one.
        """
        name = str(uuid.uuid4())
        settings = {"name": name, "type": kind, "stream": stream, "toxicity": toxicity, "attributes": attributes}
        self._toxiproxy.ask("POST", f"/proxies/{self._name}/toxics", settings)
        try:
            yield
        finally:
            self._toxiproxy.ask("DELETE", f"/proxies/{self._name}/toxics/{name}")

    @contextmanager
    def down(self) -> Iterator[None]:
        """For as long as the `with` lasts, connections are cut and refused."""
        self._toxiproxy.ask("POST", f"/proxies/{self._name}", {"enabled": False})
        try:
            yield
        finally:
            self._toxiproxy.ask("POST", f"/proxies/{self._name}", {"enabled": True})


# Before MinIO the bodies of files pass the proxy too, before a NameNode only calls do.
BREAKING: dict[str, Callable[[Proxy], AbstractContextManager[None]]] = {
    "connections are reset": lambda proxy: proxy.toxic("reset_peer", timeout=0),
    "half of the connections are reset": lambda proxy: proxy.toxic("reset_peer", toxicity=0.5, timeout=0),
    "answers are lost": lambda proxy: proxy.toxic("timeout", timeout=0),
    "requests are lost": lambda proxy: proxy.toxic("timeout", stream="upstream", timeout=0),
    "answers are cut": lambda proxy: proxy.toxic("limit_data", bytes=100),
    "requests are cut": lambda proxy: proxy.toxic("limit_data", stream="upstream", bytes=1000),
    "connections are refused": lambda proxy: proxy.down(),
    "the link is slow": lambda proxy: proxy.toxic("latency", latency=200, jitter=100),
}


class Toxiproxy:
    """A running server; its log is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._executable = executable()
        self._folder = folder
        self._port = free_port()
        self._process: ServerProcess | None = None

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "toxiproxy.log"
        command = [self._executable, "-host", "127.0.0.1", "-port", str(self._port)]
        self._process = ServerProcess(command, log=log, environ={"PATH": os.environ["PATH"]})
        end = time.monotonic() + _START_SECONDS
        while not self._ready():
            if not self._process.running() or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"toxiproxy did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process = None

    @property
    def url(self) -> str:
        """Of its HTTP API."""
        return f"http://127.0.0.1:{self._port}"

    def before(self, server_port: int) -> Proxy:
        """A proxy before a server on that port of 127.0.0.1."""
        return Proxy(self, server_port)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request to its HTTP API."""
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=_START_SECONDS) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def _ready(self) -> bool:
        try:
            self.ask("GET", "/proxies")
        except (urllib.error.URLError, OSError):
            return False
        return True
