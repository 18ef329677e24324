"""Opens the reader of a partition's files, of any backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hdfsstore.codecs.records import MAX_RECORD_BYTES, RecordFormat
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.state.hdfs.partition_reader import HdfsPartitionReader
from hdfsstore.state.protocols import PartitionReader
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES
from hdfsstore.state.rocksdb.changelog import changelog_format
from hdfsstore.state.rocksdb.family_reader import FamilyReader
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader

PartitionFiles: TypeAlias = HdfsPartitionReader | RocksDbPartitionReader

_HDFS, _ROCKSDB = "hdfs", "rocksdb"


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """How the files of a store were written.

    Attributes:
        backend: "hdfs" or "rocksdb".
        compression_codec, row_checksums, max_record_bytes: as RecordFormat has them.
        delimiter: joins the values that were merged into a key of a RocksDB.
    """

    backend: str
    compression_codec: str
    row_checksums: bool
    max_record_bytes: int = MAX_RECORD_BYTES
    delimiter: bytes = b","

    @property
    def encodes_rows(self) -> bool:
        """Whether keys and values hold their rows in an encoding (rocksdb_keys.py); otherwise they are the rows."""
        return self.backend == _ROCKSDB


def open_files(
    fs: FileManager, folder: str, written: WrittenFiles, unique_ids: Mapping[int, str], *, empty_folder: bool
) -> PartitionFiles:
    """The reader of a partition; fs, folder, unique_ids and empty_folder are as BasePartitionReader has them."""
    codec, row_checksums, most = written.compression_codec, written.row_checksums, written.max_record_bytes
    if written.backend == _HDFS:
        deltas = RecordFormat(codec, row_checksums, most)
        return HdfsPartitionReader(fs, folder, deltas, unique_ids, empty_folder=empty_folder)
    changelogs = changelog_format(codec, most, row_checksums=row_checksums, checksum_files=True)
    return RocksDbPartitionReader(fs, folder, changelogs, unique_ids, written.delimiter, empty_folder=empty_folder)


def family_of(files: PartitionFiles, name: str | None) -> PartitionReader:
    """The reader of one column family; None: of the whole partition. Only a RocksDB has families."""
    return FamilyReader(files, name) if name and isinstance(files, RocksDbPartitionReader) else files


def backend_of(names: Iterable[str]) -> str:
    """The backend that has written files of these names, among others."""
    endings = tuple(f".{ending}" for ending in CHANGELOG_FILES)
    return _ROCKSDB if any(name.endswith(endings) for name in names) else _HDFS
