"""One folder a batch, whole or not there, of one query.

    <path>/_hdfsstore_query                    whose output this is: output_owner.py
    <path>/_writing-<query>-<batch>-<uuid>/    while a batch is written; Spark's readers pass over it
                             /_STARTED         made before the batch is written, becomes _SUCCESS
    <path>/_replaced-<query>-<batch>-<uuid>/   the batch that was there before, until the new one is in its place
    <path>/batch=<batch>/*.parquet             a batch; a batch that runs again replaces it
    <path>/batch=<batch>/_SUCCESS              written last, removed first: with it the folder is whole, on every
                                               filesystem

Where a folder is renamed in one step no reader meets half a batch, whether it looks for _SUCCESS or not. An object
store renames by copying, so there Spark writes to the folder itself.

A driver that starts puts back a batch that was moved away and has no other in its place, and sweeps what an earlier
driver was writing: it renames the folder and then deletes it. If that one is alive after all it misses _STARTED, and
what is left of its batch is not published.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.querylog.checkpoint_location import CheckpointLocation
from hdfsstore.spark.sinks.output_folder import OutputFolder
from hdfsstore.spark.sinks.output_owner import SUCCESS, batch_folder, check, claim

_COLUMN = "batch"
_WRITING = "_writing-"
_REPLACED = "_replaced-"
_STARTED = "_STARTED"
# Left by Spark's own file sink, which is then the only one whose files its readers see (FileStreamSink.scala).
_SPARK_METADATA = "_spark_metadata"
_MARK_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class ParquetSink:
    """Writes batches to a folder. One driver at a time.

    Args:
        path: the folder; it is made at start.
        options: of Spark's parquet writer, such as compression.
        schema: of the output.
        checkpoint: the query's, whose id marks the folder.

    Raises:
        ValueError: there is no path, or a column is named as the folders are.
        StateStoreError: Spark's own file sink has written there, or another query.
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
                f"the output has a column {_COLUMN!r}, which readers of {path}/{_COLUMN}=... get from the names of "
                "the folders. Name it otherwise"
            )
        self._spark = spark
        self._path = path
        self._options = {name: value for name, value in options.items() if name != "path"}
        self._checkpoint = checkpoint
        folder = OutputFolder(spark, path)
        if folder.exists(_SPARK_METADATA):
            raise StateStoreError(
                "Spark's own file sink has written there: Spark reads only what its log names",
                f"{path}/{_SPARK_METADATA}",
                remedy="Choose another path for the output of this query",
            )
        check(folder, checkpoint.ours)

    def claim(self) -> None:
        """Makes the folder that of the query, and puts right what a driver of it left that was killed.

        Raises:
            StateStoreError: the output of another query is there.
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
    """Gives a batch that was written its name. Whenever it is killed the folder of before is there, or this one."""
    if not folder.exists(target):
        folder.rename(writing, target)
        return
    folder.rename(target, replaced)
    try:
        folder.rename(writing, target)
    finally:
        _put_back(folder, replaced, target)


def _put_back(folder: OutputFolder, replaced: str, target: str) -> None:
    """Deletes what was moved away, or puts it back where nothing has come in its place."""
    if folder.exists(f"{replaced}/{SUCCESS}") and not folder.exists(target):
        folder.rename(replaced, target)
    else:
        folder.delete(f"{replaced}/{SUCCESS}")  # first: what is deleted in part is not put back
        folder.delete(replaced)
