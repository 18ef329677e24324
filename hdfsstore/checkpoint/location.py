"""Finds the checkpoint that a path stands for; if there is none, looks for one near it."""

from __future__ import annotations

from collections.abc import Iterator

from pyarrow.fs import FileType

from hdfsstore.errors import CheckpointNotFoundError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import file_types

_CHILDREN_LOOKED_AT = 50
# In the checkpointLocation of a query of hdfsstore.spark, this folder is the checkpoint with its function's state.
OWN_FOLDER = "hdfsstore"


def find_checkpoint(fs: FileManager, path: str) -> tuple[str, str | None]:
    """The folder to open for a path, and a remark for the user where there are two checkpoints.

    A query of hdfsstore.spark has its state in a folder of its own. That one is opened, unless Spark's operators in
    the same query have state beside it.

    Raises:
        CheckpointNotFoundError: the path is no checkpoint; the remedy names one near it.
    """
    places = ("offsets", "commits", "metadata", "state", f"{OWN_FOLDER}/state")
    offsets, commits, metadata, state, own = file_types(fs, [f"{path}/{place}" for place in places])
    if not _has_logs(offsets, commits, metadata):
        raise CheckpointNotFoundError("there is no checkpoint here", path, remedy=_advice(fs, path))
    if own != FileType.Directory:
        return path, None
    folder = f"{path}/{OWN_FOLDER}"
    if state == FileType.Directory:
        return path, f"The function of hdfsstore.spark has its state in {folder}: give that folder to see it"
    return folder, f"This is a query of hdfsstore.spark, whose state is in {folder}"


def _is_checkpoint(fs: FileManager, path: str) -> bool:
    return _has_logs(*file_types(fs, [f"{path}/offsets", f"{path}/commits", f"{path}/metadata"]))


def _has_logs(offsets: FileType, commits: FileType, metadata: FileType) -> bool:
    return FileType.Directory in (offsets, commits) or metadata == FileType.File


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
