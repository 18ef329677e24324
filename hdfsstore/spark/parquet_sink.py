"""One folder a batch, whole or not there, of one query.

    <path>/_hdfsstore_query                    whose output this is: output_mark.py
    <path>/_writing-<query>-<batch>-<uuid>/    while a batch is written; Spark's readers pass over it
                             /_STARTED         made before the batch is written, becomes _SUCCESS
    <path>/batch=<batch>/*.parquet             a batch; a batch that runs again replaces it
    <path>/batch=<batch>/_SUCCESS              written last, removed first: with it the folder is whole, on every
                                               filesystem

Where a folder is renamed in one step no reader meets half a batch, whether it looks for _SUCCESS or not. An object
store renames by copying, so there Spark writes to the folder itself.

A driver that starts sweeps what an earlier one was writing: it renames the folder and then deletes it. If that one is
alive after all it misses _STARTED, and what is left of its batch is not published.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.checkpoint_location import CheckpointLocation
from hdfsstore.spark.output_folder import OutputFolder
from hdfsstore.spark.output_mark import SUCCESS, batch_folder, check, claim

_COLUMN = "batch"
_WRITING = "_writing-"
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
        self._swept = False
        folder = OutputFolder(spark, path)
        if folder.exists(_SPARK_METADATA):
            raise StateStoreError(
                "Spark's own file sink has written there: Spark reads only what its log names",
                f"{path}/{_SPARK_METADATA}",
                remedy="Choose another path for the output of this query",
            )
        check(folder, checkpoint.ours)

    def claim(self) -> None:
        """Makes the folder that of the query.

        Raises:
            StateStoreError: the output of another query is there.
        """
        claim(OutputFolder(self._spark, self._path), self._checkpoint.ours)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        folder = OutputFolder(df.sparkSession, self._path)
        own = f"{_WRITING}{claim(folder, self._checkpoint.ours)}-"
        if not self._swept:
            _sweep(folder, own)
            self._swept = True
        target = batch_folder(batch_id)
        if not folder.renames_in_one_step:
            folder.delete(f"{target}/{SUCCESS}")
            self._write(df, target, "overwrite", mark_success=True)
            return
        writing = f"{own}{batch_id}-{uuid.uuid4()}"
        folder.create(f"{writing}/{_STARTED}")
        try:
            self._write(df, writing, "append", mark_success=False)
            folder.rename(f"{writing}/{_STARTED}", f"{writing}/{SUCCESS}")
        except BaseException:
            folder.delete(writing)
            raise
        folder.delete(f"{target}/{SUCCESS}")
        folder.delete(target)
        folder.rename(writing, target)

    def _write(self, df: DataFrame, name: str, mode: str, mark_success: bool) -> None:
        options = {**self._options, _MARK_SUCCESS: mark_success}
        df.write.options(**options).mode(mode).parquet(f"{self._path}/{name}")  # type: ignore[arg-type]


def _sweep(folder: OutputFolder, prefix: str) -> None:
    """Removes what a driver that died was writing."""
    for name in folder.names():
        if name.startswith(prefix):
            swept = f"{prefix}swept-{uuid.uuid4()}"
            folder.rename(name, swept)
            folder.delete(swept)
