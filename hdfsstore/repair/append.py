"""Adds a version of a few changed rows on top of a store: a delta or changelog, and nothing that was there is written.

    without ids   <v>.delta, <v>.changelog              records
    with ids      <v>_<uuid>.delta, .changelog          header with the lineage | records

Spark wrote no changelogs before 3.5, and writes none until a setting asks for them. So a store in RocksDB gets one only
if it has some already.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from hdfsstore._cext.records import encode_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.lineage import LineageItem, encode_header, newest_that_fit
from hdfsstore.codecs.records import DELTA_FILES, RecordChunk
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId

_END = b"\xff" * 4


class Appended(NamedTuple):
    """A version of a partition: its id, and the bytes of its file."""

    version_id: VersionId
    size: int


def can_append(state: OperatorState, store: Store) -> bool:
    """Whether a delta or changelog can hold the next version of each partition."""
    if store.has_families:
        return False  # records have types there
    extensions = DELTA_FILES if state.provider == confs.HDFS_PROVIDER else CHANGELOG_FILES
    partitions = state.partitions(store, store.key_type)
    listings = [StateFiles.list(state.fs, store.partition_path(each), extensions) for each in partitions]
    # Where no version was ever written, one that builds on others cannot be the first.
    return any(listing.deltas for listing in listings) and not any(listing.empty for listing in listings)


def append(
    fs: FileManager, state: OperatorState, store: Store, partition_id: int, rows: Sequence[RecordChunk]
) -> Appended:
    """Writes the version after that of the state in one partition. A file of that version is replaced.

    Args:
        fs: of the state, for the file that is written.
        rows: are put, as the files of the store have them; none: the version is that before.

    Raises:
        StateStoreError: the files of the version before are missing, or the file cannot be written.
    """
    chain = state.files(store, partition_id).chain(state.version)
    lineage = _lineage(chain)
    version_id: VersionId = (state.version + 1, str(uuid.uuid4()) if lineage else None)
    is_hdfs = state.provider == confs.HDFS_PROVIDER
    checksums = is_hdfs and confs.row_checksum(state.conf)  # in RocksDB values have theirs already
    records = [encode_spans(each.data, each.keys, each.values, row_checksums=checksums) for each in rows]
    header = [encode_header(newest_that_fit(lineage))] if lineage else []
    content = b"".join(compressed(confs.compression_codec(state.conf), [*header, *records, _END]))
    extensions = DELTA_FILES if is_hdfs else CHANGELOG_FILES
    path = StateFiles.path_of(store.partition_path(partition_id), version_id, "delta", extensions)
    publish(fs, path, content, overwrite=True, unique_name=bool(lineage))
    return Appended(version_id, len(content))


def _lineage(chain: Chain) -> list[LineageItem]:
    """The versions with ids from the last snapshot on; empty: the store has no ids."""
    versions = [*([] if chain.snapshot is None else [chain.snapshot]), *chain.deltas]
    return [LineageItem(version, unique_id) for version, unique_id in versions if unique_id is not None]
