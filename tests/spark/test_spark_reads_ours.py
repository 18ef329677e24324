"""Spark reads state files that we encode: its `statestore` source on checkpoints that this test writes."""

from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore._cext.records import encode_records
from hdfsstore.codecs.compression import CODECS, compress
from hdfsstore.codecs.types import ArrayType, DataType, LongType, MapType, StructField, StructType, to_json
from hdfsstore.codecs.unsafe_row import RowCodec
from tests.rows import counted
from tests.unit.codecs.row_strategies import plain_leaves, schemas, to_arrow
from tests.unit.codecs.row_strategies import values as row_values

KEY = StructType((StructField("id", LongType()),))
PARTITIONS = 2
HDFS_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


def state_file(value_type: StructType, ids: list[int], values: pa.StructArray, *, row_checksums: bool) -> pa.Buffer:
    keys = RowCodec(KEY).encode(pa.StructArray.from_arrays([pa.array(ids, pa.int64())], ["id"]))
    rows = RowCodec(value_type).encode(values)
    return encode_records(keys, rows, row_checksums=row_checksums)


def java_utf(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def write_checkpoint(
    root: Path, value_type: StructType, batches: list[list[bytes]], codec: str, *, row_checksums: bool
) -> None:
    """A checkpoint with one delta a batch and partition."""
    conf = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.providerClass": HDFS_PROVIDER,
        "spark.sql.streaming.stateStore.compression.codec": codec,
        "spark.sql.streaming.stateStore.rowChecksum.enabled": str(row_checksums).lower(),
    }
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}],
    }
    files = {
        "metadata": b'{"id":"6e14c4e5-3a0c-4d9e-9f26-6a2a6d3d9c5b"}',
        "state/0/_metadata/metadata": b"v1\n" + json.dumps(operator).encode(),
        "state/0/0/_metadata/schema": java_utf("v2")
        + b"".join(struct.pack(">i", 1) + java_utf(to_json(schema)) for schema in (KEY, value_type)),
    }
    for batch, deltas in enumerate(batches):
        offsets = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": conf}
        files[f"offsets/{batch}"] = f"v1\n{json.dumps(offsets)}\n{{}}".encode()
        files[f"commits/{batch}"] = b'v1\n{"nextBatchWatermarkMs":0}'
        for partition, delta in enumerate(deltas):
            files[f"state/0/{partition}/{batch + 1}.delta"] = compress(codec, delta)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


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
    """Batch 0 puts every row, batch 1 puts the even ones again and removes the odd ones of partition 0."""
    value_type, values = table
    ids = list(range(len(values)))
    empty = values.slice(0, 0)
    removed = pa.nulls(len(ids), values.type)
    odd, even = [pa.array([i % 2 == rest for i in ids], pa.bool_()) for rest in (1, 0)]
    batches = [
        [
            state_file(value_type, ids, values, row_checksums=False),
            state_file(value_type, [], empty, row_checksums=False),
        ],
        [
            state_file(value_type, ids[1::2], removed.filter(odd), row_checksums=False),
            state_file(value_type, ids[::2], values.filter(even), row_checksums=False),
        ],
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_checkpoint(root, value_type, batches, "lz4", row_checksums=False)
        ours = hdfsstore.Checkpoint(root).read_state()
        assert ours.num_rows == 2 * len(ids[::2])
        assert counted(ours) == counted(spark_rows(spark, root))


# A batch: what each id is set to, None = removed. Ids come again, within a batch too: the last one holds.
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 2**40)), max_size=12), min_size=1, max_size=6
)


@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(BATCHES, st.data())
def test_histories(spark: SparkSession, history: list[list[tuple[int, int | None]]], data: st.DataObject) -> None:
    """State at any batch and the changes of all, with snapshots at random versions; Spark and a dict agree with us."""
    value_type = StructType((StructField("n", LongType()),))
    fields = [pa.field("n", pa.int64())]

    def file_of(records: list[tuple[int, int | None]]) -> pa.Buffer:
        numbers = pa.array([n for _, n in records], pa.int64())
        rows = pa.StructArray.from_arrays([numbers], fields=fields, mask=numbers.is_null())
        return state_file(value_type, [i for i, _ in records], rows, row_checksums=False)

    model: dict[int, int] = {}
    states = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        deltas = [
            [file_of([r for r in batch if r[0] % PARTITIONS == p]) for p in range(PARTITIONS)] for batch in history
        ]
        write_checkpoint(root, value_type, deltas, "lz4", row_checksums=False)
        for batch_id, batch in enumerate(history):
            for i, n in batch:
                if n is None:
                    model.pop(i, None)
                else:
                    model[i] = n
            states.append(dict(model))
            for p in range(PARTITIONS):
                if data.draw(st.booleans(), label=f"snapshot of batch {batch_id} in partition {p}"):
                    snapshot = file_of([(i, n) for i, n in model.items() if i % PARTITIONS == p])
                    (root / f"state/0/{p}/{batch_id + 1}.snapshot").write_bytes(compress("lz4", snapshot))
        checkpoint = hdfsstore.Checkpoint(root)
        for batch_id, expected in enumerate(states):
            table = checkpoint.read_state(batch_id=batch_id)
            ids, numbers = (table[part].combine_chunks().field(0).to_pylist() for part in ("key", "value"))
            assert dict(zip(ids, numbers, strict=True)) == expected
            assert len(ids) == len(expected)
        asked = data.draw(st.integers(0, len(history) - 1), label="batch that Spark reads")
        assert counted(checkpoint.read_state(batch_id=asked)) == counted(spark_rows(spark, root, batchId=asked))
        feed = spark_rows(spark, root, readChangeFeed=True, changeStartBatchId=0, changeEndBatchId=len(history) - 1)
        assert counted(checkpoint.read_changes(0, len(history) - 1)) == counted(feed)


@pytest.mark.parametrize("row_checksums", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(spark: SparkSession, tmp_path: Path, codec: str, row_checksums: bool) -> None:
    """Enough rows for several blocks of each codec, half of which do not compress."""
    spark.conf.set("spark.sql.streaming.stateStore.rowChecksum.enabled", str(row_checksums).lower())
    try:
        value_type = StructType((StructField("n", LongType()),))
        ids = list(range(6000))
        scattered = [i * 0x9E3779B97F4A7C15 % 2**64 - 2**63 if i % 2 else 7 for i in ids]
        values = pa.StructArray.from_arrays([pa.array(scattered, pa.int64())], ["n"])
        full = state_file(value_type, ids, values, row_checksums=row_checksums)
        none = state_file(value_type, [], values.slice(0, 0), row_checksums=row_checksums)
        write_checkpoint(tmp_path, value_type, [[full, none]], codec, row_checksums=row_checksums)
        ours = hdfsstore.Checkpoint(tmp_path).read_state()
        assert ours.num_rows == len(ids)
        assert counted(ours) == counted(spark_rows(spark, tmp_path))
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.rowChecksum.enabled")
