"""Opens a bucket, where botocore is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.settings import S3Settings

if TYPE_CHECKING:
    from hdfsstore.fs.s3.s3_files import S3FileManager


def open_bucket(settings: S3Settings, bucket: str) -> S3FileManager:
    """The files of a bucket.

    Raises:
        StateStoreError: botocore is missing, or makes no client of these settings.
    """
    try:
        import botocore  # noqa: F401
    except ImportError as error:
        raise StateStoreError(
            "S3 needs the package botocore, which is not installed",
            f"s3://{bucket}",
            remedy="pip install 'hdfsstore[s3]'",
        ) from error
    from hdfsstore.fs.s3.s3_files import S3FileManager

    return S3FileManager(settings, bucket)
