"""Spark writes a delta again, as a task that is tried again does, while a store reads it from HDFS in ranges."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.errors import FileChangedError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.range_reader import RangeReader
from hdfsstore.fs.reading import read_file
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration.hdfs_managers import manager
from tests.services.hdfs import Hdfs
from tests.support.partition import EMPTY, read, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

# More ranges than are on the way at the same time.
VALUES, VALUE_BYTES = 8, 8 << 20


class Interrupting(HdfsFileManager):
    """Calls `interrupt` once, when the first bytes of a file of that name have been read."""

    def __init__(self, files: HdfsFileManager, name: str, interrupt: Any) -> None:
        self.__dict__.update(files.__dict__)
        self._name = name
        self._interrupt = interrupt
        self.opened = 0
        self.changed = 0

    def open_file(self, path: str, size: int | None = None) -> RangeReader:
        file = super().open_file(path, size)
        if path.endswith(f"/{self._name}"):
            self.opened += 1
            file.readinto = self._reading(file)  # type: ignore[method-assign]
        return file

    def _reading(self, file: RangeReader) -> Any:
        first = self.opened == 1

        def readinto(buffer: bytearray | memoryview) -> int:
            nonlocal first
            try:
                count = RangeReader.readinto(file, buffer)
            except FileChangedError:
                self.changed += 1
                raise
            if first:
                first = False
                self._interrupt()
            return count

        return readinto


def state(salt: int) -> dict[bytes, bytes]:
    return {b"key %d" % number: bytes(salt) + os.urandom(VALUE_BYTES) for number in range(VALUES)}


def open_store(files: HdfsFileManager, root: str, local: Path) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(checkpoint_format_version=1, local_dir=str(local), maintenance_interval=0)
    return hdfsstore.open_provider(hdfsstore.StateStoreId((files, root), 0, 0), conf=conf)


def test_a_delta_that_spark_writes_again_while_it_is_read_is_of_one_version(
    spark: SparkSession, hdfs: Hdfs, tmp_path: Path
) -> None:
    files = manager(hdfs)
    states = [state(1), state(2)]
    roots = [f"/{uuid.uuid4()}/state" for _ in states]
    for root, content in zip(roots, states, strict=True):
        with open_store(files, root, tmp_path / root[1:]) as provider:
            write(provider, EMPTY, content)
    path = f"{roots[0]}/0/0/1.delta"
    other = tmp_path / "other.delta"
    other.write_bytes(read_file(files, f"{roots[1]}/0/0/1.delta"))

    (size,) = [info.size for info in files.file_infos([path])]
    assert size != other.stat().st_size
    blocks = [file for folder in hdfs.data_folders for file in folder.rglob("blk_*") if file.stat().st_size == size]
    assert blocks

    def spark_writes_it_again() -> None:
        jvm: Any = spark._jvm
        there = jvm.org.apache.hadoop.fs.Path(hdfs.uri(path[1:]))
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        spark_files = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        stream = spark_files.create(there.getParent(), conf).createAtomic(there, True)
        jvm.org.apache.commons.io.FileUtils.copyFile(jvm.java.io.File(str(other)), stream)
        stream.close()
        wait_until(lambda: not any(block.exists() for block in blocks))

    reading = Interrupting(files, "1.delta", spark_writes_it_again)
    with open_store(reading, roots[0], tmp_path / "reader") as provider:
        found = read(provider, (1, None))
    assert found == states[1]
    assert (reading.opened, reading.changed) == (2, 1)
