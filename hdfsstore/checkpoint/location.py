"""Finds the checkpoint that a path stands for; if there is none, looks for one near it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyarrow.fs import FileType

from hdfsstore.errors import CheckpointNotFoundError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import file_types

_CHILDREN_LOOKED_AT = 50
_LOGS = "offsets", "commits", "metadata"
# In the checkpointLocation of a query of hdfsstore.spark, this folder is the checkpoint with its function's state.
OWN_FOLDER = "hdfsstore"


def find_checkpoint(fs: FileManager, path: str) -> tuple[str, str | None]:
    """The folder to open for a path, and a remark for the user where there are two checkpoints.

    A query of hdfsstore.spark has its state in a folder of its own. That one is opened, unless Spark's operators in
    the same query have state beside it.

    Raises:
        CheckpointNotFoundError: the path is no checkpoint; the remedy names one near it.
    """
    there = _entries(fs, path)
    if not _has_logs(there):
        raise CheckpointNotFoundError("there is no checkpoint here", path, remedy=_advice(fs, path, there))
    folder = f"{path}/{OWN_FOLDER}"
    if there.get(OWN_FOLDER) != FileType.Directory or _entries(fs, folder).get("state") != FileType.Directory:
        return path, None
    if there.get("state") == FileType.Directory:
        return path, f"The function of hdfsstore.spark has its state in {folder}: give that folder to see it"
    return folder, f"This is a query of hdfsstore.spark, whose state is in {folder}"


def sources_folder(fs: FileManager, path: str) -> str:
    """Where the query of a checkpoint has what its sources have noted.

    A query of hdfsstore.spark has it beside the folder with its function's state, where Spark has its own logs.
    """
    parent, _, name = path.rpartition("/")
    return f"{parent if name == OWN_FOLDER and _is_checkpoint(fs, parent) else path}/sources"


def _entries(fs: FileManager, path: str) -> dict[str, FileType]:
    """What is in a folder, by name; nothing, if the path is a file or missing."""
    try:
        return {info.base_name: info.type for info in fs.list_folder(path)}
    except StateStoreError:
        if file_types(fs, [path]) != [FileType.File]:
            raise
        return {}


def _is_checkpoint(fs: FileManager, path: str) -> bool:
    """Looks at no more than the logs: a folder around the path may have any number of entries."""
    return _has_logs(dict(zip(_LOGS, file_types(fs, [f"{path}/{name}" for name in _LOGS]), strict=True)))


def _has_logs(there: Mapping[str, FileType]) -> bool:
    offsets, commits, metadata = map(there.get, _LOGS)
    return FileType.Directory in (offsets, commits) or metadata == FileType.File


def _advice(fs: FileManager, path: str, there: Mapping[str, FileType]) -> str:
    """Names the nearest folder around the path that is a checkpoint, if there is one."""
    try:
        near = next((folder for folder in _around(path, there) if _is_checkpoint(fs, folder)), None)
    except StateStoreError:  # a folder around it may not be ours to look into
        near = None
    if near is not None:
        return f"{near} is one: open that"
    return "Give the checkpointLocation of a query: the folder that holds offsets, commits and state"


def _around(path: str, there: Mapping[str, FileType]) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]
    children = [name for name, type_ in there.items() if type_ == FileType.Directory]
    yield from (f"{path}/{name}" for name in children[:_CHILDREN_LOOKED_AT])
