"""Where the local images of a query lie, and what of them is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from hdfsstore.spark import groupBy
from hdfsstore.spark.worker.local_dirs import spark_dirs


def run(spark: SparkSession, folder: Path, **options: str) -> None:
    """A query of one batch that leaves an image of a partition."""
    spark.range(20_000).selectExpr("id % 10000 as k", "id v").coalesce(1).write.parquet(str(folder / "rows"))

    def count(_key: tuple[Any, ...], rows: Any, state: Any) -> None:
        state.update((sum(1 for _ in rows),))

    stream = spark.readStream.schema("k long, v long").parquet(str(folder / "rows"))
    writer = groupBy(stream, "k").mapWithState(count, "k long", "n long").writeStream.format("noop")
    writer.option("checkpointLocation", str(folder / "checkpoint")).options(**options)
    query = writer.option("hdfsstore.numPartitions", 1).trigger(availableNow=True).start()
    query.awaitTermination()


def images(folder: Path) -> list[Path]:
    return list(folder.glob("*/*.image"))


def test_images_lie_in_a_folder_of_the_application_beside_sparks(spark: SparkSession, tmp_path: Path) -> None:
    of_spark = Path(SparkFiles.getRootDirectory()).parent
    own = of_spark / f"hdfsstore-{os.geteuid()}-{spark.sparkContext.applicationId}"
    before = images(own) if own.exists() else []
    run(spark, tmp_path / "1")
    assert len(images(own)) > len(before)
    assert of_spark.is_relative_to(str(spark.conf.get("spark.local.dir")))

    before = images(own)
    run(spark, tmp_path / "2", **{"hdfsstore.localDir": str(tmp_path / "mine")})
    assert images(tmp_path / "mine")
    assert images(own) == before


def test_a_worker_whose_cluster_names_no_folder_finds_sparks(spark: SparkSession) -> None:
    [environ] = spark.sparkContext.parallelize([0], 1).map(lambda _: dict(os.environ)).collect()
    assert spark_dirs(environ, ".") == [spark.conf.get("spark.local.dir")]
