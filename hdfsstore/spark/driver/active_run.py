"""Finds the run of a query that is active, and recognizes the errors of a batch whose run was stopped."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from py4j.protocol import Py4JError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hdfsstore.checkpoint.query_metadata import read_query_id
from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import Location, place_of, resolve

_JOB_GROUP = "spark.jobGroup.id"
# Exceptions that the JVM throws in a waiting thread that is interrupted (StreamExecution.IO_EXCEPTION_NAMES).
_INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)

# One lock per checkpoint, by its real place, for as long as a start holds it.
_starts: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
_starts_lock = threading.Lock()


class BatchStoppedError(Exception):
    """Spark has cancelled the jobs of the batch. Spark recognizes a stop by the message (StreamExecution.scala).

    Args:
        job_group: the job group of the batch.
    """

    def __init__(self, job_group: str) -> None:
        super().__init__(f"org.apache.spark.SparkException: the jobs of the batch, group {job_group}, were cancelled")


@contextmanager
def only_start(checkpoint: Location) -> Iterator[None]:
    """Makes other starts of the query wait: each of them must find the run that the start before it has made.

    Args:
        checkpoint: the query's checkpointLocation, as hdfsstore opens it.
    """
    fs, path = resolve(checkpoint)
    place = place_of(fs, os.path.realpath(path) if isinstance(fs, LocalFileManager) else path)
    with _starts_lock:
        lock = _starts.setdefault(place, threading.Lock())
    with lock:
        yield


def find_active_run(spark: SparkSession, checkpoint: Location, query_name: str | None, *, stops: bool) -> Any:
    """The query's active run in this JVM, as Spark's StreamingQuery; None if there is none.

    A start must stop it before it reads the checkpoint. Spark stops it too, but only when the new run starts, which is
    after the start has read the checkpoint.

    Args:
        checkpoint: the query's checkpointLocation, as hdfsstore opens it.
        query_name: the name of the run that starts.
        stops: whether a start may stop a run.

    Raises:
        IllegalArgumentException: another run has the name.
        UnsupportedQueryError: there is a run, and a start may not stop it.
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
        return None
    assert spark._jvm is not None
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    run = running.get(spark._jvm.java.util.UUID.fromString(query_id))
    if run is not None and not stops:
        raise UnsupportedQueryError(
            f"a run of this query is active, {run.runId().toString()}, and a start may not stop it",
            path,
            remedy="Stop it, or set spark.sql.streaming.stopActiveRunOnRestart to true",
        )
    return run


@contextmanager
def stop_in_few_words(spark: SparkSession) -> Iterator[None]:
    """Turns an error that a stop has caused into a BatchStoppedError, whose text is short.

    Spark searches the error's text by a regular expression. A text as long as that of a failed job overflows the JVM's
    stack (4.1 to 4.3), and then the query ends as if its thread had died.

    Args:
        spark: the session of the batch.
    """
    try:
        yield
    except Exception as error:
        job_group = _stopped_group(spark, str(error))
        if job_group is None:
            raise
        raise BatchStoppedError(job_group) from None


def _stopped_group(spark: SparkSession, text: str) -> str | None:
    """The job group of this thread's batch, if its stop caused the error with this text. None also if Spark is gone."""
    context = spark.sparkContext._jsc
    if context is None:
        return None
    try:
        job_group: str | None = context.getLocalProperty(_JOB_GROUP)
        is_stopped = job_group and _is_of_a_stop(text, job_group) and _is_stopped(spark, job_group)
    except Py4JError:
        return None
    return job_group if is_stopped else None


def _is_of_a_stop(text: str, job_group: str) -> bool:
    return (job_group in text and "cancelled" in text) or any(name in text for name in _INTERRUPTIONS)


def _is_stopped(spark: SparkSession, run_id: str) -> bool:
    """Whether stop() was called on a run whose thread is still busy."""
    runs = spark._jsparkSession.sharedState().activeStreamingQueries().values()
    return any(run.runId().toString() == run_id and not run.isActive() for run in runs)
