"""Writes the rows of a version as the zip and the SST files of a RocksDB, without RocksDB.

    <v>[_<id>].zip             CURRENT, MANIFEST, metadata (archive.py); Spark needs no OPTIONS and no log
    SSTs/<n>-<uuid>.sst        the rows in the order of their keys, all in the last level

memory    a chunk; of the file that is being written its index and 8 bytes of each key; on an object store also what its
          client keeps of a file
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.sst_writer import FILE_BYTES, SortedRows, SstWriter
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES, SST, SST_FOLDER, Archive, Sst, encode
from hdfsstore.state.rocksdb.manifest import LiveFile
from hdfsstore.state.rocksdb.manifest_writer import FIRST_FILE, encode_manifest
from hdfsstore.state.versions.files import StateFiles, VersionId

# RocksDB has seven levels, unless it is told otherwise.
_LAST_LEVEL = 6
DEFAULT_FAMILY: Mapping[str, int] = MappingProxyType({"default": 1})


def write_archive(
    fs: FileManager,
    folder: str,
    chunks: Iterable[RecordChunk],
    families: Mapping[str, int] = DEFAULT_FAMILY,
    file_bytes: int = FILE_BYTES,
) -> Archive:
    """Writes SST files, and returns the zip that names them.

    Args:
        fs: the filesystem of the checkpoint.
        folder: of the store, in which SSTs/ is.
        chunks: the stored keys and values, in the order of the keys, each key once, without tombstones.
        families: the number of each virtual column family.
        file_bytes: size at which a file ends.

    Raises:
        StateStoreError: a key is not behind the one before; or the filesystem fails.
        SizeLimitError: a row has 1 GiB or more.
    """
    rows = SortedRows(chunks)
    live: list[LiveFile] = []
    ssts: list[Sst] = []
    count, after = 0, None
    while rows.more():
        number = FIRST_FILE + len(live)
        writer = SstWriter(rows, number, after, file_bytes)
        remote = f"{number:06d}-{uuid.uuid4()}{SST}"
        publish(fs, f"{folder}/{SST_FOLDER}/{remote}", writer.pieces(), overwrite=True, unique_name=True)
        file = LiveFile(_LAST_LEVEL, number, writer.size, writer.keys, 0, 0)
        live.append(file)
        ssts.append(Sst(file.name, remote, file.size))
        count, after = count + writer.count, writer.largest
    # Spark counts by family, and counts again where the number is not known.
    num_keys = count if families.keys() <= DEFAULT_FAMILY.keys() else None
    return Archive(encode_manifest(live), ssts, num_keys, families)


def write_version(
    fs: FileManager,
    folder: str,
    version_id: VersionId,
    chunks: Iterable[RecordChunk],
    families: Mapping[str, int] = DEFAULT_FAMILY,
) -> tuple[str, int]:
    """Writes a version whole, and returns the path of its zip, which comes last, and the bytes of all files.

    See write_archive.

    Args:
        version_id: of a version that no file of the store has yet, unless it is the same version.
    """
    path = StateFiles.path_of(folder, version_id, "snapshot", CHANGELOG_FILES)
    archive = write_archive(fs, folder, chunks, families)
    content = encode(archive)
    publish(fs, path, content, overwrite=True, unique_name=version_id[1] is not None)
    return path, len(content) + sum(sst.size for sst in archive.ssts)
