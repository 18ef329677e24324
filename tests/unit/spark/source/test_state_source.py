"""The source without a Spark around it: its plan, its tasks and its options, on all checkpoints of tests/data."""

from __future__ import annotations

import itertools
import pickle
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.names import unique_names
from hdfsstore.errors import (
    BatchNotAvailableError,
    SchemaMismatchError,
    StateStoreError,
    UnsupportedSettingError,
    UnsupportedTypeError,
)
from hdfsstore.spark.source.pushed_filters import PushingReader
from hdfsstore.spark.source.spark_schema import spark_schema
from hdfsstore.spark.source.state_reader import StatePartition
from hdfsstore.spark.source.state_source import StateSource
from tests.support.rows import comparable, counted
from tests.support.source_options import options_of
from tests.support.truth import DATA, Read, family_reads, few_reads, reads, rocksdb_reads

SPARK = DATA / "spark-4.3.0"
AGGREGATION = str(SPARK / "aggregation/checkpoint")
COUNTS = str(SPARK / "offset_log_v2/checkpoint")
READS = [
    read
    for read in itertools.chain(reads(), rocksdb_reads(), family_reads())
    if read.facts["file"] and not (read.facts.get("timers") and read.facts["change_feed"])
]


def rows_of(source: StateSource, schema: StructType | None = None) -> pa.Table:
    """What Spark does: schema, pickle, reader, partitions, pickle, tasks."""
    schema = source.schema() if schema is None else schema
    planned: StateSource = pickle.loads(pickle.dumps(source))
    reader = planned.reader(schema)
    expected = to_arrow_schema(schema, timezone="UTC")
    batches = []
    for partition in reader.partitions():
        task, its = pickle.loads(pickle.dumps((reader, partition)))
        batches += list(task.read(its))
    assert all(batch.schema.equals(expected) for batch in batches)
    return pa.Table.from_batches(batches, expected)


# The last batch of each: test_truth.py and test_state_variables.py have all, by the same decoders.
LAST = {(str(read.case), re.sub(r"batch\d+", "", read.facts["file"])): read for read in READS}


@pytest.mark.parametrize("read", few_reads(LAST.values()), ids=str)
def test_rows_are_those_of_statestore(read: Read) -> None:
    expected = read.rows
    expected = expected.drop_columns([name for name in expected.column_names if name == "key_hash"])
    source = StateSource(options_of(read) | {"columns": ",".join(expected.column_names)})
    if "month_day_nano_interval" in str(expected.schema):  # PySpark has no such type for Python sources
        with pytest.raises(UnsupportedTypeError, match="Leave such fields out with the option columns"):
            source.schema()
        return
    if read.crosses_repartition:  # Spark gives what it finds in the folders of the last batch
        with pytest.raises(BatchNotAvailableError, match="no deltas lead from one to the other"):
            rows_of(source)
        return
    schema = None
    if read.case.facts.get("borrowed_schema") and not read.facts["join_side"]:  # Spark 2 wrote none
        parts = {part: StructType.fromJson(read.facts[f"{part}_schema"]) for part in ("key", "value")}
        schema = StructType().add("key", parts["key"]).add("value", parts["value"]).add("partition_id", "integer")
        if read.facts["change_feed"]:
            schema = StructType(
                [StructField("batch_id", LongType()), StructField("change_type", StringType()), *schema]
            )
        schema = spark_schema(unique_names(to_arrow_schema(schema, timezone="UTC")))
    table = rows_of(source, schema)
    assert table.column_names == expected.column_names
    if not read.case.folder.name.endswith("flat_map_groups_with_state_format1"):  # a long that Spark shows as an int
        assert counted(comparable(table)) == counted(comparable(expected))


def test_the_batch_is_that_of_the_plan(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(AGGREGATION, tmp_path / "cp"))
    newest = max(int(path.name) for path in (copy / "commits").glob("[0-9]*"))
    for folder in ("commits", "offsets"):
        (copy / folder / str(newest)).rename(tmp_path / f"{folder}-{newest}")
    source = StateSource({"path": str(copy)})
    schema = source.schema()
    for folder in ("commits", "offsets"):
        (tmp_path / f"{folder}-{newest}").rename(copy / folder / str(newest))
    before = rows_of(StateSource({"path": str(copy), "batchId": str(newest - 1)}))
    assert counted(rows_of(source, schema)) == counted(before)
    assert counted(before) != counted(rows_of(StateSource({"path": str(copy)})))


def test_columns_and_where() -> None:
    source = StateSource({"PATH": COUNTS, "columns": "key.k, value.count", "where": "value.count > 1"})
    table = rows_of(source)
    assert table.schema.field("value").type == pa.struct([pa.field("count", pa.int64())])
    assert 0 < len(table) < len(rows_of(StateSource({"path": COUNTS})))
    assert rows_of(StateSource({"path": COUNTS, "columns": '["partition_id"]'})).column_names == ["partition_id"]


def test_a_condition_on_the_partition_makes_one_task() -> None:
    source = StateSource({"path": COUNTS, "where": "partition_id = 1"})
    assert list(source.reader(source.schema()).partitions()) == [StatePartition(1)]
    source = StateSource({"path": COUNTS, "where": "partition_id = 7"})
    reader = source.reader(source.schema())
    assert list(reader.partitions()) == []
    assert list(reader.read(InputPartition(None))) == []


def test_pushed_filters_leave_out_only_what_spark_leaves_out_too() -> None:
    rows = rows_of(StateSource({"path": COUNTS}))
    key = rows["key"][0].as_py()["k"]
    source = StateSource({"path": COUNTS, "pushFilters": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingReader)
    filters = [EqualTo(("key", "k"), key), In(("partition_id",), (0, 1)), GreaterThan(("value", "count"), 0)]
    assert list(reader.pushFilters(filters)) == filters
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert pa.Table.from_batches(found)["key"].to_pylist() == [{"k": key}]


def test_filters_that_bytes_do_not_decide_are_left_to_spark() -> None:
    rows = rows_of(StateSource({"path": COUNTS}))
    source = StateSource({"path": COUNTS, "pushFilters": "true"})
    reader = source.reader(source.schema())
    reader.pushFilters([EqualTo(("key", "k"), 1), EqualTo(("no", "such"), 1), EqualTo(("key",), {"k": "a"})])
    found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert counted(pa.Table.from_batches(found)) == counted(rows)


def test_without_the_option_no_reader_takes_filters() -> None:
    """Spark fails if a reader has pushFilters and filterPushdown is off, as it is by default."""
    source = StateSource({"path": COUNTS})
    assert "pushFilters" not in vars(type(source.reader(source.schema())))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, StateStoreError, "needs a path"),
        ({"path": COUNTS, "batch": "1"}, UnsupportedSettingError, "no option 'batch'. 'batchId' is the nearest"),
        ({"path": COUNTS, "batchId": "-1"}, StateStoreError, "batchId is '-1': a number from 0 on"),
        ({"path": COUNTS, "batchId": "99"}, BatchNotAvailableError, "batch 99 does not exist"),
        ({"path": COUNTS, "readChangeFeed": "yes"}, StateStoreError, "readChangeFeed is 'yes': true or false"),
        ({"path": COUNTS, "readChangeFeed": "true"}, StateStoreError, "changeStartBatchId"),
        ({"path": COUNTS, "changeStartBatchId": "1"}, StateStoreError, "without readChangeFeed"),
        ({"path": COUNTS, "joinSide": "up"}, StateStoreError, "a join has no side 'up'"),
        ({"path": COUNTS, "joinSide": "left", "storeName": "x"}, StateStoreError, "exclude each other"),
        (
            {"path": COUNTS, "readChangeFeed": "true", "changeStartBatchId": "0", "batchId": "1"},
            StateStoreError,
            "readChangeFeed and batchId exclude",
        ),
        ({"path": COUNTS, "columns": "[1]"}, StateStoreError, "names between commas, or a JSON array"),
        ({"path": COUNTS, "columns": "value.x"}, ConditionError, "there is no column value.x"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        StateSource(options).schema()


def test_a_schema_that_is_not_that_of_the_rows() -> None:
    source = StateSource({"path": COUNTS})
    with pytest.raises(SchemaMismatchError, match="Leave the schema out"):
        source.reader(StructType().add("key", StructType().add("k", "string")))
