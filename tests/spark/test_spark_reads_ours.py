"""Spark reads what our store writes in format version 1: its `statestore` source on checkpoints that are all ours."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.checkpoint.conf import COMPRESSION_CODEC, HDFS_PROVIDER, PROVIDER, ROCKSDB_PROVIDER, ROW_CHECKSUM
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.checkpoint.operator_metadata import OperatorMetadata, StoreMetadata, encode_operator_metadata
from hdfsstore.checkpoint.query_metadata import encode_query_metadata
from hdfsstore.checkpoint.state_schema import ColumnFamily, encode_state_schema
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.compression import CODECS
from hdfsstore.codecs.types import ArrayType, DataType, LongType, MapType, StructField, StructType
from hdfsstore.publish import publish
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.store_id import StateStoreId
from tests.support.continued_stores import FORMAT_VERSION
from tests.support.row_strategies import plain_leaves, schemas, to_arrow
from tests.support.row_strategies import values as row_values
from tests.support.rows import counted

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
        self._fs, self._root = LocalFileSystem(), str(root / "checkpoint")
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


def distinct(type_: DataType) -> DataType:
    """The type with no field name twice in a struct, as toArrow wants it."""
    match type_:
        case StructType(fields):
            return StructType(tuple(StructField(f"{f.name}{i}", distinct(f.type)) for i, f in enumerate(fields)))
        case ArrayType(element):
            return ArrayType(distinct(element))
        case MapType(key, value):
            return MapType(distinct(key), distinct(value))
    return type_


@st.composite
def tables(draw: st.DrawFn) -> tuple[StructType, pa.StructArray]:
    value_type = draw(schemas(plain_leaves, min_size=1).map(distinct))
    assert isinstance(value_type, StructType)
    return value_type, to_arrow(value_type, draw(st.lists(row_values(value_type), min_size=1, max_size=8)))


# A failing example costs a Spark job for each step of shrinking it: it is shown as it was found.
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(tables())
def test_rows_of_any_type(spark: SparkSession, table: tuple[StructType, pa.StructArray]) -> None:
    """Batch 0 puts every row into partition 0, batch 1 puts the even ones into partition 1 and removes the odd ones."""
    value_type, values = table
    ids = list(range(len(values)))
    even = values.filter(pa.array([i % 2 == 0 for i in ids], pa.bool_()))
    with tempfile.TemporaryDirectory() as folder, OwnCheckpoint(Path(folder), value_type) as written:
        written.add_batch({0: [(ids, values)]})
        written.add_batch({0: [(ids[1::2], None)], 1: [(ids[::2], even)]})
        ours = hdfsstore.Checkpoint(written.path).read_state()
        assert ours.num_rows == 2 * len(ids[::2])
        assert counted(ours) == counted(spark_rows(spark, written.path))


# A batch: what each id is set to, None = removed. Ids come again, within a batch too: the last one holds.
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 2**40)), max_size=12), min_size=1, max_size=6
)


@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(BATCHES, st.data())
def test_histories(spark: SparkSession, history: list[list[tuple[int, int | None]]], data: st.DataObject) -> None:
    """State at any batch and the changes of all, with snapshots at random versions; Spark and a dict agree with us."""
    model: dict[int, int] = {}
    states = []
    with tempfile.TemporaryDirectory() as folder, OwnCheckpoint(Path(folder), NUMBER) as written:
        for batch_id, batch in enumerate(history):
            written.add_batch({p: in_runs([r for r in batch if r[0] % PARTITIONS == p]) for p in range(PARTITIONS)})
            for i, n in batch:
                if n is None:
                    model.pop(i, None)
                else:
                    model[i] = n
            states.append(dict(model))
            for p, provider in enumerate(written.partitions):
                if data.draw(st.booleans(), label=f"snapshot of batch {batch_id} in partition {p}"):
                    provider.do_maintenance()
                    assert (written.path / f"state/0/{p}/{batch_id + 1}.snapshot").exists()
        checkpoint = hdfsstore.Checkpoint(written.path)
        for batch_id, expected in enumerate(states):
            table = checkpoint.read_state(batch_id=batch_id)
            ids, numbers = (table[part].combine_chunks().field(0).to_pylist() for part in ("key", "value"))
            assert dict(zip(ids, numbers, strict=True)) == expected
            assert len(ids) == len(expected)
        asked = data.draw(st.integers(0, len(history) - 1), label="batch that Spark reads")
        assert counted(checkpoint.read_state(batch_id=asked)) == counted(spark_rows(spark, written.path, batchId=asked))
        feed = spark_rows(
            spark, written.path, readChangeFeed=True, changeStartBatchId=0, changeEndBatchId=len(history) - 1
        )
        assert counted(checkpoint.read_changes(0, len(history) - 1)) == counted(feed)


def in_runs(records: list[tuple[int, int | None]]) -> list[tuple[list[int], pa.StructArray | None]]:
    """Puts and removes that follow each other as one."""
    return [
        ([i for i, _ in run], None if removed else numbers([n for _, n in run]))
        for removed, run in ((kind, list(run)) for kind, run in groupby(records, lambda record: record[1] is None))
    ]


def numbers(values: list[int | None]) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(values, pa.int64())], ["n"])


@pytest.mark.parametrize("row_checksums", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(spark: SparkSession, tmp_path: Path, codec: str, row_checksums: bool) -> None:
    """Enough rows for several blocks of each codec, half of which do not compress; as deltas, then as snapshots."""
    spark.conf.set(ROW_CHECKSUM, str(row_checksums).lower())
    try:
        ids = list(range(6000))
        scattered = [i * 0x9E3779B97F4A7C15 % 2**64 - 2**63 if i % 2 else 7 for i in ids]
        with OwnCheckpoint(tmp_path, NUMBER, codec, row_checksums=row_checksums) as written:
            written.add_batch({0: [(ids, numbers(scattered))]})
            written.add_batch({0: [(ids[:3000:2], None)], 1: [(ids[:3000:2], numbers(scattered[:3000:2]))]})
            ours = hdfsstore.Checkpoint(written.path).read_state()
            assert ours.num_rows == len(ids)
            assert counted(ours) == counted(spark_rows(spark, written.path))
            for p, provider in enumerate(written.partitions):
                provider.do_maintenance()
                for version in (1, 2):
                    (written.path / f"state/0/{p}/{version}.delta").unlink()
        # A path that Spark has not cached a version of.
        moved = written.path.rename(tmp_path / "moved")
        assert sorted(path.name for path in moved.glob("state/0/*/*.*")) == ["2.snapshot", "2.snapshot"]
        assert counted(spark_rows(spark, moved)) == counted(ours)
    finally:
        spark.conf.unset(ROW_CHECKSUM)
