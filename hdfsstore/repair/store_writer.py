"""Writes one version of a store whole: rows in any order become a snapshot, or a zip with SST files, a partition.

    HDFS-backed   rows are encoded and compressed as they come; the stream waits in memory, and on the disk if it grows
    RocksDB       rows are collected; when there are too many, the largest collection is sorted into a run on the disk.
                  In the end the runs of a partition and what is in memory are merged into its files

Nothing is in the checkpoint before `finish`.
"""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from hdfsstore._cext.records import digest_spans, encode_spans
from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.checkpoint import conf as confs
from hdfsstore.codecs.compression import open_writer
from hdfsstore.codecs.records import CHUNK_BYTES, RecordChunk
from hdfsstore.fs import typed_errors
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish
from hdfsstore.repair.spool import Spool
from hdfsstore.state.parallel import run_all
from hdfsstore.state.rocksdb.archive import Archive, Sst
from hdfsstore.state.rocksdb.database import Database
from hdfsstore.state.rocksdb.database_writer import DEFAULT_FAMILY, write_archive, write_version
from hdfsstore.state.rocksdb.manifest import LiveFile, live_files
from hdfsstore.state.rocksdb.manifest_writer import FIRST_FILE, encode_manifest
from hdfsstore.state.versions.files import StateFiles, VersionId

_END = b"\xff" * 4
# What a row takes in an overlay beside its bytes, while it is sorted.
_ROW_BYTES = 96
# Each run of a merge is a level of a database.
_MAX_RUNS = 60


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """How the files of a version are written.

    Attributes:
        provider: the class of the state store provider.
        version: the version.
        has_ids: whether names have unique ids (checkpoint format version 2).
        codec, row_checksums: of snapshots.
        families: the number of each column family in RocksDB.
    """

    provider: str
    version: int
    has_ids: bool
    codec: str = "lz4"
    row_checksums: bool = False
    families: Mapping[str, int] = field(default_factory=lambda: DEFAULT_FAMILY)


class Written(NamedTuple):
    """A partition that was written: its unique id if it has one, its rows, their digest_spans, bytes of its files."""

    version_id: VersionId
    rows: int
    digest: int
    size: int


class _Partition(Protocol):
    @property
    def held(self) -> int:
        """Bytes of memory that `spill` frees."""

    def add(self, chunk: RecordChunk) -> None: ...

    def spill(self) -> None:
        """Moves what is in memory to the disk."""

    def finish(self, version_id: VersionId) -> int:
        """Writes the files of the version, and returns their bytes."""

    def close(self) -> None: ...


class Tally:
    """Counts the rows that each partition is to have. Threads may share it.

    Attributes:
        rows: how many, by partition.
        digests: their digest_spans, by partition.
    """

    def __init__(self, partitions: int) -> None:
        self.rows = [0] * partitions
        self.digests = [0] * partitions
        self._lock = threading.Lock()

    def add(self, partition: int, chunk: RecordChunk) -> None:
        digest = digest_spans(chunk.data, chunk.keys, chunk.values)
        with self._lock:
            self.rows[partition] += len(chunk)
            self.digests[partition] = (self.digests[partition] + digest) % (1 << 64)


class StoreWriter:
    """Writes the partitions of one store. Threads may share it; a context manager that removes its temporary files.

    Args:
        fs: of the checkpoint that is written.
        folders: of the partitions.
        store_format: how.
        memory: bytes of rows that are held in memory.
        tmp: a local folder for what does not fit; None: the system's.
    """

    def __init__(
        self, fs: FileManager, folders: Sequence[str], store_format: StoreFormat, memory: int, tmp: str | None = None
    ) -> None:
        self._format = store_format
        self._memory = memory
        self._stack = ExitStack()
        self._locks = [threading.Lock() for _ in folders]
        self._tally = Tally(len(folders))
        self._partitions: list[_Partition] = []
        is_hdfs = store_format.provider == confs.HDFS_PROVIDER
        spools = Path(self._stack.enter_context(_temporary_folder(tmp))) if is_hdfs else Path()
        for i, folder in enumerate(folders):
            made: _Partition = (
                _Snapshot(fs, folder, store_format, Spool(spools / str(i), memory // len(folders)))
                if is_hdfs
                else _Database(fs, folder, store_format.families, tmp)
            )
            self._stack.callback(made.close)
            self._partitions.append(made)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, partition: int, chunk: RecordChunk) -> None:
        """Takes rows for a partition: its place among the folders. The chunk's buffers are free afterwards."""
        self._tally.add(partition, chunk)
        with self._locks[partition]:
            self._partitions[partition].add(chunk)
        while sum(each.held for each in self._partitions) > self._memory:
            largest = max(range(len(self._partitions)), key=lambda i: self._partitions[i].held)
            with self._locks[largest]:
                self._partitions[largest].spill()

    def finish(self, threads: int) -> list[Written]:
        """Writes the files of all partitions, also of those without rows; so many at the same time."""

        def write(partition: int) -> Written:
            version_id = self._format.version, str(uuid.uuid4()) if self._format.has_ids else None
            size = self._partitions[partition].finish(version_id)
            self._partitions[partition].close()
            return Written(version_id, self._tally.rows[partition], self._tally.digests[partition], size)

        return run_all([partial(write, partition) for partition in range(len(self._partitions))], threads)


class _Snapshot:
    """A snapshot of the HDFS-backed provider, compressed as its rows come."""

    held = 0

    def __init__(self, fs: FileManager, folder: str, store_format: StoreFormat, spool: Spool) -> None:
        self._fs = fs
        self._folder = folder
        self._row_checksums = store_format.row_checksums
        self._writer = open_writer(store_format.codec)
        self._spool = spool

    def add(self, chunk: RecordChunk) -> None:
        records = memoryview(encode_spans(chunk.data, chunk.keys, chunk.values, row_checksums=self._row_checksums))
        for start in range(0, len(records), CHUNK_BYTES):
            self._spool.write(self._writer.write(records[start : start + CHUNK_BYTES]))

    def spill(self) -> None:
        """Does nothing: the spool goes to the disk by itself."""

    def finish(self, version_id: VersionId) -> int:
        self._spool.write(self._writer.write(_END) + self._writer.finish())
        path = StateFiles.path_of(self._folder, version_id, "snapshot")
        publish(self._fs, path, self._spool.pieces(), overwrite=True, unique_name=version_id[1] is not None)
        return self._spool.size

    def close(self) -> None:
        self._spool.close()


class _Database:
    """A zip and SST files of the RocksDB provider."""

    def __init__(self, fs: FileManager, folder: str, families: Mapping[str, int], tmp: str | None) -> None:
        self._fs = fs
        self._folder = folder
        self._families = families
        self._tmp = tmp
        self._overlay = Overlay()
        self._runs: _Runs | None = None
        self.held = 0

    def add(self, chunk: RecordChunk) -> None:
        self._overlay.add(chunk.data.cast("B"), chunk.keys, chunk.values)
        self.held += sum(chunk.sizes()) + _ROW_BYTES * len(chunk)

    def spill(self) -> None:
        if not self.held:
            return
        if self._runs is not None and self._runs.full:
            merged = _Runs(self._tmp)
            with closing(self._runs):
                merged.add(self._runs.merged(self._overlay))
            self._runs = merged
        else:
            self._runs = self._runs or _Runs(self._tmp)
            self._runs.add(_sorted(self._overlay))
        self._overlay = Overlay()
        self.held = 0

    def finish(self, version_id: VersionId) -> int:
        rows = _sorted(self._overlay) if self._runs is None else self._runs.merged(self._overlay)
        _, size = write_version(self._fs, self._folder, version_id, rows, self._families)
        return size

    def close(self) -> None:
        self._overlay = Overlay()
        self.held = 0
        if self._runs is not None:
            self._runs.close()


def _temporary_folder(tmp: str | None) -> tempfile.TemporaryDirectory[str]:
    with typed_errors.writing(tmp or tempfile.gettempdir()):
        return tempfile.TemporaryDirectory(prefix="hdfsstore-", dir=tmp)


class _Runs:
    """Sorted runs of rows, in SST files on the local disk."""

    def __init__(self, tmp: str | None) -> None:
        self._folder = _temporary_folder(tmp)
        self._runs: list[Archive] = []

    @property
    def full(self) -> bool:
        """Whether there may be no other run: each is a level of a database."""
        return len(self._runs) == _MAX_RUNS

    def add(self, chunks: Iterable[RecordChunk]) -> None:
        """Writes a run of rows in the order of their keys."""
        self._runs.append(write_archive(LocalFileManager(), self._folder.name, chunks))

    def merged(self, overlay: Overlay) -> Iterator[RecordChunk]:
        """The rows of all runs and of the overlay, in the order of their keys."""
        live: list[LiveFile] = []
        ssts: list[Sst] = []
        for level, archive in enumerate(self._runs, 1):
            for file, sst in zip(live_files(archive.files, self._folder.name), archive.ssts, strict=True):
                renumbered = file._replace(level=level, number=FIRST_FILE + len(live))
                live.append(renumbered)
                ssts.append(sst._replace(local=renumbered.name))
        whole = Archive(encode_manifest(live), ssts, None)
        return Database(LocalFileManager(), self._folder.name, whole, self._folder.name).chunks(overlay)

    def close(self) -> None:
        self._folder.cleanup()


def _sorted(overlay: Overlay) -> Iterator[RecordChunk]:
    merge = Merge((), overlay, delimiter=b"")
    while (read := merge.read()) is not None:
        data, keys, values = read
        yield RecordChunk(memoryview(data), keys, values, "<memory>", 0)
