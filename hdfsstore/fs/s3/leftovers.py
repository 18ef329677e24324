"""Unfinished uploads: what a writer that died, or lost its server, leaves behind. They cost space and are not listed as
objects.

S3 tells of an upload its key and when it began, and nothing of who began it. So an upload is ours by its folder, in
which only Spark and this package write, and dead by its age.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.s3.multipart import abort_upload

log = logging.getLogger("hdfsstore.fs.s3")


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


def abort_leftovers(bucket: Bucket, prefix: str, grace_ns: int) -> int:
    """Aborts unfinished uploads below a prefix that began more than the grace period ago.

    Where they may not be listed, none is aborted: a lifecycle rule of the bucket does it.

    Returns:
        How many were aborted.
    """
    aborted = 0
    try:
        for upload in unfinished_uploads(bucket, prefix):
            if bucket.now_ns() - upload.began_ns > grace_ns:
                abort_upload(bucket, upload.key, upload.upload_id)
                aborted += 1
    except StateStoreError as error:
        log.info("unfinished uploads are left to the bucket's lifecycle rule: %s", error)
    return aborted
