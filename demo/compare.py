"""hdfsstore's rows and times beside Spark's own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich import box
from rich.table import Table

from demo.spark import read_state
from hdfsstore import Checkpoint


def rows_differ(ours: pa.Table, sparks: pa.Table) -> str | None:
    """What differs between the rows, whose order does not count; None when nothing does."""
    if ours.num_rows != sparks.num_rows:
        return f"{ours.num_rows:,} rows here, {sparks.num_rows:,} in Spark"
    if ours.schema != sparks.schema:
        return f"the schema here is {ours.schema}, in Spark {sparks.schema}"
    ours, sparks = _in_key_order(ours), _in_key_order(sparks)
    if ours == sparks:
        return None
    row = next(i for i in range(len(ours)) if ours.slice(i, 1) != sparks.slice(i, 1))
    return f"here {ours.slice(row, 1).to_pylist()[0]}, in Spark {sparks.slice(row, 1).to_pylist()[0]}"


def _in_key_order(state: pa.Table) -> pa.Table:
    flat = state.flatten()
    keys = [name for name in flat.column_names if name.startswith("key.")]
    return flat.sort_by([(name, "ascending") for name in keys]).combine_chunks()


# Beside the table of README, which reads 2 million keys.
WHY_LESS = (
    "Few keys: most of hdfsstore's time is that of opening files, and from nothing both have to start first. README's "
    "17 to 21 x are of 2 million keys, in processes that run."
)


def time_table(spark: SparkSession, checkpoint: Path, spark_start: float) -> Table:
    """The seconds of both to read the last batch's state into Arrow; `spark_start` is what Spark took to start."""
    ours = [_seconds(lambda: Checkpoint(checkpoint).read_state()) for _ in range(3)]
    sparks = [_seconds(lambda: read_state(spark, checkpoint)) for _ in range(3)]
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "hdfsstore", "Spark", "faster"):
        table.add_column(name, justify="right" if name else "left")

    def add(what: str, mine: float, other: float) -> None:
        table.add_row(what, f"{mine:.3f} s", f"{other:.3f} s", f"{other / mine:,.0f} x")

    read = f"import hdfsstore; hdfsstore.Checkpoint({str(checkpoint)!r}).read_state()"
    from_nothing = _seconds(lambda: subprocess.run([sys.executable, "-c", read], check=True))
    add("in a process that runs (best of three)", min(ours), min(sparks))
    add("once, from nothing: Python or Spark starts", from_nothing, spark_start + sparks[0])
    return table


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
