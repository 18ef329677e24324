"""What a user's sink may do with the output of a batch: the state is the same whatever it does.

One query whose sink does something else in each batch, as the protocol of a batch begins anew in each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hdfsstore import Checkpoint
from hdfsstore.spark import groupBy
from tests.spark.test_stateful_arrow import count, write_batches

Rows = list[tuple[int, int, int]]


def collected(output: DataFrame) -> Rows:
    return sorted(map(tuple, output.collect()))


def two_actions(output: DataFrame) -> Rows:
    output.count()
    return collected(output)


def persisted(output: DataFrame) -> Rows:
    kept = output.persist()
    kept.count()
    found = collected(kept)
    kept.unpersist()
    return found


def joined(output: DataFrame) -> Rows:
    names = output.sparkSession.range(100).withColumnRenamed("id", "user")
    return collected(output.join(names, "user").select("user", "n", "total"))


def self_joined(output: DataFrame) -> Rows:
    return collected(output.join(output.select("user"), "user").select("user", "n", "total"))


# What it does, and whether it gives all rows of the output.
SINKS: dict[str, tuple[Callable[[DataFrame], object], bool]] = {
    "collect": (collected, True),
    "coalesce(1)": (lambda output: collected(output.coalesce(1)), True),
    "repartition(5)": (lambda output: collected(output.repartition(5)), True),
    "union": (lambda output: sorted(set(collected(output.union(output)))), True),
    "union, coalesce(1)": (lambda output: sorted(set(collected(output.union(output).coalesce(1)))), True),
    "join": (joined, True),
    "self join": (self_joined, True),
    "orderBy": (lambda output: sorted(collected(output.orderBy(F.desc("user")))), True),
    "limit(1)": (lambda output: output.limit(1).collect(), False),
    "take(1)": (lambda output: output.take(1), False),
    "isEmpty": (lambda output: output.isEmpty(), False),
    "count": (lambda output: output.count(), False),
    "two actions": (two_actions, True),
    "persist": (persisted, True),
    "rdd": (lambda output: sorted(map(tuple, output.rdd.coalesce(1).collect())), True),
    "no action": (lambda _: None, False),
    "no row": (lambda output: output.where("user < 0").collect(), False),
    "foreachPartition that reads one row": (
        lambda output: output.foreachPartition(lambda rows: next(rows, None)),
        False,
    ),
}


@pytest.mark.parametrize(
    ("checkpoint_format_version", "names"),
    [(1, ["union, coalesce(1)", "orderBy", "limit(1)", "two actions", "no action"]), (2, list(SINKS))],
    ids=["v1", "v2"],
)
def test_the_state_does_not_depend_on_what_the_sink_does(
    spark: SparkSession, tmp_path: Path, checkpoint_format_version: int, names: list[str]
) -> None:
    chance = random.Random(checkpoint_format_version)
    # After many rows each partition is expected to have some.
    sizes = [chance.choice((5, 300, 300)) for _ in names]
    batches = [
        pa.table({name: [chance.randrange(n) for _ in range(size)] for name, n in (("user", 30), ("v", 9))})
        for size in sizes
    ]
    found: list[object] = []

    def sink(output: DataFrame, batch_id: int) -> None:
        found.append(SINKS[names[batch_id]][0](output))

    source = write_batches(tmp_path / "in", batches)
    rows = spark.readStream.schema("user long, v long").option("maxFilesPerTrigger", 1).parquet(str(source))
    counts = groupBy(rows, "user").mapInArrowWithState(
        count, "user long, n long, total long", "n long, total long", "update", "NoTimeout"
    )
    query = (
        counts.writeStream.option("checkpointLocation", str(tmp_path / "cp"))
        .option("hdfsstore.checkpointFormatVersion", checkpoint_format_version)
        .option("hdfsstore.numPartitions", 3)
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()

    state: dict[int, tuple[int, int]] = {}
    for batch_id, name in enumerate(names):
        users, values = (batches[batch_id][column].to_pylist() for column in ("user", "v"))
        for user, v in zip(users, values, strict=True):
            n, total = state.get(user, (0, 0))
            state[user] = n + 1, total + v
        if SINKS[name][1]:
            assert found[batch_id] == [(user, *state[user]) for user in sorted(set(users))], name
        kept = Checkpoint(tmp_path / "cp" / "hdfsstore").read_state(batch_id=batch_id).to_pylist()
        assert {row["key"]["user"]: tuple(row["value"]["groupState"].values()) for row in kept} == state, name
