"""Keys are sent in no command that Spark would write to a disk."""

from __future__ import annotations

import uuid

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StringType, StructField, StructType

from hdfsstore.errors import SizeLimitError
from hdfsstore.fs.location import StorageLocation
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.driver.command_limit import check_command
from hdfsstore.spark.querylog.session_storage import SessionStorage

MIB = 1 << 20
OUTPUT = StructType([StructField(f"column {number}", StringType()) for number in range(2_000)])


def test_a_command_of_32_000_partitions_is_sent_and_a_larger_one_refused() -> None:
    settings = S3Settings(secret_key=Secret("s3cr3t"), session_token=Secret("t" * 2_000))
    for partitions, fits in ((32_000, True), (66_000, False)):
        task = StorageLocation("s3://bucket/cp", settings), BaseIds([str(uuid.uuid4()) for _ in range(partitions)])
        if fits:
            check_command(task, OUTPUT, MIB)
        else:
            with pytest.raises(SizeLimitError, match=r"keys.*fewer partitions") as caught:
                check_command(task, OUTPUT, MIB)
            assert "s3cr3t" not in str(caught.value)


def test_the_limit_is_that_of_all_that_pyspark_sends() -> None:
    task = StorageLocation("s3://bucket/cp", S3Settings(secret_key=Secret("s3cr3t")))
    sent = len(CloudPickleSerializer().dumps((task, OUTPUT)))
    check_command(task, OUTPUT, sent)
    with pytest.raises(SizeLimitError, match=r"fewer columns"):
        check_command(task, OUTPUT, sent - 1)


def test_only_commands_with_keys_count() -> None:
    assert not SessionStorage(StorageLocation("/cp")).has_keys
    assert not SessionStorage(StorageLocation("s3://b/cp", S3Settings(anonymous=True))).has_keys
    assert SessionStorage(StorageLocation("s3://b/cp", S3Settings(customer_key=Secret("k")))).has_keys
    assert SessionStorage(StorageLocation("s3://b/cp", S3Settings()), object()).has_keys
