"""`format("hdfsstore")` in a live Spark, beside its own `statestore` source."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

import hdfsstore.spark
from hdfsstore.codecs.arrow_types import from_arrow_schema, to_arrow_schema
from hdfsstore.codecs.types import parse_type, to_json
from hdfsstore.conditions.names import unique_names
from tests.support.rows import comparable, counted
from tests.support.source_options import options_of
from tests.support.truth import DATA, Read, cases

SPARK = DATA / "spark-4.3.0"
COUNTS = str(SPARK / "offset_log_v2/checkpoint")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# Each operator, both providers, every type that PySpark has for Python sources, and each way to read.
SAMPLE = {
    "aggregation": "op0-default-changes",
    "apply_in_pandas_with_state": "op0-default-batch",
    "drop_duplicates": "op0-default-batch",
    "join_left_outer": "op0-left-batch",
    "rocksdb_join_format3": "op0-right-batch",
    "rocksdb_unique_ids": "op0-default-changes",
    "session_window": "op0-default-batch",
    "transform_structures": "op0-default-times-nested-batch",
    "transform_event_timers": "op0-default-timers-batch",
    "transform_ttl": "op0-default-seen-batch",
    "types_first": "op0-default-batch",
    "types_keys": "op0-default-batch",
    "types_time": "op0-default-batch",
    "types_variant": "op0-default-batch",
    "types_collated": "op0-default-batch",
}


def sample() -> Iterator[Read]:
    for case in cases():
        if case.folder.parent == SPARK and case.folder.name in SAMPLE:
            found = [Read(case, facts) for facts in case.facts["reads"] if facts["file"]]
            yield [read for read in found if read.facts["file"].startswith(SAMPLE[case.folder.name])][-1]


def uniquely(schema: StructType) -> StructType:
    """The schema with numbers on repeated names: Spark's Arrow reader does not take a struct with two `sum`."""
    stored = from_arrow_schema(unique_names(to_arrow_schema(parse_type(schema.json()))))
    return StructType.fromJson(json.loads(to_json(stored)))


def renamed(field: StructField) -> Column:
    return F.col(field.name).cast(field.dataType).alias(field.name)


def texts(frame: DataFrame) -> list[str]:
    """The rows as JSON, by Spark; the entries of maps in their order."""
    rows = frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")).collect()
    return sorted("".join(sorted(row.row)) if "map_value" in frame.columns else row.row for row in rows)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, True)
    yield
    spark.conf.unset(PUSHDOWN)
    hdfsstore.spark.register(spark)


@pytest.mark.parametrize("read", list(sample()), ids=str)
def test_schema_and_rows_are_those_of_statestore(spark: SparkSession, read: Read) -> None:
    """Rows as Spark read them once: its own source does not find column families in a checkpoint that was moved."""
    ours, theirs = (spark.read.format(name).options(**options_of(read)) for name in ("hdfsstore", "statestore"))
    if not read.case.families:
        assert ours.load().schema == uniquely(theirs.load().schema)
    if read.facts["change_feed"] or "variant" in str(read):  # toArrow refuses null values of removals, null variants
        assert texts(ours.load()) == texts(theirs.load().select(*map(renamed, uniquely(theirs.load().schema))))
        return
    expected = read.rows
    expected = expected.drop_columns([name for name in expected.column_names if name == "key_hash"])
    assert counted(comparable(ours.load().toArrow())) == counted(comparable(expected))


def test_it_is_found_by_its_name_and_gives_arrow_batches(spark: SparkSession) -> None:
    frame = spark.read.format("hdfsstore").load(COUNTS)
    assert "hdfsstore" in frame._jdf.queryExecution().toString()
    assert frame.rdd.getNumPartitions() == 2
    assert frame.groupBy("partition_id").count().count() == 2


def test_columns(spark: SparkSession) -> None:
    frame = spark.read.format("hdfsstore").option("columns", "key.k,value.count").load(COUNTS)
    whole = spark.read.format("statestore").load(COUNTS)
    assert [field.name for field in frame.schema] == ["key", "value"]
    assert texts(frame) == texts(whole.select(F.struct("key.k").alias("key"), F.struct("value.count").alias("value")))


def test_a_frame_reads_the_batch_that_was_the_newest_when_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(COUNTS, tmp_path / "cp"))
    frame = spark.read.format("hdfsstore").load(str(copy))
    before = texts(frame)
    newest = max(int(path.name) for path in (copy / "commits").glob("[0-9]*"))
    for name in (f"commits/{newest}", f"offsets/{newest}"):
        (copy / name).unlink()
    assert texts(spark.read.format("hdfsstore").load(str(copy))) != before
    for name in ("commits", "offsets"):
        shutil.copy(Path(COUNTS) / name / str(newest), copy / name)
    assert texts(frame) == before


@pytest.mark.usefixtures("pushdown")
@pytest.mark.parametrize("by", ["option", "register"])
def test_filters_are_pushed_down_where_spark_does_that(spark: SparkSession, by: str) -> None:
    frame = spark.read.format("hdfsstore")
    if by == "register":
        hdfsstore.spark.register(spark)
    else:
        frame = frame.option("pushFilters", "true")
    whole = texts(spark.read.format("statestore").load(COUNTS))
    key = spark.read.format("statestore").load(COUNTS).select("key.k").first()[0]
    found = frame.load(COUNTS).where(F.col("key.k") == key)
    assert texts(found) == [row for row in whole if f'"k":"{key}"' in row]
    one = frame.load(COUNTS).where("partition_id = 1")
    assert one.rdd.getNumPartitions() == 1
    assert texts(one) == [row for row in whole if '"partition_id":1' in row]


def test_filters_work_without_pushdown_too(spark: SparkSession) -> None:
    assert spark.conf.get(PUSHDOWN, "false") == "false"
    hdfsstore.spark.register(spark)
    one = spark.read.format("hdfsstore").load(COUNTS).where("partition_id = 1")
    assert one.rdd.getNumPartitions() == 2
    assert 0 < one.count() < spark.read.format("hdfsstore").load(COUNTS).count()


def test_register_captures_what_the_session_knows_and_shows_none_of_it(spark: SparkSession) -> None:
    settings = {
        "fs.defaultFS": "hdfs://namenode.invalid:1",
        "fs.hdfs.impl": "of.another.Client",
        "fs.s3a.access.key": "an access key",
        "fs.s3a.secret.key": "a secret key",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        hdfsstore.spark.register(spark)
        local = spark.read.format("hdfsstore").load(Path(COUNTS).as_uri())
        plan = local._jdf.queryExecution().toString()
        with pytest.raises(AnalysisException, match=r"fs\.hdfs\.impl is of\.another\.Client") as refused:
            spark.read.format("hdfsstore").load("/cp")
        assert local.count()
        assert "secret key" not in plan + str(refused.value)
    finally:
        for name in settings:
            spark.conf.unset(name)
        hdfsstore.spark.register(spark)
    assert spark.read.format("hdfsstore").load(COUNTS).count()


def test_errors_name_file_and_remedy(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"batch 99 does not exist\. The newest committed batch is"):
        spark.read.format("hdfsstore").option("batchId", 99).load(COUNTS)


@pytest.mark.parametrize("case", ["join_left_outer", "transform_structures", "rocksdb_snapshots"])
def test_metadata_is_that_of_state_metadata(spark: SparkSession, case: str) -> None:
    path = str(SPARK / case / "checkpoint")
    theirs = spark.read.format("state-metadata").load(path)
    ours = spark.read.format("hdfsstore-metadata").load(path)
    assert ours.columns == [*theirs.columns, "numColsPrefixKey"]
    assert sorted(ours.drop("numColsPrefixKey").collect()) == sorted(theirs.collect())
    if case != "transform_structures":  # Spark shows -1 where the metadata has 0
        hidden = theirs.select("_numColsPrefixKey").collect()
        assert [row[0] for row in ours.select("numColsPrefixKey").collect()] == [row[0] for row in hidden]
