"""Accesses a folder of output through Hadoop, on any filesystem to which Spark writes."""

from __future__ import annotations

import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish
from hdfsstore.fs.redaction import shown

_LOCAL = "file"
_RENAME_IN_ONE_STEP = ("file", "hdfs", "viewfs", "abfs", "abfss")


class OutputFolder:
    """A folder. Its methods take names of files and folders in it.

    Attributes:
        path: as the user gave it, without credentials, for messages.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = shown(path)
        self._path_class: Any = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
        self._root = self._path_class(path)
        self._fs: Any = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def renames_in_one_step(self) -> bool:
        return self._fs.getUri().getScheme() in _RENAME_IN_ONE_STEP

    def names(self) -> list[str]:
        """The names of files and folders in it; none if the folder does not exist."""
        if not self._fs.exists(self._root):
            return []
        return [status.getPath().getName() for status in self._fs.listStatus(self._root)]

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._of(name)))

    def modified_ms(self, name: str) -> int | None:
        """When a file was written, in milliseconds since 1970; None if there is no such file."""
        return int(self._fs.getFileStatus(self._of(name)).getModificationTime()) if self.exists(name) else None

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""
        if not self.exists(name):
            return None
        stream = self._fs.open(self._of(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def create(self, name: str, content: bytes = b"") -> None:
        """Writes a file that appears whole. It does nothing if a file of that name exists.

        If several writers do so at once, one wins. On an object store, a writer that looks before another one has
        written overwrites that one's file. A caller that must know who won reads the file again.
        """
        if self._fs.getUri().getScheme() == _LOCAL:
            path = self._fs.makeQualified(self._of(name)).toUri().getPath()
            try:
                publish(LocalFileManager(), path, content, overwrite=False)
            except FileExistsError:
                return
        elif self.exists(name):
            return
        elif self.renames_in_one_step:
            temporary = f"{name}.{uuid.uuid4()}.tmp"
            self._write(temporary, content)
            if not self._fs.rename(self._of(temporary), self._of(name)):
                self.delete(temporary)
        else:
            try:
                self._write(name, content)
            except Py4JJavaError:
                if not self.exists(name):
                    raise

    def delete(self, name: str) -> None:
        """Deletes a file or a folder, if it exists."""
        self._fs.delete(self._of(name), True)

    def rename(self, name: str, to: str) -> None:
        """Gives a file or a folder another name.

        Raises:
            StateStoreError: it does not exist, or cannot be renamed.
        """
        try:
            renamed = self._fs.rename(self._of(name), self._of(to))
        except Py4JJavaError as error:
            if self.exists(name):
                raise
            raise self._cannot(name, to) from error
        if not renamed:
            raise self._cannot(name, to)

    def _write(self, name: str, content: bytes) -> None:
        stream = self._fs.create(self._of(name), False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _cannot(self, name: str, to: str) -> StateStoreError:
        return StateStoreError(
            f"the output of a batch was written and could not be renamed to {to}",
            f"{self.path}/{name}",
            remedy="Make sure that nothing else writes there, another driver of this query above all. The next start "
            "of the query writes the batch again",
        )

    def _of(self, name: str) -> Any:
        return self._path_class(self._root, name)
