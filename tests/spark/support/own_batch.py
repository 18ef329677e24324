"""A count of Spark's, and one batch of it computed with Arrow and our store."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import hdfsstore
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.fs.location import resolve
from hdfsstore.state.protocols import StateStore
from tests.data.generate.case import FIRST_FILE_TIME
from tests.support.continued_stores import StoreName

OURS = 2
STORE = StoreName(0, "default")


def rows_of(batch_id: int) -> list[dict[str, Any]]:
    """Keys that come in two batches, one that comes in all, and one of a null; numbers, some of them null."""
    keys = [f"key {i}" for i in range(3 * batch_id, 3 * batch_id + 5)]
    return [
        {"k": key, "n": None if i == batch_id else 10 * batch_id + i}
        for i, key in enumerate([*keys, "all", None, "all"])
    ]


def write_input(folder: Path, batch_id: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{batch_id}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(batch_id)))
    os.utime(path, (FIRST_FILE_TIME + batch_id,) * 2)  # the order in which Spark reads them
    return path


def count(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("c"), F.sum("n").alias("s"))


def count_in_python(batch_id: int) -> list[tuple[Any, ...]]:
    """The totals of the keys of a batch, over all batches until then."""
    found = {}
    for row in (row for b in range(batch_id + 1) for row in rows_of(b)):
        c, s = found.get(row["k"], (0, None))
        found[row["k"]] = c + 1, s if row["n"] is None else (s or 0) + row["n"]
    return [(key, *found[key]) for key in {row["k"] for row in rows_of(batch_id)}]


def count_in_store(store: StateStore, rows: pa.Table) -> None:
    grouped = rows.group_by("k").aggregate([([], "count_all"), ("n", "sum")])
    keys = pa.record_batch({"k": grouped["k"].combine_chunks()})
    old_count, old_sum = store.get_batch(keys).columns
    counts = pc.add(pc.fill_null(old_count, 0), grouped["count_all"].combine_chunks())
    added = grouped["n_sum"].combine_chunks()
    sums = pc.coalesce(pc.add(old_sum, added), old_sum, added)
    store.put_batch(keys, pa.record_batch({"count": counts, "sum": sums}))


def begin(checkpoint: Path, our_input: Path) -> None:
    """The offset log of batch OURS, and the log of the file source."""
    fs, root = resolve(checkpoint)
    offsets: MetadataLog[OffsetLogEntry] = MetadataLog(fs, f"{root}/offsets", read_offset_log)
    last = hdfsstore.Checkpoint(checkpoint).batch(OURS - 1)
    entry = OffsetLogEntry(1, 0, last.timestamp_ms + 1000, last.conf, [f'{{"logOffset":{OURS}}}'], ["0"], {}, {})
    offsets.add(OURS, encode_offset_log(entry))
    seen = {"path": our_input.as_uri(), "timestamp": our_input.stat().st_mtime_ns // 1_000_000, "batchId": OURS}
    (checkpoint / f"sources/0/{OURS}").write_text("v1\n" + json.dumps(seen))
