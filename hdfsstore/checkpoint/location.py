"""Checks that a path is a checkpoint; if not, looks for one near it."""

from __future__ import annotations

from collections.abc import Iterator

from pyarrow.fs import FileType

from hdfsstore.errors import CheckpointNotFoundError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import file_types

_CHILDREN_LOOKED_AT = 50


def check_checkpoint(fs: FileManager, path: str) -> None:
    """Raises CheckpointNotFoundError unless the path is a checkpoint; the remedy names one near it."""
    if not _is_checkpoint(fs, path):
        raise CheckpointNotFoundError("there is no checkpoint here", path, remedy=_advice(fs, path))


def _is_checkpoint(fs: FileManager, path: str) -> bool:
    types = file_types(fs, [f"{path}/offsets", f"{path}/commits", f"{path}/metadata"])
    return FileType.Directory in types[:2] or types[2] == FileType.File


def _advice(fs: FileManager, path: str) -> str:
    """Names the nearest folder around the path that is a checkpoint, if there is one."""
    try:
        near = next((folder for folder in _around(fs, path) if _is_checkpoint(fs, folder)), None)
    except StateStoreError:  # a folder around it may not be ours to look into
        near = None
    if near is not None:
        return f"{near} is one: open that"
    return "Give the checkpointLocation of a query: the folder that holds offsets, commits and state"


def _around(fs: FileManager, path: str) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]
    if FileType.Directory in file_types(fs, [path]):
        children = [info.path for info in fs.list_folder(path) if info.type == FileType.Directory]
        yield from children[:_CHILDREN_LOOKED_AT]
