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

from hdfsstore.fs.ahead import InOrder
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure

_OLD_MARKER = "_$folder$"
_AT_ONCE = 8


def list_folder(bucket: Bucket, key: str) -> list[FileInfo]:
    """What is in a folder, sorted by name. Memory: the result and one page of the answer."""
    found: dict[tuple[str, bool], FileInfo] = {}
    for page in _pages(bucket, f"{key}/" if key else ""):
        for info in _entries(bucket, page):
            if info.base_name:
                found[info.base_name, info.type == FileType.Directory] = info
    return [found[name] for name in sorted(found)]


def object_infos(bucket: Bucket, keys: list[str]) -> list[FileInfo]:
    """What is known of each key, in the same order.

    A list tells of a file and of a folder, where a HEAD tells of a file alone.
    """
    if len(keys) == 1:
        return [_info(bucket, keys[0])]
    infos = InOrder([partial(_info, bucket, key) for key in keys], _AT_ONCE)
    try:
        return list(infos)
    finally:
        infos.drop()


def _info(bucket: Bucket, key: str) -> FileInfo:
    """One request, unless there are other names that begin with the key: of what does, the key itself comes first."""
    path = f"{bucket.name}/{key}" if key else bucket.name
    page = next(_pages(bucket, key, most=1))
    if not key:
        return FileInfo(path, FileType.Directory)
    for each in page.get("Contents", ()):
        if each["Key"] == key:
            return _file(path, each["Size"], each["LastModified"])
    if page["KeyCount"] and not any(each["Prefix"] == f"{key}/" for each in page.get("CommonPrefixes", ())):
        page = next(_pages(bucket, f"{key}/", most=1))
    return FileInfo(path, FileType.Directory if page["KeyCount"] else FileType.NotFound)


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
