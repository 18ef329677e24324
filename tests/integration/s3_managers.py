"""Nothing: what the tests of S3's FileManager share."""

from __future__ import annotations

from typing import Any

from hdfsstore.fs.s3.open import open_bucket
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret
from tests.services import minio as service

BUCKET = "checkpoints"


def settings(port: int, **others: Any) -> S3Settings:
    chosen: dict[str, Any] = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "path_style": True,
        "access_key": Secret(service.USER),
        "secret_key": Secret(service.PASSWORD),
    }
    return S3Settings(**{**chosen, **others})


def manager(port: int, **others: Any) -> S3FileManager:
    return open_bucket(settings(port, **others), BUCKET)


def read(files: S3FileManager, path: str, size: int | None = None) -> bytes:
    file = files.open_file(path, size)
    content = bytearray()
    block = bytearray(300_000)
    while n := file.readinto(block):
        content += block[:n]
    file.close()
    return bytes(content)
