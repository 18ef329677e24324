"""Writes each batch of a query to a folder of its own, which appears whole.

    <path>/_hdfsstore_query                    the id of the query (output_owner.py)
    <path>/_writing-<query>-<batch>-<uuid>/    while a batch is written; Spark's readers ignore it
                             /_STARTED         made before the batch is written, becomes _SUCCESS
    <path>/_replaced-<query>-<batch>-<uuid>/   the earlier output of the batch, until the new one is in its place
    <path>/batch=<batch>/*.parquet             a batch; a batch that runs again replaces it
    <path>/batch=<batch>/_SUCCESS              written last, removed first: a folder that has it is whole, on every
                                               filesystem

If the filesystem renames a folder in one step, no reader sees half a batch, even if it ignores _SUCCESS. An object
store renames by copying, so Spark writes to the batch's folder itself there.

A driver that starts puts back a batch that was moved away and not replaced. It also sweeps what an earlier driver was
writing: it renames that folder, and then deletes it. If the earlier driver is still alive, it does not find _STARTED,
and does not publish the rest of its batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.redaction import shown
from hdfsstore.spark.querylog.checkpoint_location import CheckpointLocation
from hdfsstore.spark.sinks.output_folder import OutputFolder
from hdfsstore.spark.sinks.output_owner import SUCCESS, batch_folder, check, claim

_COLUMN = "batch"
_WRITING = "_writing-"
_REPLACED = "_replaced-"
_STARTED = "_STARTED"
# Left by Spark's own file sink. With it, readers see only the files of that sink (FileStreamSink.scala).
_SPARK_METADATA = "_spark_metadata"
_MARK_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class ParquetSink:
    """Writes batches to a folder. Only one driver may do so at a time.

    Args:
        path: the folder. The start of the query creates it.
        options: options of Spark's parquet writer, such as compression.
        schema: of the output.
        checkpoint: the query's. The query's id marks the folder.

    Raises:
        ValueError: there is no path, or a column has the name of the folders' partition column.
        StateStoreError: Spark's own file sink, or another query, has written there.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | None,
        options: Mapping[str, str],
        schema: StructType,
        checkpoint: CheckpointLocation,
    ) -> None:
        if not path:
            raise ValueError("format('parquet') needs a path: start('/data/out'), or option('path', ...)")
        if _COLUMN in (name.lower() for name in schema.names):
            raise ValueError(
                f"the output has a column {_COLUMN!r}, which readers of {shown(path)}/{_COLUMN}=... take from the "
                "names of the folders. Give it another name"
            )
        self._spark = spark
        self._path = path
        self._options = {name: value for name, value in options.items() if name != "path"}
        self._checkpoint = checkpoint
        folder = OutputFolder(spark, path)
        if folder.exists(_SPARK_METADATA):
            raise StateStoreError(
                "Spark's own file sink has written there: Spark reads only what its log names",
                f"{folder.path}/{_SPARK_METADATA}",
                remedy="Choose another path for the output of this query",
            )
        check(folder, checkpoint.ours)

    def claim(self) -> None:
        """Marks the folder as the query's, and repairs what a killed driver of the query has left.

        Raises:
            StateStoreError: the folder has output of another query.
        """
        folder = OutputFolder(self._spark, self._path)
        query_id = claim(folder, self._checkpoint.ours)
        for name in folder.names():
            if name.startswith(f"{_REPLACED}{query_id}-"):
                batch_id, _ = name.removeprefix(f"{_REPLACED}{query_id}-").split("-", 1)
                _put_back(folder, name, batch_folder(int(batch_id)))
            elif name.startswith(f"{_WRITING}{query_id}-"):
                swept = f"{_WRITING}{query_id}-swept-{uuid.uuid4()}"
                folder.rename(name, swept)
                folder.delete(swept)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        folder = OutputFolder(df.sparkSession, self._path)
        query_id = claim(folder, self._checkpoint.ours)
        target = batch_folder(batch_id)
        if not folder.renames_in_one_step:
            folder.delete(f"{target}/{SUCCESS}")
            self._write(df, target, "overwrite", mark_success=True)
            return
        name = f"{query_id}-{batch_id}-{uuid.uuid4()}"
        writing = f"{_WRITING}{name}"
        folder.create(f"{writing}/{_STARTED}")
        try:
            self._write(df, writing, "append", mark_success=False)
            folder.rename(f"{writing}/{_STARTED}", f"{writing}/{SUCCESS}")
        except BaseException:
            folder.delete(writing)
            raise
        _replace(folder, writing, target, f"{_REPLACED}{name}")

    def _write(self, df: DataFrame, name: str, mode: str, mark_success: bool) -> None:
        options = {**self._options, _MARK_SUCCESS: mark_success}
        df.write.options(**options).mode(mode).parquet(f"{self._path}/{name}")  # type: ignore[arg-type]


def _replace(folder: OutputFolder, writing: str, target: str, replaced: str) -> None:
    """Publishes a written batch under its name. A kill at any point leaves the earlier output or the new one."""
    if not folder.exists(target):
        folder.rename(writing, target)
        return
    folder.rename(target, replaced)
    try:
        folder.rename(writing, target)
    finally:
        _put_back(folder, replaced, target)


def _put_back(folder: OutputFolder, replaced: str, target: str) -> None:
    """Deletes the earlier output that was moved away, or puts it back if nothing has replaced it."""
    if folder.exists(f"{replaced}/{SUCCESS}") and not folder.exists(target):
        folder.rename(replaced, target)
    else:
        folder.delete(f"{replaced}/{SUCCESS}")  # first, so that a half-deleted folder is not put back
        folder.delete(replaced)
