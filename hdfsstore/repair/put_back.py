"""A checkpoint as it will be after an undo, while the files are still in the backup: whether its state can be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, cast

from pyarrow.fs import FileInfo, FileType

from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import RepairError, StateStoreError
from hdfsstore.fs.file_manager import FileManager, OpenFile
from hdfsstore.repair.backup import CHECKPOINT, Backup, Change
from hdfsstore.repair.limits import Limits, Progress
from hdfsstore.state.parallel import run_all


class _PutBack:
    """A FileManager that has some files at other places, and hides others. For reading."""

    def __init__(self, fs: FileManager, hidden: Collection[str], kept: Mapping[str, str]) -> None:
        self._plain = fs
        self._hidden = set(hidden)
        self._kept = kept
        infos = fs.file_infos(list(kept.values()))
        self._sizes = {path: info.size for path, info in zip(kept, infos, strict=True)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def list_folder(self, folder: str) -> list[FileInfo]:
        found = {info.base_name: info for info in self._plain.list_folder(folder)}
        for path in self._hidden:
            where, _, name = path.rpartition("/")
            if where == folder:
                found.pop(name, None)
        for path, size in self._sizes.items():
            if path.startswith(f"{folder}/"):
                name, inner, _ = path.removeprefix(f"{folder}/").partition("/")
                if not inner:
                    found[name] = FileInfo(path, FileType.File, size=size)
                elif name not in found:
                    found[name] = FileInfo(f"{folder}/{name}", FileType.Directory)
        return [found[name] for name in sorted(found)]

    def file_infos(self, paths: list[str]) -> list[FileInfo]:
        return [self._info(path, info) for path, info in zip(paths, self._plain.file_infos(paths), strict=True)]

    def open_file(self, path: str, size: int | None = None) -> OpenFile:
        if path in self._hidden and path not in self._kept:
            raise FileNotFoundError(path)
        return self._plain.open_file(self._kept.get(path, path), size)

    def _info(self, path: str, there: FileInfo) -> FileInfo:
        if path in self._kept:
            return FileInfo(path, FileType.File, size=self._sizes[path])
        return FileInfo(path, FileType.NotFound) if path in self._hidden else there


def check_readable(backup: Backup, since: Change, limits: Limits, progress: Progress) -> None:
    """Reads the state of the batch that is the newest one after the undo.

    Args:
        since: what the query has done since the verb, which is set aside.

    Raises:
        RepairError: it cannot be read. Retention goes on with a query, and knows nothing of a backup.
    """
    fs, root = backup.fs, backup.root
    paths = [path for path in [*since.moves, *backup.change.puts] if path.startswith(CHECKPOINT)]
    hidden = [f"{root}/{path.removeprefix(CHECKPOINT)}" for path in paths]
    view = cast(FileManager, _PutBack(fs, hidden, backup.kept()))
    batch_id = None
    try:
        checkpoint = Checkpoint((view, root))
        batch_id = checkpoint.latest_batch_id
        for operator in checkpoint.operators:
            state = checkpoint.operator_state(operator.operator_id, batch_id)
            for store in state.operator.stores:

                def read(partition_id: int, state: Any = state, store: Any = store) -> None:
                    for rows in state.files(store, partition_id).stream(
                        state.version, RecordChunk.__len__, memory=limits.change_memory
                    ):
                        progress(f"operator {store.operator_id}, {store.name}: reading what comes back", rows)

                run_all([partial(read, each) for each in state.partitions(store, store.key_type)], limits.workers)
    except StateStoreError as error:
        named = "its newest batch" if batch_id is None else f"batch {batch_id}"
        raise RepairError(
            f"after the undo the state of {named} could not be read: {error}",
            backup.folder,
            remedy="Nothing was changed. The query has run since, and its retention deletes old files, also those that "
            "the backup builds on. Go on from what is there: `hdfsstore inspect` names the batches",
        ) from error
