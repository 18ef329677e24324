"""The cases of each operator and each file format: one function a case."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from .case import ALL, LAST, SINCE_40, Inputs, Query, case
from .data import EVENTS, events

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
CODEC = "spark.sql.streaming.stateStore.compression.codec"


def counts(inputs: Inputs, batches: int = 4) -> Query:
    return Query(inputs.stream("input", EVENTS, events(batches)).groupBy("k").agg(F.count("*"), F.sum("n")))


@case(*ALL)
def aggregation(inputs: Inputs) -> Query:
    """groupBy with two sums, two counts and two averages: fields of the same name; null keys and values."""
    stream = inputs.stream("input", EVENTS, events())
    sums = [F.sum("n").alias("a"), F.sum("d").alias("b"), F.count("*").alias("c"), F.count("n").alias("e")]
    return Query(stream.groupBy("k").agg(*sums, F.avg("n").alias("f"), F.avg("d").alias("g"), F.max("k").alias("h")))


@case(*LAST)
def aggregation_many_buffers(inputs: Inputs) -> Query:
    """Aggregates whose buffers are structs, binaries and nullable wide values; two grouping columns."""
    stream = inputs.stream("input", EVENTS, events())
    wide = F.col("n").cast("decimal(30,5)")
    aggregates = [F.sum(wide), F.avg(wide), F.stddev("d"), F.corr("n", "d"), F.first("k"), F.last("ts", True)]
    aggregates += [F.max_by("k", "n"), F.collect_list("n"), F.collect_set("k"), F.approx_count_distinct("k")]
    return Query(stream.groupBy(F.length("k").alias("l"), (F.col("n") % 2).alias("odd")).agg(*aggregates))


@case(*LAST)
def aggregation_complete(inputs: Inputs) -> Query:
    """groupBy without keys in complete mode: an empty key row, all in one partition."""
    stream = inputs.stream("input", EVENTS, events(3))
    return Query(stream.groupBy().agg(F.count("*"), F.min("k"), F.max("d")), "complete")


@case(*LAST, confs={"spark.sql.streaming.aggregation.stateFormatVersion": "1"})
def aggregation_format1(inputs: Inputs) -> Query:
    """Aggregation state format 1: the value repeats the key columns."""
    return counts(inputs, 3)


@case(*ALL)
def window_aggregation(inputs: Inputs) -> Query:
    """Tumbling windows in append mode with a watermark: evicted windows are tombstones."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "2 minutes")
    return Query(stream.groupBy(F.window("ts", "3 minutes"), "k").agg(F.count("*"), F.sum("d")), "append")


@case(*ALL)
def session_window(inputs: Inputs) -> Query:
    """Session windows in append mode with a watermark."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "3 minutes")
    return Query(stream.groupBy(F.session_window("ts", "90 seconds"), "k").agg(F.count("*"), F.sum("n")), "append")


@case(*ALL)
def drop_duplicates(inputs: Inputs) -> Query:
    """dropDuplicates without a watermark: a single null as value."""
    return Query(inputs.stream("input", EVENTS, events()).dropDuplicates(["k"]), "append")


@case(*LAST)
def drop_duplicates_watermark(inputs: Inputs) -> Query:
    """dropDuplicates with the event time among its keys: old keys are evicted."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "2 minutes")
    return Query(stream.dropDuplicates(["k", "ts"]), "append")


@case(*ALL)
def drop_duplicates_within_watermark(inputs: Inputs) -> Query:
    """dropDuplicatesWithinWatermark: the value is the time of expiry."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "2 minutes")
    return Query(stream.dropDuplicatesWithinWatermark(["k"]), "append")


def joined(inputs: Inputs, how: str, batches: int = 2) -> Query:
    left = inputs.stream("left", EVENTS, events(batches)).withWatermark("ts", "2 minutes")
    right = inputs.stream("right", "k STRING, t TIMESTAMP, v BIGINT", right_side(batches)).withWatermark(
        "t", "1 minute"
    )
    near = "l.k = r.k AND t BETWEEN ts - INTERVAL 2 MINUTES AND ts + INTERVAL 2 MINUTES"
    return Query(left.alias("l").join(right.alias("r"), F.expr(near), how), "append")


def right_side(batches: int) -> list[list[dict[str, object]]]:
    return [[{"k": row["k"], "t": row["ts"], "v": row["n"]} for row in batch[:3]] for batch in events(batches)]


@case(*ALL)
def join_inner(inputs: Inputs) -> Query:
    """Stream-stream inner join with watermarks on both sides: four stores."""
    return joined(inputs, "inner")


@case(*ALL)
def join_left_outer(inputs: Inputs) -> Query:
    """Stream-stream left outer join with watermarks: values keep the matched flag."""
    return joined(inputs, "leftOuter")


@case("3.5", confs={JOIN_FORMAT: "1"})
def join_format1(inputs: Inputs) -> Query:
    """Stream-stream inner join with join state format 1: values without the matched flag."""
    return joined(inputs, "inner")


def count_with_timeout(key, frames, state: GroupState):
    if state.hasTimedOut:
        (total,) = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "total": [-total]})
        return
    total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((total,))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 120_000)
    yield pd.DataFrame({"k": [key[0]], "total": [total]})


@case(*ALL)
def apply_in_pandas_with_state(inputs: Inputs) -> Query:
    """applyInPandasWithState with event-time timeouts, some of which fire."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "1 minute")
    return Query(
        stream.groupBy("k").applyInPandasWithState(
            count_with_timeout, "k STRING, total BIGINT", "total BIGINT", "update", GroupStateTimeout.EventTimeTimeout
        )
    )


@case(*ALL)
def flat_map_groups_with_state(inputs: Inputs) -> Query:
    """flatMapGroupsWithState of the JVM with event-time timeouts and a bean as state."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "1 minute")
    jvm = inputs.spark._jvm
    return Query(DataFrame(jvm.hdfsstore.GroupStates.count(stream._jdf), inputs.spark))


@case(*LAST, confs={"spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "1"})
def flat_map_groups_with_state_format1(inputs: Inputs) -> Query:
    """flatMapGroupsWithState with state format 1: the state's fields lie flat in the value."""
    return flat_map_groups_with_state(inputs)


@case(*ALL)
def dedup_then_aggregate(inputs: Inputs) -> Query:
    """Two operators in one query: dropDuplicates, then window aggregation in append mode."""
    stream = inputs.stream("input", EVENTS, events(3)).withWatermark("ts", "2 minutes").dropDuplicates(["k", "ts"])
    return Query(stream.groupBy(F.window("ts", "3 minutes")).agg(F.count("*"), F.sum("n")), "append")


@case(*SINCE_40)
def chained_windows(inputs: Inputs) -> Query:
    """A window aggregation of a window aggregation in append mode."""
    stream = inputs.stream("input", EVENTS, events()).withWatermark("ts", "1 minute")
    small = stream.groupBy(F.window("ts", "1 minute"), "k").agg(F.count("*").alias("n"))
    return Query(small.groupBy(F.window(F.window_time("window"), "4 minutes")).agg(F.sum("n")), "append")


@case(*ALL)
def global_limit(inputs: Inputs) -> Query:
    """A streaming limit: one row in partition 0, though two partitions are declared."""
    return Query(inputs.stream("input", EVENTS, events(3)).limit(7), "append")


@case(*ALL, confs={CODEC: "zstd"})
def codec_zstd(inputs: Inputs) -> Query:
    """State files compressed with zstd."""
    return counts(inputs, 3)


@case(*ALL, confs={CODEC: "snappy"})
def codec_snappy(inputs: Inputs) -> Query:
    """State files compressed with snappy."""
    return counts(inputs, 3)


@case(*ALL, confs={CODEC: "lzf"})
def codec_lzf(inputs: Inputs) -> Query:
    """State files compressed with lzf."""
    return counts(inputs, 3)


ROW_CHECKSUM = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}


@case(*LAST, confs=ROW_CHECKSUM)
def row_checksum(inputs: Inputs) -> Query:
    """Row checksums, with tombstones of evicted windows."""
    return window_aggregation(inputs)


SNAPSHOTS = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
}


@case(*ALL, confs=SNAPSHOTS, own_session=True)
def snapshots(inputs: Inputs) -> Query:
    """Eleven batches with evictions and a snapshot after more than four deltas."""
    stream = inputs.stream("input", EVENTS, events(11, 2)).withWatermark("ts", "2 minutes")
    return Query(stream.groupBy(F.window("ts", "2 minutes"), "k").agg(F.count("*"), F.sum("n")))


@case(*LAST, confs={**SNAPSHOTS, "spark.sql.streaming.minBatchesToRetain": "3"}, own_session=True)
def snapshots_purged(inputs: Inputs) -> Query:
    """Only the last three batches are retained: old deltas, offsets and commits are gone."""
    return counts(inputs, 12)


@case(*LAST, confs={**SNAPSHOTS, **ROW_CHECKSUM, CODEC: "zstd"}, own_session=True)
def snapshots_row_checksum(inputs: Inputs) -> Query:
    """Snapshots and deltas with row checksums, compressed with zstd."""
    return counts(inputs, 7)


@case(*ALL)
def unfinished_batch(inputs: Inputs) -> Query:
    """The sink fails in batch 3, after the state was written: offsets/3 without commits/3."""
    query = counts(inputs, 5)
    return Query(query.frame, query.mode, fail_in_batch=3)


def leave_temporary_file(spark: SparkSession, checkpoint: Path) -> None:  # noqa: ARG001
    """What a query that was killed between write and rename leaves in offsets/."""
    name = ".4.0f8fad5b-d9cb-469f-a165-70867728950e.tmp"
    offsets = checkpoint / "offsets"
    shutil.copy(offsets / "2", offsets / name)
    shutil.copy(offsets / ".2.crc", offsets / f".{name}.crc")


@case(*LAST, afterwards=leave_temporary_file)
def leftover_temporary_file(inputs: Inputs) -> Query:
    """A temporary file of a stopped query in offsets/ (a copy of offsets/2 under the name Spark uses)."""
    return counts(inputs, 3)


@case(*LAST, confs={"spark.sql.streaming.offsetLog.formatVersion": "2"})
def offset_log_v2(inputs: Inputs) -> Query:
    """Offset log version 2, without named sources."""
    return counts(inputs, 3)


EVOLUTION = {
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.queryEvolution.enableSinkEvolution": "true",
}


@case(*LAST, confs=EVOLUTION)
def query_evolution(inputs: Inputs) -> Query:
    """Named sources and a named sink: offset log version 2, commit log version 3."""
    stream = inputs.stream("input", EVENTS, events(3), source_name="clicks")
    return Query(stream.groupBy("k").agg(F.count("*")), sink_name="totals")
