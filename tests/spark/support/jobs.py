"""Stateful jobs that Spark's API and ours run alike: a function, its schemas, and the rows of each batch.

Times are seconds since 1970.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.spark.support import functions as f
from tests.spark.support import scripted
from tests.spark.support.functions import (
    COLLECTIONS,
    EXTREMES,
    NAN,
    NESTED,
    NOTHING,
    ONE_OF_EACH,
    SEEN,
    TYPE_NAMES,
    TYPES,
    VALUES,
    at,
)
from tests.spark.support.runs import Job
from tests.spark.support.scripted import SCRIPT_COLUMNS, SCRIPT_OUTPUT, SCRIPT_STATE, play_pandas

# Python workers need not find the tests.
for module in (f, scripted):
    cloudpickle.register_pickle_by_value(module)


def one_each(*keys: Any) -> list[tuple[Any, ...]]:
    return [(key, 1) for key in keys]


def window() -> Column:
    return F.window("t", "5 seconds")


def windows(rows: DataFrame) -> DataFrame:
    """Rows with a window in the place of their time: Spark's function has one event-time column only."""
    return rows.select("k", window().alias("w"))


def script_rows(*rows: tuple[str, float | None, str]) -> list[tuple[Any, ...]]:
    return [(key, None if seconds is None else at(seconds), i, ops) for i, (key, seconds, ops) in enumerate(rows)]


def history(seed: int, batches: int, ops: list[str], keys: int = 8) -> list[list[tuple[Any, ...]]]:
    """Random scripts over a clock that moves a few seconds a batch, with rows before and behind it."""
    choose = random.Random(seed)
    made, clock = [], 10
    for _ in range(batches):
        rows = []
        for _ in range(choose.randrange(4, 12)):
            script = " ".join(choose.choices(ops, k=choose.randrange(0, 4)))
            rows.append((f"k{choose.randrange(keys)}", clock + choose.randrange(-8, 5), script))
        made.append(script_rows(*rows))
        clock += choose.randrange(0, 6)
    return made


def script(name: str, batches: list[list[tuple[Any, ...]]], timeout: str, **kwargs: Any) -> Job:
    watermark = kwargs.pop("watermark", ("t", "0 seconds"))
    schemas = (SCRIPT_COLUMNS, ["k"], SCRIPT_OUTPUT, SCRIPT_STATE)
    return Job(name, play_pandas, *schemas, batches, timeout, watermark=watermark, **kwargs)


EVENT_TIME_OPS = [
    "add:1",
    "add:5",
    "rm",
    "wm:1",
    "wm:3",
    "wm:0",
    "at:1",
    "later:rm",
    "later:wm,2",
    "later:add,1",
    "later:rm.wm,4",
    "later:",
]
PAIRS = "k STRING, n LONG"
COUNTED = "rows LONG, total LONG"
COUNTS = f"k STRING, {COUNTED}"

COUNT = Job(
    "count",
    f.count,
    "k STRING, n LONG, a STRUCT<x: INT, y: STRING>",
    ["k"],
    COUNTS,
    COUNTED,
    [
        [("a", 1, None), ("a", None, None), ("b", 5, None), (None, 7, None), ("", 0, None), ("null", None, None)],
        [("a", 10, None), (None, None, None), (None, 3, None)],
        [],
        [("null", 1, None), ("c", 2**40, None)],
    ],
    pace="step",
)
COMPOSITE = Job(
    "composite keys",
    f.count,
    "k STRING, n LONG, a STRUCT<x: INT, y: STRING>",
    ["a", "k", "K"],
    COUNTS,
    COUNTED,
    [
        [("a", 1, {"x": 1, "y": "p"}), ("a", 2, {"x": 1, "y": "q"}), ("a", 3, None), (None, 4, {"x": None, "y": None})],
        [("a", 5, {"x": 1, "y": "p"}), (None, 6, {"x": None, "y": None}), ("a", 7, None), (None, 8, None)],
    ],
)
SESSIONS = Job(
    "sessions",
    f.sessions,
    "k STRING, t TIMESTAMP",
    ["k"],
    "k STRING, start LONG, stop LONG, clicks LONG",
    "start LONG, stop LONG, clicks LONG",
    [
        [("ann", at(1)), ("ann", at(4)), ("bob", at(8))],
        [("ann", at(9)), ("bob", at(3)), ("cat", at(8.5))],  # bob's is late: the batch between has moved the watermark
        [("cat", at(22))],
        [("bob", at(18)), ("ann", at(22.001)), ("dan", at(30))],  # bob is late, and his session is given out
        [("ann", at(50))],
    ],
    "EventTimeTimeout",
    "append",
    watermark=("t", "0 seconds"),
    pace="step",
)
BETWEEN = script(
    "between watermarks",
    [
        script_rows(("due", 1, "add:1 at:2"), ("x", 1, "add:1"), ("upd", 1, "add:1 at:2")),
        script_rows(("x", 5, "add:1")),
        # Runs under 5 s with rows late by 1 s.
        script_rows(
            ("x", 4, "add:1"),
            ("due", 8, ""),
            ("upd", 8, "add:1"),
            ("b3", 3, "wm:0"),
            ("b1", 1, "add:1"),
            ("b1001", 1.001, ""),
        ),
        script_rows(
            ("x", 9, ""), ("never", None, "add:1"), ("z5", 5, "add:1"), ("z5001", 5.001, "add:1"), ("z8", 8, "add:1")
        ),
        script_rows(("x", 20, "wm:-1 wm:0 at:12.345")),
    ],
    "EventTimeTimeout",
)
WINDOWS = Job(
    "windows",
    f.tell_key,
    "k STRING, t TIMESTAMP",
    ["k", "w"],
    SEEN,
    "n LONG",
    [
        [("x", at(1))],
        [("x", at(12))],
        [("x", at(9)), ("x", at(4)), ("y", at(12.5)), ("z", at(4.5))],
        [("x", at(13)), ("x", at(9)), ("x", at(10))],  # late by 12 s: the window that ends at 10 s
        [("x", at(16)), ("x", at(10)), ("x", at(4))],
    ],
    "EventTimeTimeout",
    watermark=("t", "0 seconds"),
    prepare=windows,
)
EVENT_TIME = script(
    "event time",
    [
        script_rows(
            ("left", 1, "add:1 wm:2"),  # its time-out changes nothing, and comes again in each batch
            ("gone", 1, "add:1 later:rm wm:2"),
            ("again", 1, "add:1 later:wm,2 wm:2"),
            ("gone again", 1, "add:1 later:rm.wm,2 wm:2"),
            ("renewed", 1, "add:1 later:rm.add,7 wm:2"),
            ("updated", 1, "add:1 later:add,100 wm:2"),
            ("no state", 1, "wm:2"),
            ("no timeout", 1, "add:1"),
            ("equal", 1, "add:1 at:6"),
            ("cleared", 1, "add:1 wm:2"),
            ("fraction", 1, "add:1 dt:5.9996"),
            ("errors", 1, "get none:0 wm:-1 at:0 at:-1 for:5 add:1 get short:0"),
            ("nothing", 1, ""),
            ("removed", 1, "rm get"),
        ),
        script_rows(("tick", 5, ""), ("cleared", 5, "add:1")),
        script_rows(("tick", 6, ""), ("equal", 6, ""), ("late", 5, "add:1"), ("left", 7, "")),
        script_rows(("left", 9, "rm"), ("no state", 8, "add:3")),
        script_rows(("end", 20, "")),
    ],
    "EventTimeTimeout",
    pace="step",
)
HISTORY = script("history in event time", history(5, 8, EVENT_TIME_OPS), "EventTimeTimeout")
PROCESSING_TIME = script(
    "processing time",
    [
        script_rows(
            ("left", 1, "add:1 for:1"),
            ("gone", 1, "add:1 later:rm for:1"),
            ("again", 1, "add:1 later:for,1 for:1"),
            ("later", 1, "add:1 later:for,3600000 for:1"),
            ("updated", 1, "add:1 later:add,5 for:1"),
            ("no state", 1, "for:1"),
            ("far", 1, "add:1 for:7200000"),
            ("no timeout", 1, "add:1"),
            ("errors", 1, "wm:0 at:5 for:0 for:-1 words:0 for:1.9 add:1"),
        ),
        script_rows(("tick", 1, ""), ("far", 1, "")),
        script_rows(("left", 1, "add:1 for:7200000"), ("gone", 1, "add:1 for:1"), ("updated", 1, "rm")),
        script_rows(("tick", 1, "rm")),
    ],
    "ProcessingTimeTimeout",
    pace="once",
    watermark=None,
)
NO_TIMEOUT = script(
    "no timeout",
    [
        script_rows(("a", 1, "add:1"), ("b", 2, "add:2"), ("c", 3, "for:5 wm:1 add:3")),
        script_rows(("a", 2, "rm"), ("b", 1, "add:2 get"), ("d", 9, "rm")),
        script_rows(("a", 3, "add:5"), ("b", 1, "rm add:9")),
    ],
    "NoTimeout",
)
RESTARTED = script("history in event time, restarted", history(6, 4, EVENT_TIME_OPS), "EventTimeTimeout", pace="once")
DEDUPLICATE = Job(
    "deduplicate",
    f.deduplicate,
    PAIRS,
    ["n", "k"],
    SEEN,
    "seen BOOLEAN",
    [[("a", 1), ("b", 1), ("a", 1)], [("a", 1), (None, None)], [("a", None), (None, None), ("b", 1)]],
    mode="append",
)
TOGGLE = Job(
    "removed and set again",
    f.toggle,
    PAIRS,
    ["k"],
    SEEN,
    "n LONG, s STRING",
    [
        one_each("a", "b", "both", "neither"),
        one_each("a", "both", "neither"),
        one_each("a", "b", "b", "neither"),
        one_each("b"),
    ],
)
MANY_ROWS = Job(
    "many rows a key",
    f.largest,
    PAIRS,
    ["k"],
    PAIRS,
    "most LONG, rows LONG",
    [[("a", i) for i in range(250)] + [("b", i) for i in range(7)] + [("c", 1)], [("b", i) for i in range(31)]],
    confs={"spark.sql.execution.arrow.maxRecordsPerBatch": "20"},
)
KEY_TYPES = Job(
    "every key type",
    f.tell_rows,
    f"{TYPES}, n INT",
    TYPE_NAMES,
    SEEN,
    "n LONG",
    [
        [(*ONE_OF_EACH, 1), (*NOTHING, 2), (*NOTHING[:4], 4, *NOTHING[5:], 3), (*ONE_OF_EACH, 4), (*EXTREMES, None)],
        [(*NOTHING, 2), (*EXTREMES, 6), (*EXTREMES[:9], None, *EXTREMES[10:], 7)],
    ],
)
FLOAT_KEYS = Job(
    "float keys",
    f.tell_rows,
    "d DOUBLE, f FLOAT, n INT",
    ["d", "f"],
    SEEN,
    "n LONG",
    [
        [(0.0, 0.0, 1), (0.0, 1e-45, 2), (NAN, 1.5, 3), (NAN, 1.5, 4), (None, NAN, 5), (float("inf"), None, 6)],
        [(0.0, 0.0, 3), (NAN, NAN, 7), (None, None, 8), (float("-inf"), 1.1, 9), (NAN, 1.5, 10)],
    ],
)
HALF, NAN_STRUCT = {"a": 1, "b": 0.5}, {"a": None, "b": NAN}
NESTED_KEYS = Job(
    "nested keys",
    f.tell_rows,
    "s STRUCT<a: LONG, b: DOUBLE>, l ARRAY<DOUBLE>, n INT",
    ["s", "l"],
    SEEN,
    "n LONG",
    [
        [(HALF, [1.0, 0.0], 1), (HALF, [1.0, 0.0], 2), (NAN_STRUCT, [], 3), (None, None, 4)],
        [(HALF, [1.0, 0.0], 5), (NAN_STRUCT, [], 6), ({"a": None, "b": None}, [None], 7)],
    ],
)
STATE_TYPES = Job(
    "every type of state", f.keep_values, PAIRS, ["k"], SEEN, f"{TYPES}, {NESTED}", [one_each(*VALUES)] * 2
)
WIDE = Job(
    "wide state",
    f.spread,
    PAIRS,
    ["k"],
    SEEN,
    ", ".join(f"c{i} LONG" for i in range(70)),
    [one_each("a", "b", "b"), one_each("a", "a", "c")],
)
ALL_TYPES = f"k STRING, {TYPES}, a ARRAY<INT>, m MAP<STRING, DOUBLE>, {NESTED}"
OUTPUT_TYPES = Job(
    "every type of output",
    f.every_type,
    ALL_TYPES,
    ["k"],
    ALL_TYPES,
    "n INT",
    [
        [
            ("x", *ONE_OF_EACH, [1, 2], [("a", 1.5)], {"p": 1, "q": {"r": "x", "w": {"z": 5}}}),
            ("none", *NOTHING, None, None, None),
        ]
    ],
)
CAST_OUTPUT = Job(
    "output to be cast", f.cast_output, PAIRS, ["k"], "rows LONG, name STRING", "b BOOLEAN", [one_each("a", "b", "b")]
)

# Keys that Spark's function takes as columns only, so that they are made beforehand for it; and what ours is given.
UPPER = Job(
    "an expression as key",
    f.tell_key,
    PAIRS,
    ["u", "n"],
    SEEN,
    "rows LONG",
    [[("a", 1), ("A", 1), ("b", None)], [("B", None), ("a", 1)]],
    prepare=lambda rows: rows.withColumn("u", F.upper("k")),
)
FIELD = Job(
    "a field of a struct as key",
    f.tell_key,
    "s STRUCT<k: STRING, n: LONG>",
    ["k"],
    SEEN,
    "rows LONG",
    [[({"k": "a", "n": 1},), ({"k": "a", "n": 2},), ({"k": None, "n": 3},), (None,)]],
    prepare=lambda rows: rows.withColumn("k", F.col("s.k")),
)
EXPRESSIONS: list[tuple[Job, list[Any]]] = [
    (WINDOWS, ["k", window]),
    (FIELD, ["s.k"]),
    (UPPER, [lambda: F.upper("k").alias("u"), lambda: F.col("n")]),
]
# Spark's query without keys fails at its first batch: for it, all rows get one.
NO_KEYS = Job(
    "no keys",
    f.count,
    PAIRS,
    ["one"],
    COUNTS,
    COUNTED,
    [[("a", 1), ("b", 2), (None, None)], [("c", 5)]],
    prepare=lambda rows: rows.withColumn("one", F.lit("x")),
)

# What Spark's own operator does not do with these: PySpark 4.3.0 fails on arrays and maps in the state, and takes -0.0
# and 0.0 for one key within a batch and for two keys in the state.
STATE_COLLECTIONS = Job(
    "arrays and maps in the state",
    f.keep_collections,
    PAIRS,
    ["k"],
    SEEN,
    "a ARRAY<LONG>, m MAP<STRING, DOUBLE>, s ARRAY<STRUCT<z: INT>>, n MAP<STRING, ARRAY<INT>>",
    [one_each(*COLLECTIONS)] * 2,
)


def zeros(zero: float) -> Job:
    """Keys of 0.0, or of -0.0 in its place, in columns, structs and arrays."""
    nested = {"f": 1.0, "g": {"h": zero}}
    return Job(
        f"keys of {zero}",
        f.count,
        "d DOUBLE, s STRUCT<f: FLOAT, g: STRUCT<h: DOUBLE>>, a ARRAY<DOUBLE>, n LONG",
        ["d", "s", "a"],
        COUNTS,
        COUNTED,
        [
            [(zero, nested, [1.0, zero], 1), (NAN, {"f": zero, "g": None}, [NAN, None], 2), (zero, None, None, 3)],
            [(zero, nested, [1.0, zero], 4), (1.0, {"f": NAN, "g": {"h": NAN}}, [zero], 5)],
        ],
    )


# Spark's way of before its chains of stateful operators: rows are late by the watermark of their own batch.
LATE_BY_OWN = replace(
    SESSIONS,
    name="sessions, late by the batch's own watermark",
    pace="availableNow",
    confs={"spark.sql.streaming.statefulOperator.allowMultiple": "false"},
)
SCRIPTS = [EVENT_TIME, PROCESSING_TIME]
JOBS = [
    *SCRIPTS,
    *(
        HISTORY,
        COUNT,
        COMPOSITE,
        SESSIONS,
        LATE_BY_OWN,
        BETWEEN,
        WINDOWS,
        NO_TIMEOUT,
        RESTARTED,
        DEDUPLICATE,
        TOGGLE,
        MANY_ROWS,
    ),
    *(KEY_TYPES, FLOAT_KEYS, NESTED_KEYS, STATE_TYPES, WIDE, OUTPUT_TYPES, CAST_OUTPUT),
]
