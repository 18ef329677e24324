"""A stream of Parquet files, one a batch, and the counts and sums by user that mapInArrowWithState makes of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def write_batches(folder: Path, batches: Sequence[pa.Table]) -> Path:
    """One file a batch, read in this order with maxFilesPerTrigger=1."""
    folder.mkdir()
    for i, batch in enumerate(batches):
        path = folder / f"{i:03d}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
    return folder


def count(rows: pa.Table, state: object) -> pa.Table:
    groups = rows.group_by("user").aggregate([("v", "sum"), ("v", "count")])
    keys = groups.select(["user"])
    before = state.get(keys)  # type: ignore[attr-defined]
    n = pc.add(groups["v_count"], pc.fill_null(before["n"], 0))
    total = pc.add(groups["v_sum"], pc.fill_null(before["total"], 0))
    state.put(keys, pa.table({"n": n, "total": total}))  # type: ignore[attr-defined]
    return pa.table({"user": groups["user"], "n": n, "total": total})
