"""A batch of a Spark query that Spark did not run: computed here with Arrow and our store, with the logs to match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import hdfsstore
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.state.protocols import StateStore
from tests.spark.support.own_batch import (
    OURS,
    STORE,
    begin,
    count,
    count_in_python,
    count_in_store,
    rows_of,
    write_input,
)
from tests.support.continued_stores import OpenStores


def distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"]).select("k")


def distinct_in_python(batch_id: int) -> list[tuple[Any, ...]]:
    """The keys of a batch that no batch before it had."""
    seen = {row["k"] for b in range(batch_id) for row in rows_of(b)}
    return [(key,) for key in {row["k"] for row in rows_of(batch_id)} - seen]


def distinct_in_store(store: StateStore, rows: pa.Table) -> None:
    keys = pa.record_batch({"k": rows["k"].unique()})
    store.put_batch(keys, pa.record_batch({"__dummy__": pa.nulls(keys.num_rows)}))


@pytest.mark.parametrize(
    ("query", "mode", "in_python", "in_store"),
    [(count, "update", count_in_python, count_in_store), (distinct, "append", distinct_in_python, distinct_in_store)],
    ids=["count", "distinct"],
)
def test_spark_goes_on_from_what_was_computed_here(
    spark: SparkSession,
    tmp_path: Path,
    query: Callable[[DataFrame], DataFrame],
    mode: str,
    in_python: Callable[[int], list[tuple[Any, ...]]],
    in_store: Callable[[StateStore, pa.Table], None],
) -> None:
    folder, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    outputs: dict[int, Counter[Any]] = {}

    def run() -> None:
        stream = spark.readStream.schema("k STRING, n INT").option("maxFilesPerTrigger", 1).json(str(folder))
        writer = query(stream).writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
        writer.foreachBatch(lambda rows, batch_id: outputs.update({batch_id: Counter(map(tuple, rows.collect()))}))
        writer.trigger(availableNow=True).start().awaitTermination()

    for batch_id in range(OURS):
        write_input(folder, batch_id)
    run()
    our_input = write_input(folder, OURS)
    begin(checkpoint, our_input)
    run_batch(checkpoint, tmp_path / "local", in_store)
    write_input(folder, OURS + 1)
    run()
    assert outputs == {b: Counter(in_python(b)) for b in (0, 1, OURS + 1)}


def run_batch(checkpoint: Path, local_dir: Path, in_store: Callable[[StateStore, pa.Table], None]) -> None:
    """The state of batch OURS, each row in the partition where Spark would put it, and the commit log."""
    rows = pa.Table.from_pylist(rows_of(OURS), schema=pa.schema({"k": pa.string(), "n": pa.int64()}))
    described = hdfsstore.Checkpoint(checkpoint).operator().store()
    keys = pa.StructArray.from_arrays([rows["k"].combine_chunks()], ["k"])
    places = partition_ids(keys, described.key_type, described.num_partitions)
    state = hdfsstore.Checkpoint(checkpoint).read_state()
    infos = {}
    with OpenStores(checkpoint, STORE, local_dir, state) as stores:
        for partition_id, provider in stores.partitions.items():
            store = provider.get_store(OURS)
            in_store(store, rows.filter(pc.equal(places, partition_id)))
            infos[partition_id] = [store.commit()]
    hdfsstore.CommitLog(checkpoint, checkpoint_format_version=1).add(OURS, 0, {0: infos})
