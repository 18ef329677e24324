"""A real MinIO: MINIO_BIN, else `minio` on PATH, else built by Go."""

from __future__ import annotations

import base64
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from pyarrow.fs import FileSystem

from tests.services import go
from tests.services.certificates import CA, DOMAIN, make_certificates
from tests.services.ports import free_port
from tests.services.process import ServerProcess

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
USER = "hdfsstore"
PASSWORD = "hdfsstore-secret"
KMS_KEY = "key-of-the-tests"
_START_SECONDS = 120


def executable() -> Path:
    """Raises:
    ServiceMissingError: there is none, and none can be built.
    """
    return go.executable("MINIO_BIN", "minio", MODULE)


class Minio:
    """A running server with its data in `folder`; `stop` and `start` again keep data and port.

    Args:
        secure: it speaks TLS alone, and can encrypt, also with KMS_KEY.

    Attributes:
        ca_file: the certificates to trust; None: it speaks no TLS.
    """

    def __init__(self, folder: Path, *, secure: bool = False) -> None:
        self._executable = executable()
        self._folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.ca_file = folder / "certificates" / CA if secure else None
        if self.ca_file is not None:
            make_certificates(self.ca_file.parent)
        self._process: ServerProcess | None = None

    @property
    def process(self) -> ServerProcess:
        """To freeze it, for one."""
        assert self._process is not None, "MinIO is not started"
        return self._process

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "MINIO_ROOT_USER": USER,
            "MINIO_ROOT_PASSWORD": PASSWORD,
            "MINIO_DOMAIN": DOMAIN,  # a bucket may be before it
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_CI_CD": "1",
        }
        command: list[str | Path] = [self._executable, "server", "--quiet", "--address", f"127.0.0.1:{self.port}"]
        if self.ca_file is not None:
            environ["MINIO_KMS_SECRET_KEY"] = f"{KMS_KEY}:{base64.b64encode(bytes(32)).decode()}"
            command += ["--certs-dir", str(self.ca_file.parent)]
        command.append(self.data)
        self._process = ServerProcess(command, log=self._folder / "minio.log", environ=environ)
        end = time.monotonic() + _START_SECONDS
        while not self._ready():
            if not self.process.running() or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"MinIO did not start:\n{(self._folder / 'minio.log').read_text()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process = None

    def endpoint(self, port: int | None = None) -> str:
        """Its URL, through another port (a proxy's) where one is given."""
        return f"{'http' if self.ca_file is None else 'https'}://127.0.0.1:{port or self.port}"

    def uri(self, path: str, port: int | None = None) -> str:
        """The URI of bucket/path, through another port (a proxy's) where one is given."""
        query = (
            f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        )
        return f"s3://{USER}:{PASSWORD}@{path}?{query}"

    def create_bucket(self, name: str) -> None:
        filesystem, bucket = FileSystem.from_uri(self.uri(name))
        filesystem.create_dir(bucket)

    def storage_options(self, port: int | None = None) -> dict[str, str]:
        """How `s3a://bucket/path` is reached, in Hadoop's names, through another port where one is given."""
        return {
            "fs.s3a.endpoint": self.endpoint(port),
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": USER,
            "fs.s3a.secret.key": PASSWORD,
        }

    def _ready(self) -> bool:
        trust = ssl.create_default_context(cafile=self.ca_file)
        try:
            with urllib.request.urlopen(f"{self.endpoint()}/minio/health/cluster", timeout=2, context=trust) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
