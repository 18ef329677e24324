"""Folders of a bucket: what the names of its objects have in common up to a slash.

an object                what it is
folder/name              a file
folder/name/...          makes `name` a folder
folder/                  a marker, which s3a keeps for a folder without files: no file
name_$folder$            the same, by older tools: no file, but it makes `name` a folder
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from pyarrow.fs import FileInfo, FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure, hidden_object
from hdfsstore.fs.threads import Job

_OLD_MARKER = "_$folder$"
_PARALLEL = 8


def list_folder(bucket: Bucket, key: str) -> list[FileInfo]:
    """What is in a folder, sorted by name. Memory: the result and one page of the answer."""
    found: dict[tuple[str, bool], FileInfo] = {}
    for page in _pages(bucket, f"{key}/" if key else ""):
        for info in _entries(bucket, page):
            if info.base_name:
                found[info.base_name, info.type == FileType.Directory] = info
    return [found[name] for name in sorted(found)]


def object_infos(bucket: Bucket, keys: list[str]) -> list[FileInfo]:
    """What is known of each key, in the same order."""
    if len(keys) == 1:
        return [_info(bucket, keys[0])]
    infos: list[FileInfo] = []
    for start in range(0, len(keys), _PARALLEL):
        jobs = [Job(partial(_info, bucket, key)) for key in keys[start : start + _PARALLEL]]
        for job in jobs:
            job.start()
        for job in jobs:
            while not job.wait(1):  # a signal that arrives just before a wait does not end it
                pass
        infos += [job.result() for job in jobs]
    return infos


def _info(bucket: Bucket, key: str) -> FileInfo:
    path = f"{bucket.name}/{key}" if key else bucket.name
    if key:
        try:
            answer = bucket.ask("HEAD", "head_object", key, {"Key": key, **bucket.of_objects})
        except S3Failure as found:
            if found.status != 404:
                raise _why(bucket, key, found) from None
        else:
            return _file(path, answer["ContentLength"], answer["LastModified"])
    page = next(_pages(bucket, f"{key}/" if key else "", most=1))
    kind = FileType.Directory if page["KeyCount"] or not key else FileType.NotFound
    return FileInfo(path, kind)


def _why(bucket: Bucket, key: str, found: S3Failure) -> StateStoreError:
    """The error of a HEAD, whose answer has no text. A GET tells why."""
    try:
        bucket.ask(
            "GET",
            "get_object",
            key,
            {"Key": key, "Range": "bytes=0-0", **bucket.of_objects},
            then=lambda a: a["Body"].close(),
        )
    except S3Failure as told:
        if told.status == found.status:
            found = told
    return bucket.error(hidden_object(found), key)


def _pages(bucket: Bucket, prefix: str, most: int = 1000) -> Iterator[dict[str, Any]]:
    arguments = {"Prefix": prefix, "Delimiter": "/", "MaxKeys": most, **bucket.of_all}
    while True:
        try:
            page = bucket.ask("LIST", "list_objects_v2", prefix, arguments)
        except S3Failure as found:
            raise bucket.error(found, prefix) from None
        yield page
        if not page.get("IsTruncated"):
            return
        arguments["ContinuationToken"] = page["NextContinuationToken"]


def _entries(bucket: Bucket, page: dict[str, Any]) -> Iterator[FileInfo]:
    for common in page.get("CommonPrefixes", ()):
        yield FileInfo(f"{bucket.name}/{common['Prefix'].removesuffix('/')}", FileType.Directory)
    for each in page.get("Contents", ()):
        key: str = each["Key"]
        if key.endswith(_OLD_MARKER):
            yield FileInfo(f"{bucket.name}/{key.removesuffix(_OLD_MARKER)}", FileType.Directory)
        elif not key.endswith("/"):
            yield _file(f"{bucket.name}/{key}", each["Size"], each["LastModified"])


def _file(path: str, size: int, modified: datetime) -> FileInfo:
    return FileInfo(path, FileType.File, size=size, mtime_ns=int(modified.timestamp()) * 10**9)
