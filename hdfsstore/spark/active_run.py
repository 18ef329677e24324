"""A run of a query that ends because it is stopped, by stop() or by the start of another run of the query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hdfsstore.checkpoint.query_metadata import read_query_id
from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.fs import resolve

_JOB_GROUP = "spark.jobGroup.id"
# What the JVM throws in a thread that waits and is interrupted (StreamExecution.IO_EXCEPTION_NAMES).
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)


class BatchStoppedError(Exception):
    """A batch was cut off, as Spark has cancelled its jobs: in words by which Spark knows that (StreamExecution.scala).

    Args:
        job_group: the batch's.
    """

    def __init__(self, job_group: str) -> None:
        super().__init__(f"org.apache.spark.SparkException: the jobs of the batch, group {job_group}, were cancelled")


def end_active_run(spark: SparkSession, checkpoint: str, query_name: str | None, *, stops: bool) -> None:
    """Stops the run that the query has in this JVM, so that what it leaves in the checkpoint can be read.

    Spark does it too, when the new run starts: too late for what a start reads. As there, nothing happens to a query
    that cannot start, as its name is taken.

    Args:
        checkpoint: the query's checkpointLocation, as hdfsstore.fs opens it.
        query_name: of the run that starts.
        stops: whether a start may stop a run.

    Raises:
        IllegalArgumentException: another run has the name.
        UnsupportedQueryError: there is a run, and it may not be stopped.
    """
    if query_name is not None and any(query.name == query_name for query in spark.streams.active):
        raise IllegalArgumentException(
            f"Cannot start query with name {query_name} as a query with that name is already active in this "
            "SparkSession"
        )
    fs, path = resolve(checkpoint)
    try:
        query_id = read_query_id(fs, f"{path}/metadata")
    except FileNotFoundError:
        return
    assert spark._jvm is not None
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    run = running.get(spark._jvm.java.util.UUID.fromString(query_id))
    if run is None:
        return
    if not stops:
        raise UnsupportedQueryError(
            f"a run of this query is active, {run.runId().toString()}, and a start may not stop it",
            path,
            remedy="Stop it, or set spark.sql.streaming.stopActiveRunOnRestart to true",
        )
    run.stop()


@contextmanager
def stop_in_few_words(spark: SparkSession) -> Iterator[None]:
    """Raises a BatchStoppedError for an error that comes of a stop.

    Spark looks for the reason in the text of the error, by a regular expression that overflows the JVM's stack where
    the text is as long as that of a failed job (4.1 to 4.3): then the query ends as if its thread had died.

    Args:
        spark: the session of the batch.
    """
    try:
        yield
    except Exception as error:
        job_group = spark.sparkContext.getLocalProperty(_JOB_GROUP)
        if job_group and _is_of_a_stop(str(error), job_group) and _is_stopped(spark, job_group):
            raise BatchStoppedError(job_group) from None
        raise


def _is_of_a_stop(text: str, job_group: str) -> bool:
    return (job_group in text and "cancelled" in text) or any(name in text for name in _INTERRUPTIONS)


def _is_stopped(spark: SparkSession, run_id: str) -> bool:
    """Whether stop() was called on a run, the thread of which is still busy."""
    runs = spark._jsparkSession.sharedState().activeStreamingQueries().values()
    return any(run.runId().toString() == run_id and not run.isActive() for run in runs)
