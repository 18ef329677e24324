"""One folder a batch, whole or not there.

    <path>/_writing-<batch>-<uuid>/    while a batch is written; Spark's readers pass over it
    <path>/batch=<batch>/*.parquet     a batch; a batch that runs again replaces it
    <path>/batch=<batch>/_SUCCESS      written last, removed first: with it the folder is whole, on every filesystem

Where a folder is renamed in one step no reader meets half a batch, whether it looks for _SUCCESS or not. An object
store renames by copying, so there Spark writes to the folder itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hdfsstore.errors import StateStoreError

_COLUMN = "batch"
_WRITING = "_writing-"
_SUCCESS = "_SUCCESS"
# Left by Spark's own file sink, which is then the only one whose files its readers see (FileStreamSink.scala).
_SPARK_METADATA = "_spark_metadata"
_RENAME_IN_ONE_STEP = ("file", "hdfs", "viewfs", "abfs", "abfss")
_MARK_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class ParquetSink:
    """Writes batches to a folder. One driver at a time.

    Args:
        path: the folder; it is made with the first batch.
        options: of Spark's parquet writer, such as compression.
        schema: of the output.

    Raises:
        ValueError: there is no path, or a column is named as the folders are.
        StateStoreError: Spark's own file sink has written there.
    """

    def __init__(self, spark: SparkSession, path: str | None, options: Mapping[str, str], schema: StructType) -> None:
        if not path:
            raise ValueError("format('parquet') needs a path: start('/data/out'), or option('path', ...)")
        if _COLUMN in (name.lower() for name in schema.names):
            raise ValueError(
                f"the output has a column {_COLUMN!r}, which readers of {path}/{_COLUMN}=... get from the names of "
                "the folders. Name it otherwise"
            )
        self._path = path
        self._options = {name: value for name, value in options.items() if name != "path"}
        self._swept = False
        folder = _Folder(spark, path)
        if folder.exists(_SPARK_METADATA):
            raise StateStoreError(
                "Spark's own file sink has written there: Spark reads only what its log names",
                f"{path}/{_SPARK_METADATA}",
                remedy="Choose another path for the output of this query",
            )

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        folder = _Folder(df.sparkSession, self._path)
        if not self._swept:
            folder.delete_all(_WRITING)  # what a driver that died was writing
            self._swept = True
        target = f"{_COLUMN}={batch_id}"
        if not folder.renames_in_one_step:
            folder.delete(f"{target}/{_SUCCESS}")
            self._write(df, target, mark_success=True)
            return
        writing = f"{_WRITING}{batch_id}-{uuid.uuid4()}"
        try:
            self._write(df, writing, mark_success=False)
        except BaseException:
            folder.delete(writing)
            raise
        folder.create(f"{writing}/{_SUCCESS}")
        folder.delete(f"{target}/{_SUCCESS}")
        folder.delete(target)
        folder.rename(writing, target)

    def _write(self, df: DataFrame, name: str, mark_success: bool) -> None:
        options = {**self._options, _MARK_SUCCESS: mark_success}
        df.write.options(**options).mode("overwrite").parquet(f"{self._path}/{name}")  # type: ignore[arg-type]


class _Folder:
    """Hadoop's view of a folder, by the names in it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path_class: Any = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
        self._root = self._path_class(path)
        self._fs: Any = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def renames_in_one_step(self) -> bool:
        return self._fs.getUri().getScheme() in _RENAME_IN_ONE_STEP

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._of(name)))

    def create(self, name: str) -> None:
        self._fs.create(self._of(name)).close()

    def delete(self, name: str) -> None:
        """Nothing happens where it is not there."""
        self._fs.delete(self._of(name), True)

    def delete_all(self, prefix: str) -> None:
        if not self._fs.exists(self._root):
            return
        for status in self._fs.listStatus(self._root):
            if status.getPath().getName().startswith(prefix):
                self._fs.delete(status.getPath(), True)

    def rename(self, name: str, to: str) -> None:
        if not self._fs.rename(self._of(name), self._of(to)):
            raise StateStoreError(
                f"the batch was written and could not be renamed to {to}",
                self._of(name).toString(),
                remedy="See that nothing else writes there; the batch is written again when the query is started",
            )

    def _of(self, name: str) -> Any:
        return self._path_class(self._root, name)
