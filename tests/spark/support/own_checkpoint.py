"""Checkpoints that are all ours, and Spark's `statestore` source on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.checkpoint.conf import COMPRESSION_CODEC, HDFS_PROVIDER, PROVIDER, ROCKSDB_PROVIDER, ROW_CHECKSUM
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.checkpoint.operator_metadata import OperatorMetadata, StoreMetadata, encode_operator_metadata
from hdfsstore.checkpoint.query_metadata import encode_query_metadata
from hdfsstore.checkpoint.state_schema import ColumnFamily, encode_state_schema
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import LongType, StructField, StructType
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.store_id import StateStoreId
from tests.support.continued_stores import FORMAT_VERSION

KEY = StructType((StructField("id", LongType()),))
NUMBER = StructType((StructField("n", LongType()),))
PARTITIONS = 2
# A batch: rows of each partition, one kind after the other; no values = the ids are removed.
Updates = dict[int, list[tuple[list[int], pa.StructArray | None]]]


class OwnCheckpoint:
    """A checkpoint that our store writes, as Spark would: its files are all ours.

    Args:
        codec, row_checksums: of the state files.
        backend: "hdfs" or "rocksdb".
        format_version: checkpoint format version; 2 only with "rocksdb", as Spark has it.
    """

    def __init__(
        self,
        root: Path,
        value_type: StructType,
        codec: str = "lz4",
        *,
        row_checksums: bool = False,
        backend: str = "hdfs",
        format_version: int = 1,
    ) -> None:
        self._fs, self._root = LocalFileManager(), str(root / "checkpoint")
        self.path = root / "checkpoint"
        self._conf = {
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            PROVIDER: {"hdfs": HDFS_PROVIDER, "rocksdb": ROCKSDB_PROVIDER}[backend],
            FORMAT_VERSION: str(format_version),
            COMPRESSION_CODEC: codec,
            ROW_CHECKSUM: str(row_checksums).lower(),
        }
        operator = OperatorMetadata("stateStoreSave", [StoreMetadata("default", PARTITIONS, 0, [])], {})
        schema = encode_state_schema([ColumnFamily("default", KEY, value_type, {})], 2)
        self._write("metadata", encode_query_metadata("6e14c4e5-3a0c-4d9e-9f26-6a2a6d3d9c5b"))
        self._write("state/0/_metadata/metadata", encode_operator_metadata(0, operator, f"file:{root}/state/0"))
        self._write("state/0/0/_metadata/schema", schema)
        self._offsets: MetadataLog[OffsetLogEntry] = MetadataLog(self._fs, f"{self._root}/offsets", read_offset_log)
        self._commits = hdfsstore.CommitLog(self._root, checkpoint_format_version=format_version)
        conf = replace(
            StateStoreConf.from_spark(self._conf),
            min_deltas_for_snapshot=0,
            maintenance_interval=0,
            local_dir=str(root / "local"),
        )
        schemas = {"key_schema": to_arrow_schema(KEY), "value_schema": to_arrow_schema(value_type)}
        self.partitions = [
            open_provider(StateStoreId(f"{self._root}/state", 0, i), backend, conf, **schemas)
            for i in range(PARTITIONS)
        ]
        self.batches = 0
        self._ids: dict[int, str | None] = {}  # of each partition's last version

    def __enter__(self) -> OwnCheckpoint:
        return self

    def __exit__(self, *_: object) -> None:
        for provider in self.partitions:
            provider.close()

    def add_batch(self, updates: Updates) -> None:
        """Runs a batch: its offsets, the next version of each partition, its commit."""
        batch_id, self.batches = self.batches, self.batches + 1
        entry = OffsetLogEntry(1, 0, 1_700_000_000_000 + batch_id, self._conf, ["{}"], ["0"], {}, {})
        self._offsets.add(batch_id, encode_offset_log(entry))
        infos = {}
        for partition_id, provider in enumerate(self.partitions):
            store = provider.get_store(batch_id, self._ids.get(partition_id))
            for ids, values in updates.get(partition_id, []):
                keys = pa.record_batch([pa.array(ids, pa.int64())], ["id"])
                if values is None:
                    store.remove_batch(keys)
                else:
                    store.put_batch(keys, pa.RecordBatch.from_struct_array(values))
            infos[partition_id] = [store.commit()]
            self._ids[partition_id] = infos[partition_id][0].checkpoint_unique_id
        self._commits.add(batch_id, 0, {0: infos})

    def _write(self, name: str, content: bytes) -> None:
        publish(self._fs, f"{self._root}/{name}", content, overwrite=False)


def spark_rows(spark: SparkSession, root: Path, **options: object) -> pa.Table:
    return spark.read.format("statestore").options(**options).load(str(root)).toArrow()


def numbers(values: list[int | None]) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(values, pa.int64())], ["n"])


CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
