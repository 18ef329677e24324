"""The layout of a changelog: we take each file for the one that Spark's own reader takes it for."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hdfsstore.codecs.lineage import LineageItem, encode_header, read_header, read_start
from hdfsstore.errors import UnsupportedVersionError
from tests.support.changelogs import UNKNOWN_LAYOUTS, WITHOUT_LAYOUT, encode_typed, utf

JAVA = Any
LINEAGE = [LineageItem(1, "0a6a1a4a-5e3c-4b5b-8a3e-0123456789ab"), LineageItem(2, "f47ac10b-58cc-4372-a567-0e02b2c3")]


@pytest.fixture
def sparks_reader(spark: SparkSession, tmp_path: Path) -> Callable[[bytes], JAVA]:
    """Has Spark choose the reader of a changelog by its content."""

    def choose(content: bytes) -> JAVA:
        jvm: JAVA = spark._jvm
        streaming = jvm.org.apache.spark.sql.execution.streaming
        codec = jvm.org.apache.spark.io.CompressionCodec.createCodec(jvm.org.apache.spark.SparkConf(False), "lz4")
        file = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "1.changelog"))
        out = codec.compressedOutputStream(jvm.java.io.FileOutputStream(file.toString()))
        out.write(content)
        out.close()
        hadoop = jvm.org.apache.hadoop.conf.Configuration()
        files = streaming.checkpointing.CheckpointFileManager.create(file.getParent(), hadoop)
        return streaming.state.StateStoreChangelogReaderFactory(files, file, codec).constructChangelogReader()

    return choose


@pytest.mark.parametrize("content", [*WITHOUT_LAYOUT, utf("v2") + encode_typed([])])
def test_without_a_unique_id(content: bytes, sparks_reader: Callable[[bytes], JAVA]) -> None:
    reader = sparks_reader(content)
    reader.close()
    start = read_start(io.BytesIO(content), "f")
    assert reader.version() == (2 if start.typed else 1)
    assert (start.size > 0) == start.typed  # v1 is all records


@pytest.mark.parametrize("layout", UNKNOWN_LAYOUTS)
def test_what_neither_reads(layout: str, sparks_reader: Callable[[bytes], JAVA]) -> None:
    content = utf(layout) + bytes(10)
    with pytest.raises(Py4JJavaError, match=r"INVALID_CHANGE_LOG_READER_VERSION|Changelog version mismatch"):
        sparks_reader(content)
    with pytest.raises(UnsupportedVersionError):
        read_start(io.BytesIO(content), "f")


@pytest.mark.parametrize("layout", ["v3", "v4"])
def test_with_a_unique_id(layout: str, sparks_reader: Callable[[bytes], JAVA]) -> None:
    content = encode_header(LINEAGE).replace(b"v3", layout.encode())
    reader = sparks_reader(content)
    reader.close()
    lineage, start = read_header(io.BytesIO(content), "f", 3, typed=True)
    assert reader.version() == (4 if start.typed else 3)
    assert [(item.version(), item.checkpointUniqueId()) for item in reader.lineage()] == lineage
