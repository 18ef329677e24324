"""Resolves a location, which is a URI, a local path or a pair, to a FileManager and the path on it."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileSystem, SubTreeFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager, kind_of
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.redaction import scrubbed, shown

log = logging.getLogger("hdfsstore.fs")

Location: TypeAlias = str | os.PathLike[str] | tuple[FileSystem | FileManager, str]

# A URI's scheme has two letters or more: C:\checkpoint is a path.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_LOCAL = {"local", "file"}


def resolve(location: Location) -> tuple[FileManager, str]:
    """Returns what has the files of a location, and the path on it.

    Args:
        location: a URI that pyarrow.fs.FileSystem.from_uri opens, a local path, or (pyarrow.fs.FileSystem, path).
    """
    if isinstance(location, tuple):
        fs, path = location
        if isinstance(fs, FileSystem):
            return _manager(fs, os.fspath(path))
        if isinstance(fs, FileManager):
            return fs, _trimmed(os.fspath(path))
        raise TypeError(f"a pyarrow.fs.FileSystem is needed, not {type(fs).__name__}")
    text = os.fspath(location)
    if not isinstance(location, str) or not _SCHEME.match(text):
        return LocalFileManager(), _trimmed(Path(text).absolute().as_posix())
    try:
        return _manager(*_from_uri(text))
    except (OSError, ValueError, pa.ArrowException) as error:
        why = scrubbed(str(error), text)
    # Not raised in the handler: the error there has the whole URI in its text.
    raise StateStoreError(
        f"pyarrow cannot open this URI: {why}",
        shown(text),
        remedy="Give a URI that pyarrow.fs.FileSystem.from_uri knows (file, s3, gs, abfs, hdfs), "
        "or a pair (pyarrow.fs.FileSystem, path)",
    )


def place_of(fs: FileManager, path: str) -> str:
    """A path and the storage that it is on, equal for the same place, and without credentials: for files and logs."""
    return f"{fs.identity}{'' if path.startswith('/') else '/'}{path}"


def shown_location(location: Location) -> str:
    """The location as messages may show it."""
    if not isinstance(location, tuple):
        return shown(os.fspath(location))
    fs, path = location
    return place_of(fs, path) if isinstance(fs, FileManager) else f"{kind_of(fs)}:{path}"


def _manager(fs: FileSystem, path: str) -> tuple[FileManager, str]:
    while isinstance(fs, SubTreeFileSystem):
        fs, path = fs.base_fs, fs.base_path.rstrip("/") + "/" + path.lstrip("/")
    return LocalFileManager() if kind_of(fs) in _LOCAL else ArrowFileManager(fs), _trimmed(path)


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
