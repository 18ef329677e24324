"""Spark reads what our store writes in format version 1: its `statestore` source on checkpoints that are all ours."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.checkpoint.conf import ROW_CHECKSUM
from hdfsstore.codecs.compression import CODECS
from hdfsstore.codecs.types import StructType
from tests.spark.support.own_checkpoint import NUMBER, PARTITIONS, OwnCheckpoint, numbers, spark_rows
from tests.spark.support.value_tables import value_tables
from tests.support.rows import counted


# A failing example costs a Spark job for each step of shrinking it: it is shown as it was found.
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(value_tables())
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
