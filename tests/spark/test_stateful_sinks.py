"""What a user's sink may do with the output of a batch: the state is the same whatever it does.

One query whose sink does something else in each batch, as the protocol of a batch begins anew in each.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hdfsstore import Checkpoint
from hdfsstore.spark import groupBy
from tests.spark.support.counts import count, write_batches
from tests.spark.support.sinks import SINKS


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
