"""A real MinIO: MINIO_BIN, else `minio` on PATH, else built once by Go into the cache folder (some minutes)."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
USER = "hdfsstore"
PASSWORD = "hdfsstore-secret"
_START_SECONDS = 120  # and to end
# None that the system gives to connections: the port stays free while the server is stopped.
_PORTS = range(20_000, 32_000)
_BUILD_SECONDS = 1800


class ServiceMissingError(Exception):
    """The server cannot be had on this machine; the message says what to install."""


def binary() -> Path:
    """The server's executable, built where there is none yet.

    Raises:
        ServiceMissingError: there is none, and no Go that could build it.
    """
    for found in (os.environ.get("MINIO_BIN"), shutil.which("minio")):
        if found:
            return Path(found)
    folder = Path(os.environ.get("HDFSSTORE_CACHE", Path.home() / ".cache" / "hdfsstore")) / "bin"
    executable = folder / "minio"
    if not executable.exists():
        _build(folder)
    return executable


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ServiceMissingError("The tests on S3 need MinIO: install Go 1.24 or newer, or set MINIO_BIN to a minio")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hdfsstore-go-") as scratch:
        # -modcacherw: else the temporary folder could not be deleted.
        environ = {
            **os.environ,
            "GOBIN": str(folder),
            "GOPATH": f"{scratch}/path",
            "GOCACHE": f"{scratch}/cache",
            "GOFLAGS": "-modcacherw",
        }
        done = subprocess.run(
            [go, "install", MODULE],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_SECONDS,
        )
    if done.returncode:
        raise ServiceMissingError(f"Go could not build MinIO:\n{done.stdout[-2000:]}")


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # somebody has it
                continue
        return port
    raise ServiceMissingError(f"There is no free port in {_PORTS}")


class Minio:
    """A running server with its data in `folder`; `stop` and `start` again keep data and port."""

    def __init__(self, executable: Path, folder: Path) -> None:
        self._executable = executable
        self._folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = (self._folder / "minio.log").open("ab")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "MINIO_ROOT_USER": USER,
            "MINIO_ROOT_PASSWORD": PASSWORD,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_CI_CD": "1",
        }
        command = [self._executable, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", self._folder / "data"]
        with log:
            self._process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        end = time.monotonic() + _START_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"MinIO did not start: {(self._folder / 'minio.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_START_SECONDS)
            self._process = None

    def uri(self, path: str, port: int | None = None) -> str:
        """The URI of bucket/path, through another port (a proxy's) where one is given."""
        query = (
            f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        )
        return f"s3://{USER}:{PASSWORD}@{path}?{query}"

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/minio/health/cluster", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
