"""What a user's sink may do with the output of a batch."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
