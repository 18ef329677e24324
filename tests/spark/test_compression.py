"""Spark's own codecs against ours, each reading what the other wrote."""

import random

import pytest

from hdfsstore.codecs.compression import CODECS, compress, decompress

CONTENTS = [
    b"x",
    b"user-17" * 30_000,
    random.Random(1).randbytes(150_000),
    b"".join(random.Random(2).choices([b"key", b"value", bytes(9), b"\xff\xff"], k=40_000)),
]


@pytest.fixture(params=CODECS)
def codec(request):
    return request.param


@pytest.fixture
def sparks(spark, codec):
    jvm = spark.sparkContext._jvm
    return jvm.org.apache.spark.io.CompressionCodec.createCodec(jvm.org.apache.spark.SparkConf(False), codec)


@pytest.mark.parametrize("content", CONTENTS)
def test_spark_reads_ours(spark, codec, sparks, content):
    raw = spark.sparkContext._jvm.java.io.ByteArrayInputStream(compress(codec, content))
    assert sparks.compressedInputStream(raw).readAllBytes() == content


@pytest.mark.parametrize("content", CONTENTS)
def test_we_read_sparks(spark, codec, sparks, content):
    raw = spark.sparkContext._jvm.java.io.ByteArrayOutputStream()
    stream = sparks.compressedOutputStream(raw)
    stream.write(content)
    stream.close()
    compressed = bytes(raw.toByteArray())
    assert decompress(codec, compressed) == content
    assert decompress(codec, compressed * 2) == content * 2
