"""The cases whose number of state partitions changes: by Spark's own repartition, or in the offset log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from . import cases
from .case import LAST, Inputs, Query, case
from .cases import JOIN_FORMAT, counts, joined
from .rocksdb_cases import IDS, ON_CHANGELOGS, ON_ZIPS
from .session import SHUFFLE_PARTITIONS
from .transform_cases import transformed

FROM_3 = {SHUFFLE_PARTITIONS: "3"}


def repartitioned(partitions: int) -> Callable[[SparkSession, Path], None]:
    """What Spark 4.2 and later do to a stopped query: a batch of its own, without input."""

    def repartition(spark: SparkSession, checkpoint: Path) -> None:
        spark._streamingCheckpointManager.repartition(str(checkpoint), partitions)

    return repartition


def going_on(first: Query, then: Callable[[], Query], partitions: int) -> Query:
    """The query, a repartition, and the query again."""
    return replace(first, between=repartitioned(partitions), then=then)


@case(*LAST, confs=ON_CHANGELOGS)
def rocksdb_more_partitions(inputs: Inputs) -> Query:
    """Two batches on 2 partitions, Spark's repartition to 5, two more batches; with changelogs."""
    return going_on(counts(inputs, 2), lambda: counts(inputs, 2), 5)


@case(*LAST, confs={**ON_ZIPS, **FROM_3})
def rocksdb_fewer_partitions(inputs: Inputs) -> Query:
    """Two batches on 3 partitions, Spark's repartition to 2, two more batches; snapshots only."""
    return going_on(counts(inputs, 2), lambda: counts(inputs, 2), 2)


@case(*LAST, confs={**IDS, **FROM_3})
def rocksdb_fewer_partitions_unique_ids(inputs: Inputs) -> Query:
    """Two batches on 3 partitions, Spark's repartition to 2, two more batches; unique ids."""
    return going_on(counts(inputs, 2), lambda: counts(inputs, 2), 2)


@case(*LAST, confs=ON_CHANGELOGS)
def rocksdb_more_partitions_without_key(inputs: Inputs) -> Query:
    """groupBy without keys, repartitioned from 2 to 5: Spark moves the row, and goes on without it in partition 0."""
    first = cases.aggregation_complete(inputs)
    return going_on(first, lambda: cases.aggregation_complete(inputs), 5)


@case(*LAST, confs={**ON_CHANGELOGS, **FROM_3})
def rocksdb_join_fewer_partitions(inputs: Inputs) -> Query:
    """A join of state format 2, repartitioned from 3 to 2."""
    return going_on(joined(inputs, "inner"), lambda: joined(inputs, "inner", 1), 2)


@case(*LAST, confs={**ON_CHANGELOGS, JOIN_FORMAT: "3"})
def rocksdb_join_format3_more_partitions(inputs: Inputs) -> Query:
    """A join of state format 3, repartitioned from 2 to 3: its operator metadata has a version for each batch."""
    return going_on(joined(inputs, "inner"), lambda: joined(inputs, "inner", 1), 3)


@case(*LAST, confs={**ON_CHANGELOGS, **FROM_3})
def transform_fewer_partitions(inputs: Inputs) -> Query:
    """transformWithState, repartitioned from 3 to 2."""
    return going_on(
        transformed(inputs, "Structures", batches=2), lambda: transformed(inputs, "Structures", batches=1), 2
    )


def repartition_and_lose_the_commit(spark: SparkSession, checkpoint: Path) -> None:
    """What a repartition leaves behind that was killed before its last write."""
    repartitioned(5)(spark, checkpoint)
    commit = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (commit, commit.with_name(f".{commit.name}.crc")):
        file.unlink()


@case(*LAST, confs=ON_CHANGELOGS, afterwards=repartition_and_lose_the_commit)
def rocksdb_repartition_unfinished(inputs: Inputs) -> Query:
    """A repartition from 2 to 5 partitions that was killed before its commit: its state is written."""
    return counts(inputs, 2)


@case(*LAST, confs=ON_CHANGELOGS, afterwards=repartition_and_lose_the_commit)
def transform_repartition_unfinished(inputs: Inputs) -> Query:
    """The same of transformWithState: the newest operator metadata is of the batch that was not committed."""
    return transformed(inputs, "Structures", batches=2)


def change_the_newest_entry(_spark: SparkSession, checkpoint: Path) -> None:
    """Writes 2 partitions into the entry of the batch that failed, which restarts go by."""
    entry = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    text = entry.read_text(encoding="utf-8")
    entry.write_text(text.replace(f'"{SHUFFLE_PARTITIONS}":"3"', f'"{SHUFFLE_PARTITIONS}":"2"'), encoding="utf-8")
    entry.with_name(f".{entry.name}.crc").unlink()


@case("3.5", "4.1", confs=FROM_3)
def fewer_partitions_by_hand(inputs: Inputs) -> Query:
    """HDFS-backed: 3 partitions became 2 in the entry of a batch that failed. Spark drops the third in silence."""
    first = counts(inputs, 4)
    go_on = replace(first, fail_in_batch=None)
    return replace(first, fail_in_batch=2, between=change_the_newest_entry, then=lambda: go_on)
