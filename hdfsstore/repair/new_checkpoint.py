"""Writes a whole new checkpoint from which Spark goes on after batch N.

    offsets/<N>                   first the guard, which Spark refuses (checkpoint/guard.py); last the entry itself
    state/<op>/<partition>/       version N + 1 of each store, a snapshot or a zip
    state/<op>/_metadata, _stateSchema, 0/_metadata    of the operator; absolute paths lead into the new checkpoint
    sources/                      the logs of the sources, byte for byte
    metadata, commits/<N-1>, commits/<N>, offsets/<N-1>, and entries of batches that were begun, if they are kept: then
                                  the guard is in the place of the newest one

Killed at any write, Spark refuses to start from the new checkpoint. The same call again empties it and writes it anew.
It takes the guard over: a process that is still at work, and was only taken for dead, stops before its next file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike

from pyarrow.fs import FileType

from hdfsstore.checkpoint.guard import TO_NEW, parse_guard
from hdfsstore.checkpoint.metadata_log import NUMBER
from hdfsstore.checkpoint.query_metadata import encode_query_metadata
from hdfsstore.errors import RepairError
from hdfsstore.fs.checksum_files import hadoop_name
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import Location, StorageLocation, find_settings, resolve
from hdfsstore.fs.publish import publish
from hdfsstore.fs.reading import file_types, read_file
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from hdfsstore.fs.uris import scheme_of
from hdfsstore.repair.checked_files import checked_files
from hdfsstore.repair.held_guard import HeldGuard
from hdfsstore.repair.log_entries import with_conf, with_operator, with_unique_ids
from hdfsstore.repair.rewrite import UniqueIds
from hdfsstore.repair.source import Source


class NewCheckpoint:
    """The checkpoint that is written.

    Args:
        source: from which it is made.
        location, storage_options: an empty or missing folder, as Checkpoint takes them; or one that a killed run left.

    Raises:
        RepairError: something is there, or the source is in it.
    """

    def __init__(self, source: Source, location: Location, storage_options: StorageOptions | None = None) -> None:
        self._source = source
        self.fs, self.path = resolve(location, storage_options)
        self._uri = _uri_of(self.fs, self.path, location, storage_options)
        ours, theirs = _real(self.fs, self.path), _real(source.fs, source.path)
        if self.fs.identity == source.fs.identity and (ours.startswith(theirs) or theirs.startswith(ours)):
            raise RepairError(
                "the new checkpoint would lie in its source, or around it", self.path, remedy="Give another folder"
            )
        if file_types(self.fs, [self.path]) == [FileType.File]:
            raise RepairError("this is a file, and no folder", self.path, remedy="Give a folder that is new")
        self._left = self._guard()
        if self._left is None and self._files():
            raise RepairError(
                "there are files already, and nothing is written over", self.path, remedy="Give a folder that is new"
            )

    def write(
        self,
        write_state: Callable[[FileManager, str, int], UniqueIds],
        *,
        query_id: str,
        conf: Mapping[str, str],
        partitions: int | None,
        keep: Sequence[int] = (),
    ) -> list[str]:
        """Writes all of it.

        Args:
            write_state: writes the state as a version below a path, and returns its unique ids.
            query_id: of the new checkpoint.
            conf: settings that change.
            partitions: the number of partitions of each store; None: as it is.
            keep: batches after N that were begun, and are begun in the new checkpoint, too.

        Returns:
            The paths of the files beside those of the state, relative to the checkpoint.

        Raises:
            RepairError: another process writes there; or as write_state.
        """
        source = self._source
        last = f"offsets/{max([source.batch_id, *keep])}"
        guard = self._begin(f"{self.path}/{last}")

        def check() -> None:
            if not guard.is_there:
                raise self._another()

        checked = checked_files(self.fs, check)
        try:
            ids = write_state(checked, self.path, source.batch_id + 1)
        except RepairError:
            if guard.is_there:
                self._empty(guard.path)
                self.fs.delete([guard.path])
            raise
        files = self._of_operators(partitions) | dict(self._of_sources())
        files["metadata"] = encode_query_metadata(query_id)
        for number, content in source.commits.items():
            name = f"commits/{number}"
            is_last = number == source.batch_id
            files[name] = with_unique_ids(content, f"{source.path}/{name}", ids) if is_last else content
        for number, content in source.offsets.items():
            if number < source.batch_id:
                files[f"offsets/{number}"] = content
            elif number == source.batch_id or number in keep:
                name = f"offsets/{number}"
                files[name] = with_conf(content, f"{source.path}/{name}", conf)
        for name in [*(name for name in files if name != last), last]:
            publish(checked, f"{self.path}/{name}", files[name], overwrite=True)
        return list(files)

    def _begin(self, path: str) -> HeldGuard:
        """Puts the guard in, alone in the folder."""
        if self._left is not None:
            if self._guard() != self._left:
                raise self._another()
            guard = HeldGuard.put(self.fs, self._left, TO_NEW, overwrite=True)
            self._empty(self._left)
            if self._left == path:
                return guard
        try:
            guard = HeldGuard.put(self.fs, path, TO_NEW, overwrite=False)
        except FileExistsError:
            raise self._another() from None
        if self._left is not None:
            self.fs.delete([self._left])
        # Whoever has begun at another batch at the same moment sees this guard, too.
        if self._files() != [path]:
            self.fs.delete([path])
            raise self._another()
        return guard

    def _guard(self) -> str | None:
        """The path of the guard that a run has left, or has put in just now."""
        names = [info.base_name for info in self.fs.list_folder(f"{self.path}/offsets")]
        entries = [int(name) for name in names if NUMBER.fullmatch(name)]
        if not entries:
            return None
        path = f"{self.path}/offsets/{max(entries)}"
        try:
            found = parse_guard(read_file(self.fs, path))
        except FileNotFoundError:
            return None
        return path if found is not None and found.verb == TO_NEW else None

    def _files(self) -> list[str]:
        """What is there, without what a run left that was killed while it put its guard in."""
        return [
            path for path in _files_below(self.fs, self.path) if not TEMPORARY_NAME.fullmatch(path.rpartition("/")[2])
        ]

    def _empty(self, guard: str) -> None:
        """Deletes what a killed run has written, all but the guard."""
        self.fs.delete([path for path in _files_below(self.fs, self.path) if path != guard])

    def _another(self) -> RepairError:
        return RepairError("another process writes a checkpoint there", self.path, remedy="Give another folder")

    def _of_operators(self, partitions: int | None) -> dict[str, bytes]:
        """Metadata and schemas, by name."""
        source, fs, files = self._source, self._source.fs, {}
        for state in source.states:
            folder = f"state/{state.operator.operator_id}"
            names = [f"{folder}/_metadata/metadata"]
            logged = [info.base_name for info in fs.list_folder(f"{source.path}/{folder}/_metadata/v2")]
            kept = [int(name) for name in logged if NUMBER.fullmatch(name) and int(name) <= source.batch_id]
            names += [f"{folder}/_metadata/v2/{max(kept)}"] if kept else []
            for name, content in self._read(names):
                uri = f"{self._uri}/{folder}"
                files[name] = with_operator(content, f"{source.path}/{name}", uri, partitions)
            schemas = [path for store in state.operator.stores for path in store.schema_paths]
            files.update(self._read([path.removeprefix(f"{source.path}/") for path in schemas]))
        return files

    def _of_sources(self) -> Iterator[tuple[str, bytes]]:
        """The logs of the sources, by name."""
        below = f"{self._source.path}/"
        names = [path.removeprefix(below) for path in _files_below(self._source.fs, f"{below}sources")]
        return self._read(name for name in names if not _is_side_file(name, names))

    def _read(self, names: Iterator[str] | Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Files of the source, by name; those that are missing are left out."""
        for name in names:
            try:
                yield name, read_file(self._source.fs, f"{self._source.path}/{name}")
            except FileNotFoundError:
                continue


def _is_side_file(name: str, names: Sequence[str]) -> bool:
    folder, slash, base = name.rpartition("/")
    if TEMPORARY_NAME.fullmatch(base):
        return True
    checked = base.removeprefix(".").removesuffix(".crc")
    return base == hadoop_name(checked) and f"{folder}{slash}{checked}" in names


def _files_below(fs: FileManager, folder: str) -> list[str]:
    found: list[str] = []
    for info in fs.list_folder(folder):
        found += _files_below(fs, info.path) if info.type == FileType.Directory else [info.path]
    return found


def _real(fs: FileManager, path: str) -> str:
    """The folder without links and `..`, with a slash."""
    return f"{os.path.realpath(path) if isinstance(fs, LocalFileManager) else path}/"


def _uri_of(fs: FileManager, path: str, location: Location, storage_options: StorageOptions | None) -> str:
    """The location as Spark names it in absolute paths."""
    if isinstance(fs, LocalFileManager):
        return f"file:{path}"
    if isinstance(location, StorageLocation):
        uri = location.uri
    elif isinstance(location, str | PathLike):
        uri = find_settings(location, storage_options).uri
    else:
        uri = f"{fs.identity}/{path.lstrip('/')}"
    scheme = scheme_of(uri)
    return f"s3a:{uri.partition(':')[2]}" if scheme == "s3" else uri.rstrip("/")
