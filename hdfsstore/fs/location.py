"""Resolves locations: a URI, a local path or (filesystem, path) to a filesystem and the path on it."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem

from hdfsstore.errors import StateStoreError

log = logging.getLogger("hdfsstore.fs")

Location: TypeAlias = str | os.PathLike[str] | tuple[FileSystem, str]

# A URI's scheme has two letters or more: C:\checkpoint is a path.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def resolve(location: Location) -> tuple[FileSystem, str]:
    """Returns the filesystem of a location, and the path on it.

    Args:
        location: a URI that pyarrow.fs.FileSystem.from_uri opens, a local path, or (filesystem, path).
    """
    if isinstance(location, tuple):
        filesystem, path = location
        if not isinstance(filesystem, FileSystem):
            raise TypeError(f"a pyarrow.fs.FileSystem is needed, not {type(filesystem).__name__}")
        return filesystem, _trimmed(os.fspath(path))
    text = os.fspath(location)
    if not isinstance(location, str) or not _SCHEME.match(text):
        return LocalFileSystem(), _trimmed(Path(text).absolute().as_posix())
    try:
        filesystem, path = _from_uri(text)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StateStoreError(
            f"pyarrow cannot open this URI: {error}",
            text,
            remedy="Give a URI that pyarrow.fs.FileSystem.from_uri knows (file, s3, gs, abfs, hdfs), "
            "or a pair (pyarrow.fs.FileSystem, path)",
        ) from error
    return filesystem, _trimmed(path)


def _from_uri(uri: str) -> tuple[FileSystem, str]:
    if uri.startswith("s3:") and "allow_delayed_open" not in uri:
        try:  # a small file is then written by one request instead of three
            filesystem, path = FileSystem.from_uri(f"{uri}{'&' if '?' in uri else '?'}allow_delayed_open=true")
            return filesystem, path
        except pa.ArrowInvalid:
            log.debug("this pyarrow has no delayed open of S3 objects")
    filesystem, path = FileSystem.from_uri(uri)
    return filesystem, path


def _trimmed(path: str) -> str:
    return path.rstrip("/") or path[:1]
