"""A key is taken out of a state, and Spark goes on: as a query does that never got the rows of that key."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.repair import Edit, Report, edit
from tests.data.generate.case import CASES, Inputs
from tests.spark.support.repairs import Wholes, configured, run, states

# Every operator whose rows can be edited, by a key `k`; `make test-all` tries them all.
MATRIX = (
    "aggregation",
    "apply_in_pandas_with_state",
    "drop_duplicates",
    "drop_duplicates_within_watermark",
    "row_checksum",
    "session_window",
    "window_aggregation",
    "rocksdb_aggregation",
    "rocksdb_apply_in_pandas_with_state",
    "rocksdb_drop_duplicates",
    "rocksdb_drop_duplicates_within_watermark",
    "rocksdb_row_checksum",
    "rocksdb_session_window",
    "rocksdb_unique_ids",
    "rocksdb_window_aggregation",
)
FEW = [("aggregation", "to"), ("rocksdb_session_window", "in place")]
ALL = [(name, how) for name in MATRIX for how in ("to", "in place")]


def rows_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def without(files: list[Path], key: object) -> None:
    """Takes the rows of a key out of input files, which keep their times."""
    for file in files:
        info, rows = file.stat(), [row for row in rows_of(file) if row["k"] != key]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))


def spare_key(files: list[Path]) -> str:
    """A key without which the newest time until each of the files is the same, and so is the watermark."""
    batches = [rows_of(file) for file in files]
    for key in sorted({str(row["k"]) for rows in batches for row in rows if row["k"] is not None}):
        left = [[row for row in rows if row["k"] != key] for rows in batches]
        if all(
            rows and max(str(r["ts"]) for r in rows) == max(str(r["ts"]) for r in of)
            for rows, of in zip(left, batches, strict=True)
        ):
            return key
    raise AssertionError("each key has the newest time of a batch")


@pytest.mark.parametrize(("name", "how"), ALL if os.environ.get("HDFSSTORE_REPAIR_MATRIX") else FEW)
def test_edit(spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str, how: str) -> None:
    whole = wholes[name]
    with configured(spark, whole.confs):
        query = CASES[name].build(Inputs(spark, tmp_path / "input"))
        files = sorted(next((tmp_path / "input").iterdir()).iterdir())[: whole.middle + 1]
        key = spare_key(files)
        without(files, key)
        other = tmp_path / "other"
        expected = run(query, other)

    source = whole.stopped(whole.middle, tmp_path / "source")
    to = tmp_path / "new" if how == "to" else None
    report = edit(source, to, Edit(remove=f"key.k = '{key}'"))
    assert isinstance(report, Report)
    (store,) = report.operators[0].stores
    assert store.rows_out < store.rows_in
    edited = to or source
    assert states(edited) == states(other, whole.middle)
    outputs = whole.goes_on(spark, edited, report.session)
    assert [rows for rows in outputs.values() if rows] == [
        rows for batch_id, rows in sorted(expected.items()) if batch_id > whole.middle and rows
    ]
    assert states(edited) == states(other)
    assert Checkpoint(edited).latest_batch_id > whole.middle
