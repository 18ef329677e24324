"""Copies one version of the state of Spark's operator to our stores, as snapshots of the same version."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import pyarrow as pa

from hdfsstore._cext.records import encode_records
from hdfsstore.checkpoint import conf as confs
from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish
from hdfsstore.spark.spec import OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.parallel import run_all
from hdfsstore.state.protocols import ReadStateStore
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.versions.files import StateFiles, VersionId

BACKENDS = {confs.HDFS_PROVIDER: "hdfs", confs.ROCKSDB_PROVIDER: "rocksdb"}

_RECORDS_AT_A_TIME = 1 << 16
_END = b"\xff" * 4
_THREADS = 8


def copy_state(
    theirs: str,
    fs: FileManager,
    ours: str,
    version: int,
    unique_ids: Sequence[str | None],
    *,
    schemas: tuple[StructType, StructType],
    spark_conf: Mapping[str, str],
    conf: StateStoreConf,
) -> list[str | None]:
    """Copies the operator's state in `theirs` to our stores in `ours`.

    Args:
        theirs: `<checkpoint>/state`.
        fs: of both.
        ours: `<checkpoint>/hdfsstore/state`.
        unique_ids: the unique id of Spark's version, by partition; None if the version has no id.
        schemas: of keys and values.
        spark_conf: the confs that Spark's query has pinned. They say how to read the files.
        conf: settings of our stores.

    Returns:
        The unique id of each partition's snapshot; None in checkpoint format version 1.

    Raises:
        UnsupportedProviderError: this release cannot read the state.
        StateStoreError: files are missing or damaged, or the filesystem fails.
    """
    backend = backend_of(theirs, spark_conf)
    with tempfile.TemporaryDirectory(prefix="hdfsstore-migration-") as local_dir:
        reading = replace(
            conf,
            compression_codec=confs.compression_codec(spark_conf),
            row_checksum_enabled=confs.row_checksum(spark_conf),
            checkpoint_format_version=1 if None in unique_ids else 2,
            maintenance_interval=0,
            local_dir=local_dir,
        )

        def copy(partition_id: int, unique_id: str | None) -> str | None:
            store_id = StateStoreId((fs, theirs), OPERATOR_ID, partition_id)
            new: VersionId = (version, str(uuid.uuid4()) if conf.checkpoint_format_version > 1 else None)
            folder = f"{ours}/{StateStoreId((fs, ours), OPERATOR_ID, partition_id).relative_folder}"
            with (
                open_provider(store_id, backend, reading, *schemas) as provider,
                provider.get_read_store(version, unique_id) as store,
            ):
                publish(
                    fs,
                    StateFiles.path_of(folder, new, "snapshot"),
                    compressed(conf.compression_codec, _records(store, conf)),
                    overwrite=True,
                    unique_name=new[1] is not None,
                )
            return new[1]

        return run_all([partial(copy, *each) for each in enumerate(unique_ids)], _THREADS)


def backend_of(theirs: str, spark_conf: Mapping[str, str]) -> str:
    """The backend that reads the state of Spark's operator.

    Raises:
        UnsupportedProviderError: this release cannot read it.
    """
    name = spark_conf.get(confs.PROVIDER, confs.HDFS_PROVIDER)
    if name not in BACKENDS:
        raise UnsupportedProviderError(
            f"the state is kept by {name}, whose files this release cannot read",
            theirs,
            remedy="Start the query with a new checkpointLocation",
        )
    return BACKENDS[name]


def _records(store: ReadStateStore, conf: StateStoreConf) -> Iterator[pa.Buffer | bytes]:
    """The store's records, and then the end mark."""
    rows = store.iterator()
    while part := list(islice(rows, _RECORDS_AT_A_TIME)):
        keys, values = (pa.array(column, pa.large_binary()) for column in zip(*part, strict=True))
        records = encode_records(keys, values, row_checksums=conf.row_checksum_enabled)
        yield records.slice(0, records.size - len(_END))
    yield _END
