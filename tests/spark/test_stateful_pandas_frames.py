"""applyInPandasWithState gives its function what Spark's own does, type by type, and takes the same from it."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState

from hdfsstore.spark import groupBy

ROWS = """
    i int, g string, k1 int, k2 boolean, k3 timestamp, k4 struct<t: timestamp, d: date, x: int>,
    b byte, s short, n int, l long, f float, d double, o boolean, t string, y binary, m decimal(20, 3), e date,
    ts timestamp, ntz timestamp_ntz, iv interval day to second, a array<int>, ats array<timestamp>,
    aa array<array<string>>, ast array<struct<x: int, t: timestamp>>, mp map<string, int>, mts map<string, timestamp>,
    st struct<x: int, t: timestamp, a: array<date>>, full int, none int
"""
KEYS = ("g", "k1", "k2", "k3", "k4")


def some_rows() -> str:
    """A query of 40 rows of 8 keys; of each column some keys have nulls, some have none, some have nothing else."""

    def sometimes(value: str, every: int) -> str:
        return f"CASE WHEN k % 4 = 3 OR (k % 4 = 1 AND id % {every} = 0) THEN NULL ELSE {value} END"

    time = "timestamp'2024-03-31 00:30:00Z' + make_dt_interval(0, id % 7, id, id / 1000)"
    columns = {
        "b": "CAST(id AS byte)",
        "s": "CAST(id AS short)",
        "n": "CAST(id AS int)",
        "l": "id + 9007199254740993",
        "f": "CASE WHEN id % 5 = 0 THEN float('NaN') ELSE float(id / 7) END",
        "d": "CASE WHEN id % 5 = 1 THEN double('-Infinity') WHEN id % 5 = 2 THEN -0D ELSE id / 7 END",
        "o": "id % 3 = 0",
        "t": "concat('é', id)",
        "y": "CAST(concat('x', id) AS binary)",
        "m": "CAST(id + 0.125 AS decimal(20, 3))",
        "e": "date_add(date'0900-01-01', CAST(id AS int) * 40000)",
        "ts": time,
        "ntz": f"CAST({time} AS timestamp_ntz)",
        "iv": "make_dt_interval(CAST(id AS int), 1, 2, 3.5)",
        "a": "array(1, NULL, CAST(id AS int))",
        "ats": f"array({time}, NULL)",
        "aa": "array(array('a', NULL), array(), NULL)",
        "ast": f"array(struct(CAST(id AS int) AS x, {time} AS t), NULL)",
        "mp": "map('a', CAST(id AS int), 'b', NULL)",
        "mts": f"map('a', {time})",
        "st": f"named_struct('x', CAST(id AS int), 't', {time}, 'a', array(date'2024-01-01', NULL))",
    }
    chosen = ", ".join(f"{sometimes(value, 2 + i % 3)} AS {name}" for i, (name, value) in enumerate(columns.items()))
    keys = """
        CASE WHEN k = 7 THEN NULL ELSE concat('key', k) END AS g,
        CASE WHEN k % 4 = 0 THEN NULL ELSE CAST(k AS int) END AS k1,
        CASE WHEN k % 4 = 1 THEN NULL ELSE k % 2 = 0 END AS k2,
        CASE WHEN k % 4 = 2 THEN NULL ELSE timestamp'2024-10-27 00:30:00Z' + make_dt_interval(0, k) END AS k3,
        CASE WHEN k = 6 THEN NULL
            ELSE named_struct('t', timestamp'2024-06-01 00:00:00Z', 'd', date'1500-02-03', 'x', nullif(k, 2)) END AS k4
    """
    ids = "SELECT CAST(id AS int) AS id, CAST(id % 8 AS int) AS k FROM range(40)"
    return f"SELECT id AS i, {keys}, {chosen}, id AS full, CAST(NULL AS int) AS none FROM ({ids})"


def pickled(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The rows as they are, and what the function gets, as it gets it."""
    state.update((1,))
    for frame in frames:
        yield frame.drop(columns=["v", "nothing"]).assign(got=[pickle.dumps((key, frame))] + [None] * (len(frame) - 1))


def outcome(stream: Any, folder: Path) -> tuple[dict[str | None, list[Any]], list[Row]]:
    """What the function got, by its first key column; and the output without that."""
    found: list[Row] = []

    def sink(output: DataFrame, _: int) -> None:
        found.extend(output.collect())

    query = (
        stream.writeStream.outputMode("update")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    got: dict[str | None, list[Any]] = defaultdict(list)
    for row in found:
        if row.got is not None:
            got[row.g].append(pickle.loads(row.got))
    return got, sorted(row[:-1] for row in found)


def test_keys_frames_and_output_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        spark.sql(some_rows()).coalesce(1).write.parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(ROWS).parquet(str(tmp_path / "in"))
        rows = stream.withColumn("v", f.parse_json(f.col("i").cast("string"))).withColumn("nothing", f.lit(None))
        arguments = (pickled, f"{ROWS}, got binary", "seen int", "update", "NoTimeout")
        theirs, their_rows = outcome(rows.groupBy(*KEYS).applyInPandasWithState(*arguments), tmp_path / "theirs")
        ours, our_rows = outcome(groupBy(rows, *KEYS).applyInPandasWithState(*arguments), tmp_path / "ours")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(our_rows) == 40
    assert str(our_rows) == str(their_rows)  # NaN is NaN
    assert len(ours) == len(theirs) == 8
    assert {str(frame["n"].dtype) for ((_, frame),) in theirs.values()} == {"int32", "float64"}
    for name, ((key, frame),) in theirs.items():
        ((our_key, our_frame),) = ours[name]
        alike(our_key, key)
        pd.testing.assert_index_equal(our_frame.index, frame.index, exact=True)
        pd.testing.assert_index_equal(our_frame.columns, frame.columns, exact=True)
        assert our_frame.dtypes.to_list() == frame.dtypes.to_list()
        # Spark's shuffle does not keep the order of a key's rows.
        order, our_order = np.argsort(frame["i"].to_numpy()), np.argsort(our_frame["i"].to_numpy())
        for column in frame.columns:
            for theirs_at, ours_at in zip(order, our_order, strict=True):
                alike(our_frame[column][ours_at], frame[column][theirs_at])


def alike(ours: Any, theirs: Any) -> None:
    """The same value of the same type, all the way down."""
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
    if isinstance(theirs, pd.Timestamp | pd.Timedelta):
        assert ours.unit == theirs.unit
    if isinstance(theirs, dict):
        alike(list(ours.items()), list(theirs.items()))
    elif isinstance(theirs, list | tuple | np.ndarray):
        assert len(ours) == len(theirs)
        for our_item, item in zip(ours, theirs, strict=True):
            alike(our_item, item)
    else:
        assert str(ours) == str(theirs)
