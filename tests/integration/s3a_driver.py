"""A driver of Spark for test_s3a_query.py: python -m tests.integration.s3a_driver CHECKPOINT FOLDER.

It runs one batch of a stateful query with its checkpoint on s3a, a second one, and prints what a user may print.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from hdfsstore.spark.driver.query import StatefulQuery
from tests.services import s3a
from tests.spark.support.totals import Events, totals
from tests.support.waiting import WAIT_SECONDS


def main(checkpoint: str, folder: str) -> None:
    logging.basicConfig(level=logging.DEBUG, filename=f"{folder}/driver.log")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, s3a.jars())))
        .config("spark.driver.extraClassPath", os.environ["HADOOP_CONF_DIR"])
        .config("spark.eventLog.enabled", True)
        .config("spark.eventLog.dir", Path(folder, "events").as_uri())
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("DEBUG")
    events = Events(spark, Path(folder, "input"))
    for number in (1, 2):
        events.add(("ann", number, 0), ("bob", 10 * number, 0))
        query = (
            totals(events.stream())
            .writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .option("hdfsstore.localDir", f"{folder}/images")
            .option("hdfsstore.maintenanceInterval", "1s")
            .format("parquet")
            .start(f"{folder}/output")
        )
        assert isinstance(query, StatefulQuery)
        query.processAllAvailable()
        print(query, query.lastProgress, query.recentProgress)
        query.stop()
        assert query.awaitTermination(WAIT_SECONDS)
    print(spark.sparkContext.getConf().getAll())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
