"""A Spark query is stopped, our store writes its next version with the logs to match, and Spark goes on from there.

The oracle is the same query run by Spark from start to end. What our store writes are the rows that the change feed of
that run tells of the batch: as record batches through a provider, into a copy in which the batch never was.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import hdfsstore
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.fs.location import resolve
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from tests.data.generate import cases
from tests.data.generate.case import CASES, Inputs, Query
from tests.support.continued_stores import OpenStores, stores_of
from tests.support.rows import counted

OURS = 2  # the batch that our store runs: Spark runs 0 and 1 before, 3 and the ones without data after

QUERIES: dict[str, Callable[[Inputs], Query]] = {
    "join_left_outer": lambda inputs: cases.joined(inputs, "leftOuter", batches=4),
    **{
        name: CASES[name].build
        for name in (
            "aggregation",
            "drop_duplicates_within_watermark",
            "session_window",
            "apply_in_pandas_with_state",
            "chained_windows",
        )
    },
}
# Those in which Spark finds no delta, only what our maintenance wrote.
FROM_SNAPSHOTS = ("session_window", "drop_duplicates_within_watermark")
# Those in which Spark had written a version already, as a killed query leaves it, which our store overwrites.
RUN_BEFORE = ("aggregation", "join_left_outer")


def run(query: Query, checkpoint: Path) -> dict[int, Counter[str]]:
    """The rows that each batch gives, until there is no input left."""
    outputs = {}

    def sink(batch: DataFrame, batch_id: int) -> None:
        outputs[batch_id] = counted(batch.toArrow())

    writer = query.frame.writeStream.foreachBatch(sink).outputMode(query.mode)
    running = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    running.awaitTermination()
    return outputs


def cut(whole: Path, part: Path) -> None:
    """A copy without the batches from OURS on."""
    shutil.copytree(whole, part)
    for path in part.rglob("*"):
        named = re.fullmatch(r"\.?(\d+)(\.delta)?(\.crc)?", path.name)
        if path.is_file() and named and int(named[1]) > OURS - (not named[2]):
            path.unlink()


def write_batch(whole: Path, part: Path, local_dir: Path, *, snapshots: bool) -> None:
    """What batch OURS changed, written by our store."""
    for store in stores_of(part):
        changes = hdfsstore.Checkpoint(whole).read_changes(OURS, OURS, store.operator_id, store.name)
        with OpenStores(part, store, local_dir, changes) as stores:
            for partition_id, provider in stores.partitions.items():
                writer = provider.get_store(OURS)
                for kind, rows in in_runs(changes.filter(pc.equal(changes["partition_id"], partition_id))):
                    keys, values = (pa.RecordBatch.from_struct_array(rows[column]) for column in ("key", "value"))
                    if kind == "update":
                        writer.put_batch(keys, values)
                    else:
                        writer.remove_batch(keys)
                assert writer.commit() == StateStoreCheckpointInfo(partition_id, OURS + 1, None, None)
                if snapshots:
                    provider.do_maintenance()


def write_logs(whole: Path, part: Path) -> None:
    """What the logs say of batch OURS, by our writers; what the file source has read is an affair of its own."""
    fs, root = resolve(part)
    offsets: MetadataLog[OffsetLogEntry] = MetadataLog(fs, f"{root}/offsets", read_offset_log)
    offsets.add(OURS, encode_offset_log(read_offset_log(fs, f"{whole}/offsets/{OURS}")))
    for log in (whole / "sources").iterdir():
        shutil.copy(log / str(OURS), part / "sources" / log.name)
    batch = hdfsstore.Checkpoint(whole).batch(OURS)
    assert batch.next_watermark_ms is not None
    infos = {
        operator.operator_id: {
            i: [StateStoreCheckpointInfo(i, OURS + 1, None, None)] * len(operator.stores)
            for i in operator.stores[0].partition_ids
        }
        for operator in hdfsstore.Checkpoint(part).operators
    }
    hdfsstore.CommitLog(part, checkpoint_format_version=1).add(OURS, batch.next_watermark_ms, infos)
    for name in (f"offsets/{OURS}", f"commits/{OURS}"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()


def in_runs(changes: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of one kind together, in their order."""
    start = 0
    for kind, rows in groupby(changes["change_type"].to_pylist()):
        size = len(list(rows))
        yield kind, changes.slice(start, size).combine_chunks().to_batches()[0]
        start += size


def states(checkpoint: Path, batch_id: int | None = None) -> dict[str, Counter[str]]:
    """The rows of every store after a batch, the last one by default."""
    opened = hdfsstore.Checkpoint(checkpoint)
    return {
        str(store): counted(opened.read_state(store.operator_id, store.name, batch_id))
        for store in stores_of(checkpoint)
    }


@pytest.mark.parametrize("name", QUERIES)
def test_spark_goes_on_from_our_version(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query = QUERIES[name](Inputs(spark, tmp_path / "input"))
    whole, part = tmp_path / "whole", tmp_path / "part"
    expected = run(query, whole)
    cut(whole, part)
    if name in RUN_BEFORE:
        for path in part.glob(f"state/**/*{OURS}.delta*"):  # of Spark's own attempt, whose batch was not committed
            shutil.copy(path, path.with_name(path.name.replace(str(OURS), str(OURS + 1))))
    write_batch(whole, part, tmp_path / "local", snapshots=name in FROM_SNAPSHOTS)
    if name in FROM_SNAPSHOTS:
        for path in part.glob("state/**/*.delta"):
            path.unlink()
        assert {path.name for path in part.glob("state/**/*.snapshot")} == {f"{OURS + 1}.snapshot"}
    write_logs(whole, part)
    assert states(part) == states(whole, OURS)
    outputs = run(query, part)
    assert outputs == {batch_id: rows for batch_id, rows in expected.items() if batch_id > OURS}
    assert any(outputs.values())
    assert hdfsstore.Checkpoint(part).latest_batch_id == max(expected)
    assert states(part) == states(whole)
