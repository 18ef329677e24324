"""One MinIO for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyarrow.fs import FileSystem

from tests.services import minio as service


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Minio]:
    """A running MinIO with the bucket `checkpoints`. Where it cannot be had the test is skipped, under CI it fails."""
    try:
        executable = service.binary()
    except service.ServiceMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    server = service.Minio(executable, tmp_path_factory.mktemp("minio"))
    server.start()
    try:
        filesystem, bucket = FileSystem.from_uri(server.uri("checkpoints"))
        filesystem.create_dir(bucket)
        yield server
    finally:
        server.stop()
