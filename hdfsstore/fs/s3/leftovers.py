"""Unfinished uploads: what a writer that died, or lost its server, leaves behind. They cost space and are not listed as
objects.

S3 tells of an upload its key and when it began, and nothing of who began it. So the caller says by the names which ones
may be its own, and lets some time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.s3.multipart import abort_upload


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload to a key of the bucket, and when it began by the server's clock, in nanoseconds since 1970."""

    key: str
    upload_id: str
    began_ns: int


def unfinished_uploads(bucket: Bucket, prefix: str) -> Iterator[UnfinishedUpload]:
    """Those whose key begins with the prefix. MinIO shows only those whose key is the prefix.

    Raises:
        StateStoreError: S3 fails.
    """
    arguments: dict[str, Any] = {"Prefix": prefix}
    while True:
        try:
            page = bucket.ask("LIST uploads", "list_multipart_uploads", prefix, arguments)
        except S3Failure as found:
            raise bucket.error(found, prefix) from None
        for each in page.get("Uploads", ()):
            yield UnfinishedUpload(each["Key"], each["UploadId"], int(each["Initiated"].timestamp() * 1e9))
        if not page.get("IsTruncated"):
            return
        arguments["KeyMarker"] = page["NextKeyMarker"]
        arguments["UploadIdMarker"] = page["NextUploadIdMarker"]


def abort_leftovers(bucket: Bucket, prefix: str, is_ours: Callable[[str], bool], grace_ns: int) -> int:
    """Aborts unfinished uploads below a prefix that began more than the grace period ago.

    Args:
        is_ours: by the last part of the key's name.

    Returns:
        How many were aborted.

    Raises:
        StateStoreError: S3 fails.
    """
    aborted = 0
    for upload in unfinished_uploads(bucket, prefix):
        if is_ours(upload.key.rpartition("/")[2]) and bucket.now_ns() - upload.began_ns > grace_ns:
            abort_upload(bucket, upload.key, upload.upload_id)
            aborted += 1
    return aborted
