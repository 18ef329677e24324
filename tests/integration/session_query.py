"""A small stateful query in a session of Spark that has settings of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from hdfsstore.spark.source.registration import register
from tests.spark.support.totals import Events, finished, totals

ROWS = (("ann", 3, 0), ("bob", 30, 0))
STATE = {"ann": 3, "bob": 30}


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session whose Hadoop configuration has these properties, too."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def run_batch(session: SparkSession, checkpoint: str, folder: Path) -> None:
    """Runs a query for one batch."""
    (folder / "input").mkdir(exist_ok=True)
    events = Events(session, folder / "input")
    events.add(*ROWS)
    query = (
        totals(events.stream())
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .option("hdfsstore.localDir", str(folder / "images"))
        .option("hdfsstore.fs.timeout", "20s")
        .format("noop")
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    finished(query)


def state_of(session: SparkSession, checkpoint: str) -> dict[str, int]:
    """What Spark's source reads of it, with the settings of the session."""
    location = f"{checkpoint}/hdfsstore"
    register(session, location)
    rows = session.read.format("hdfsstore").load(location).collect()
    return {row.key.user: row.value.groupState.total for row in rows}
