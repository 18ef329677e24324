"""Where one and the same test runs: on a local disk, on HDFS, on S3."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.settings import ClientName
from hdfsstore.fs.location import resolve
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio

BUCKET = "checkpoints"
PLACES = ("local", "hdfs", "minio")


@dataclass(frozen=True)
class Place:
    """A folder of a test's own, which does not exist yet.

    Attributes:
        uri: of the folder.
        storage_options: how it is reached. They are Hadoop's settings, so Spark takes them too.
    """

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _resolved(self) -> tuple[FileManager, str]:
        return resolve(self.uri, self.storage_options)

    @property
    def files(self) -> FileManager:
        return self._resolved[0]

    @property
    def path(self) -> str:
        """Of the folder, as its FileManager takes it."""
        return self._resolved[1]


def on_local_disk(folder: Path) -> Place:
    return Place((folder / "place").as_uri())


def on_hdfs(hdfs: Hdfs, *, port: int | None = None, timeout_s: float = 60, client: ClientName | None = None) -> Place:
    """Args:
    port: of a proxy before the NameNode.
    """
    uri = hdfs.uri(f"tests/{uuid.uuid4()}", port)
    chosen = {} if client is None else {"client": client}
    return Place(uri, {**hdfs.client_conf, **chosen, "timeout": str(timeout_s)})


def on_minio(minio: Minio, *, port: int | None = None, timeout_s: float = 60) -> Place:
    """Args:
    port: of a proxy before the server.
    """
    options = {**minio.storage_options(port), "timeout": str(timeout_s)}
    return Place(f"s3a://{BUCKET}/{uuid.uuid4()}", options)
