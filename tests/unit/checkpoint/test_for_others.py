"""What is read, a store, and an open reader as polars, DuckDB, pandas and nanoarrow take them."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore.checkpoint.operators import list_operators
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import parse_type
from hdfsstore.fs.local_files import LocalFileManager
from tests.support.rows import counted
from tests.support.truth import DATA, Read, family_reads, few_reads, reads, rocksdb_reads

SPARK = DATA / "spark-4.3.0"
SUMS = SPARK / "aggregation/checkpoint"  # its values have four sums

# The last state of each store, variable, list of timers and side of a join.
LAST = {
    (str(read.case), re.sub(r"batch\d+", "", read.facts["file"])): read
    for read in itertools.chain(reads(), rocksdb_reads(), family_reads())
    if read.facts["file"] and not read.facts["change_feed"]
}


def of_polars(rows: Any) -> pa.Table:
    return pl.DataFrame(rows).to_arrow()


def of_duckdb(rows: Any) -> pa.Table:  # noqa: ARG001 - the query names it
    return duckdb.sql("from rows").to_arrow_table()


def of_pandas(rows: Any) -> pd.DataFrame:
    return pa.table(rows).to_pandas()


def of_nanoarrow(rows: Any) -> pa.Table:
    return pa.table(nanoarrow.c_array_stream(rows))


TOOLS: list[Callable[[Any], Any]] = [of_polars, of_duckdb, of_pandas, of_nanoarrow]


def open_state(read: Read) -> pa.RecordBatchReader:
    facts = read.facts
    options: dict[str, Any] = {"join_side": facts["join_side"], "state_var": facts.get("state_variable")}
    if read.case.facts.get("borrowed_schema") and not facts["join_side"]:  # Spark 2 wrote none
        for part in ("key", "value"):
            options[f"{part}_schema"] = to_arrow_schema(parse_type(facts[f"{part}_schema"]))
    return hdfsstore.Checkpoint(read.case.checkpoint).open_state(
        facts["operator_id"],
        facts["store_name"],
        facts["batch_id"],
        flatten_collections=not facts.get("nested"),
        read_registered_timers=bool(facts.get("timers")),
        **options,
    )


def fields(kind: pa.DataType | pa.Schema) -> Iterator[list[str]]:
    """The names of the fields of each struct, at any depth."""
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        yield [field.name for field in kind]
    children = list(kind) if isinstance(kind, pa.Schema) else [kind.field(at) for at in range(kind.num_fields)]
    for child in children:
        yield from fields(child.type)


@pytest.mark.parametrize("read", few_reads(LAST.values()), ids=str)
def test_every_state_goes_into_every_tool(read: Read) -> None:
    rows = open_state(read).read_all()
    assert len(rows.to_pylist()) == len(read.rows)
    assert all(len(set(names)) == len(names) for names in fields(rows.schema))
    for tool in TOOLS:
        if tool is not of_polars or "month_day_nano_interval" not in str(rows.schema):  # polars has no such type
            assert len(tool(rows)) == len(rows), tool


@pytest.mark.parametrize("tool", [of_polars, of_duckdb, of_nanoarrow])
def test_their_rows_are_the_rows(tool: Callable[[Any], pa.Table]) -> None:
    checkpoint = hdfsstore.Checkpoint(SUMS)
    expected = counted(checkpoint.read_state(unique_names=False))
    [operator] = checkpoint.operators
    for rows in (checkpoint.read_state(), checkpoint.open_state(), operator.store()):
        assert counted(tool(rows).cast(checkpoint.read_state().schema)) == expected


def test_pandas_has_the_rows() -> None:
    checkpoint = hdfsstore.Checkpoint(SUMS)
    expected = sorted(map(repr, checkpoint.read_state()["value"].to_pylist()))
    for rows in (checkpoint.read_state(), checkpoint.open_state(), checkpoint.operator().store()):
        assert sorted(map(repr, of_pandas(rows)["value"])) == expected


def test_a_store_can_be_taken_more_than_once_and_a_reader_once() -> None:
    checkpoint = hdfsstore.Checkpoint(SUMS)
    store, reader = checkpoint.operator().store(), checkpoint.open_state()
    expected = counted(checkpoint.read_state())
    assert [counted(pa.table(store)) for _ in range(3)] == [expected] * 3
    found = duckdb.sql("select count(*) from store a join store b on a.key is not distinct from b.key").fetchall()
    assert found == [(expected.total(),)]
    assert counted(pa.table(reader)) == expected
    assert pa.table(reader).num_rows == 0


def test_changes_have_unique_names_too() -> None:
    checkpoint = hdfsstore.Checkpoint(SUMS)
    changes = checkpoint.read_changes(0, checkpoint.latest_batch_id)
    assert len(pl.DataFrame(changes)) == len(changes) > 0
    sparks = checkpoint.read_changes(0, checkpoint.latest_batch_id, unique_names=False)
    assert counted(changes) == counted(sparks)
    assert [field.name for field in sparks.schema.field("value").type].count("sum") > 1


def test_a_store_is_read_at_the_batch_of_its_operator(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SUMS, tmp_path / "cp"))
    checkpoint = hdfsstore.Checkpoint(copy)
    newest = checkpoint.latest_batch_id
    first, last = (checkpoint.operator(0, batch_id).store() for batch_id in (0, newest))
    assert counted(pa.table(first)) == counted(checkpoint.read_state(batch_id=0))
    (copy / "commits" / str(newest)).unlink()  # it runs again
    assert counted(pa.table(checkpoint.operators[0].store())) == counted(checkpoint.read_state(batch_id=newest - 1))
    with pytest.raises(hdfsstore.BatchNotAvailableError, match=f"batch {newest} was begun and is not committed"):
        pa.table(last)


@pytest.mark.parametrize("tool", TOOLS)
def test_files_that_go_while_they_are_read_are_an_error_and_no_crash(
    tmp_path: Path, tool: Callable[[Any], Any]
) -> None:
    copy = Path(shutil.copytree(SUMS, tmp_path / "cp"))
    store, reader = hdfsstore.Checkpoint(copy).operator().store(), hdfsstore.Checkpoint(copy).open_state()
    for path in copy.glob("state/0/*/1.delta"):
        path.unlink()
    for rows in (reader, store):
        with pytest.raises(Exception, match=r"state/0/\d/1\.delta"):
            tool(rows)


def test_types_that_are_asked_for() -> None:
    checkpoint = hdfsstore.Checkpoint(SUMS)
    store, schema = checkpoint.operator().store(), checkpoint.read_state().schema
    wide = schema.set(2, pa.field("partition_id", pa.int64()))
    wide = wide.set(0, pa.field("key", pa.struct({"k": pa.large_string()})))
    rows = pa.RecordBatchReader.from_stream(store, schema=wide).read_all()
    assert rows.schema == wide
    assert counted(rows.cast(schema)) == counted(checkpoint.read_state())
    for asked, message in (
        (schema.set(0, pa.field("key", pa.int64())), "cannot be cast from struct<k: string> to int64"),
        (pa.schema({"key": pa.int64()}), "field names are not matching"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            pa.RecordBatchReader.from_stream(store, schema=asked)


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (lambda: hdfsstore.Checkpoint(SPARK / "transform_ttl/checkpoint").operators[0].store(), "give state_var"),
        (lambda: list_operators(LocalFileManager(), str(SUMS))[0].store(), "Take it from a Checkpoint"),
    ],
)
def test_stores_without_rows(store: Callable[[], hdfsstore.Store], message: str) -> None:
    with pytest.raises(hdfsstore.StateStoreError, match=message):
        pa.table(store())
