"""Checkpoints on HDFS: those of real Spark queries, opened in place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import hdfsstore
from hdfsstore.cli.app import app
from tests.services.hdfs import Hdfs
from tests.spark.support.java import use_java
from tests.spark.support.totals import SCHEMA, finished, totals

ROOT = Path(__file__).parents[2]
SPARK = """
import sys
from pyspark.sql import SparkSession, functions as F
from tests.services import java

checkpoint, source, default_fs = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", False)
    .config("spark.driver.extraJavaOptions", " ".join(java.QUICK_START))
    .config(map=java.TINY_PLANS)
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.hadoop.fs.defaultFS", default_fs)
    .getOrCreate()
)
rows = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).json("file://" + source)
counts = rows.groupBy("k").agg(F.count("*").alias("n"))
writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
"""
KEYS = 10


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    use_java(monkeypatch)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.mark.spark
@pytest.mark.usefixtures("environ")
def test_a_query_of_spark_on_hdfs_is_opened_in_place(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for batch in range(3):
        (source / f"{batch}.json").write_text("".join(json.dumps({"k": key}) + "\n" for key in range(KEYS)))
    path = "/queries/of-spark"
    arguments = [path, os.fspath(source), f"hdfs://{hdfs.authority}"]
    subprocess.run([sys.executable, "-c", SPARK, *arguments], cwd=ROOT, check=True, capture_output=True, timeout=300)

    with_authority = hdfsstore.Checkpoint(f"hdfs://{hdfs.authority}{path}").read_state()
    monkeypatch.setenv("HADOOP_CONF_DIR", os.fspath(hdfs.conf_dir))
    by_default = hdfsstore.Checkpoint(f"hdfs://{path}").read_state()
    for table in (with_authority, by_default):
        state = {row["key"]["k"]: row["value"]["count"] for row in table.select(["key", "value"]).to_pylist()}
        assert state == dict.fromkeys(range(KEYS), 3)

    ran = CliRunner().invoke(app, ["inspect", f"hdfs://{path}", "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert report["client"].startswith("hdfs-native ")
    assert sum(part["rows"] for part in report["operators"][0]["stores"][0]["partitions"]) == KEYS


@pytest.mark.spark
def test_a_checkpoint_of_ours_without_a_scheme_is_on_the_default_filesystem_of_spark(
    spark: SparkSession, hdfs: Hdfs, tmp_path: Path
) -> None:
    path = f"/{uuid.uuid4()}/query"
    source = tmp_path / "source"
    source.mkdir()

    def sink(rows: DataFrame, _: int) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def total_after(number: int) -> int:
        (source / f"{number}.json").write_text(json.dumps({"user": "ann", "n": 10**number, "seconds": 0}))
        stream = spark.readStream.schema(SCHEMA).json(source.as_uri())
        writer = totals(stream).writeStream.outputMode("update").foreachBatch(sink).trigger(availableNow=True)
        finished(writer.option("checkpointLocation", path).option("hdfsstore.numPartitions", 2).start())
        (row,) = hdfsstore.Checkpoint(hdfs.uri(f"{path[1:]}/hdfsstore")).read_state().to_pylist()
        total: int = row["value"]["groupState"]["total"]
        return total

    spark.conf.set("fs.defaultFS", f"hdfs://{hdfs.authority}")
    try:
        assert [total_after(number) for number in range(2)] == [1, 11]
    finally:
        spark.conf.unset("fs.defaultFS")
    assert not Path(path).exists()
