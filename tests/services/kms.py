"""A real key server of Hadoop (KMS), whose jars come from Maven."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.services import cache, java
from tests.services.hdfs_node import write_xml
from tests.services.ports import free_port
from tests.services.process import ServerProcess

# The newest one that is in Maven.
_VERSION = "3.4.1"
_START_SECONDS = 120
_RIGHTS = ("CREATE", "DELETE", "ROLLOVER", "GET", "GET_KEYS", "GET_METADATA", "SET_KEY_MATERIAL")
_RIGHTS += ("GENERATE_EEK", "DECRYPT_EEK")
_RIGHTS_OF_KEYS = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")


class Kms:
    """A running server with its keys in `folder`. It takes anybody's word for a user's name.

    Attributes:
        uri: the value of hadoop.security.key.provider.path.
    """

    def __init__(self, folder: Path) -> None:
        self._jars = _jars()
        self._folder = folder
        self._port = free_port()
        self.uri = f"kms://http@127.0.0.1:{self._port}/kms"
        self._process: ServerProcess | None = None

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "hadoop.kms.key.provider.uri": f"jceks://file@{self._folder}/keys.jceks",
            "hadoop.kms.authentication.type": "simple",
            "hadoop.kms.http.host": "127.0.0.1",
            "hadoop.kms.http.port": str(self._port),
        }
        rights = [f"hadoop.kms.acl.{right}" for right in _RIGHTS]
        rights += [f"default.key.acl.{right}" for right in _RIGHTS_OF_KEYS]
        write_xml(self._folder / "core-site.xml", {})  # it must be there
        write_xml(self._folder / "kms-site.xml", settings)
        write_xml(self._folder / "kms-acls.xml", dict.fromkeys(rights, "*"))
        command = [java.executable(), "-Xmx128m", *java.QUICK_START]
        command += ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Dlog4j.configuration=none"]
        command += [f"-Dkms.config.dir={self._folder}", f"-Dkms.log.dir={self._folder}"]
        command += ["-cp", ":".join(map(str, [self._folder, *self._jars]))]
        command += ["org.apache.hadoop.crypto.key.kms.server.KMSWebServer"]
        self._process = ServerProcess(command, log=self._folder / "kms.log")
        end = time.monotonic() + _START_SECONDS
        while not self._ready():
            if not self._process.running() or time.monotonic() > end:
                said = self._process.log_end()
                self.stop()
                raise RuntimeError(f"The KMS did not start:\n{said}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def create_key(self, name: str) -> None:
        self._ask("keys", {"name": name, "cipher": "AES/CTR/NoPadding", "length": 128})

    def _ready(self) -> bool:
        try:
            self._ask("keys/names")
        except (urllib.error.URLError, OSError):
            return False
        return True

    def _ask(self, path: str, body: dict[str, object] | None = None) -> None:
        url = f"http://127.0.0.1:{self._port}/kms/v1/{path}?user.name=tests"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


def _jars() -> list[Path]:
    packages = [f"org.apache.hadoop:{name}:{_VERSION}" for name in ("hadoop-kms", "hadoop-common")]
    excludes = ["org.slf4j:slf4j-reload4j", "ch.qos.reload4j:*"]
    folder = cache.whole_folder(f"kms-{_VERSION}", lambda made: java.download(made, packages, excludes))
    return sorted(folder.glob("*.jar"))
