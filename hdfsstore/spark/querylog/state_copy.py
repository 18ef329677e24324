"""Copies one version of the state of Spark's operator to our stores, as snapshots of the same version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa

from hdfsstore._cext.records import encode_records
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.row_converter import RowConverter
from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.fs.publish import publish
from hdfsstore.spark.spec import OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.parallel import run_all
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.versions.files import StateFiles, VersionId

_END = b"\xff" * 4
_THREADS = 8


def copy_state(
    theirs: OperatorState, ours: str, schemas: tuple[StructType, StructType], conf: StateStoreConf
) -> list[str | None]:
    """Copies the state of Spark's operator, which has one store, to our stores in `ours`.

    Args:
        theirs: the operator's state.
        ours: `<checkpoint>/hdfsstore/state`, on the filesystem of `theirs`.
        schemas: of keys and values.
        conf: settings of our stores.

    Returns:
        The unique id of each partition's snapshot; None in checkpoint format version 1.

    Raises:
        BatchNotAvailableError: the state's files are not there.
        StateStoreError: files are missing or damaged, or the filesystem fails.
    """
    store = theirs.operator.stores[0]
    converter = RowConverter(*schemas, theirs.codecs(store, *schemas))
    codecs = tuple(RowCodec(each) for each in schemas)

    def copy(partition_id: int) -> str | None:
        new: VersionId = (theirs.version, str(uuid.uuid4()) if conf.checkpoint_format_version > 1 else None)
        folder = f"{ours}/{StateStoreId((theirs.fs, ours), OPERATOR_ID, partition_id).relative_folder}"
        rows = theirs.reader(store, partition_id).stream(theirs.version, converter.decode)
        publish(
            theirs.fs,
            StateFiles.path_of(folder, new, "snapshot"),
            compressed(conf.compression_codec, _records(rows, *codecs, row_checksums=conf.row_checksum_enabled)),
            overwrite=True,
            unique_name=new[1] is not None,
        )
        return new[1]

    return run_all([partial(copy, partition_id) for partition_id in range(store.num_partitions)], _THREADS)


def provider_of(theirs: str, spark_conf: Mapping[str, str]) -> str:
    """The class of the state store provider that keeps the state in `theirs`.

    Raises:
        UnsupportedProviderError: this release cannot read its files.
    """
    name = spark_conf.get(confs.PROVIDER, confs.HDFS_PROVIDER)
    if name not in confs.BACKENDS:
        raise UnsupportedProviderError(
            f"the state is kept by {name}, whose files this release cannot read",
            theirs,
            remedy="Start the query with a new checkpointLocation",
        )
    return name


def _records(
    rows: Iterator[tuple[pa.StructArray, pa.StructArray]],
    key_codec: RowCodec,
    value_codec: RowCodec,
    *,
    row_checksums: bool,
) -> Iterator[pa.Buffer | bytes]:
    """The records of rows, and then the end mark."""
    for keys, values in rows:
        records = encode_records(key_codec.encode(keys), value_codec.encode(values), row_checksums=row_checksums)
        yield records.slice(0, records.size - len(_END))
    yield _END
