"""A driver of Spark for test_s3a_sessions.py: python -m tests.integration.s3a_sessions_driver FOLDER.

Its input is a line of JSON: by name of a session, its checkpoint and its settings. Each session runs a query, all at
the same time, in two batches. After the first it says so, and waits for a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.services import java, s3a
from tests.spark.support.totals import Events, totals
from tests.support.waiting import WAIT_SECONDS


def main(folder: str) -> None:
    sessions = json.loads(sys.stdin.readline())
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, s3a.jars())))
        .config("spark.driver.extraJavaOptions", " ".join(java.QUICK_START))
        .config(map=java.TINY_PLANS)
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    running: dict[str, tuple[Events, StreamingQuery]] = {}
    for number in (1, 2):
        for name, (checkpoint, settings) in sessions.items():
            if number == 1:
                session = spark.newSession()
                for key, value in settings.items():
                    session.conf.set(key, value)
                events = Events(session, Path(folder, f"input-{name}"))
                events.add((name, number, 0))
                query = (
                    totals(events.stream())
                    .writeStream.outputMode("update")
                    .option("checkpointLocation", checkpoint)
                    .option("hdfsstore.localDir", f"{folder}/images-{name}")
                    .format("noop")
                    .start()
                )
                running[name] = events, query
            else:
                running[name][0].add((name, number, 0))
        for _, query in running.values():
            query.processAllAvailable()
        print(number, flush=True)
        sys.stdin.readline()
    for _, query in running.values():
        query.stop()
        assert query.awaitTermination(WAIT_SECONDS)
    spark.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
