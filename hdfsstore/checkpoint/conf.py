"""Reads the settings that the offset log pins for the life of a query, with Spark's defaults for old logs.

Spark reads a batch's state under that batch's own conf (StateDataSource.scala), with the defaults of
OffsetSeqMetadata.relevantSQLConfDefaultValues.
"""

from __future__ import annotations

from collections.abc import Mapping

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
COMPRESSION_CODEC = "spark.sql.streaming.stateStore.compression.codec"
ROW_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"
ENCODING_FORMAT = "spark.sql.streaming.stateStore.encodingFormat"
MERGE_OPERATOR_VERSION = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
STRICT_DISTRIBUTION = "spark.sql.streaming.statefulOperator.useStrictDistribution"

HDFS_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# The backend that reads the files of each provider.
BACKENDS = {HDFS_PROVIDER: "hdfs", ROCKSDB_PROVIDER: "rocksdb"}
PROVIDERS = {backend: provider for provider, backend in BACKENDS.items()}


def compression_codec(conf: Mapping[str, str]) -> str:
    """The codec of the state files, by its short name or its class."""
    return conf.get(COMPRESSION_CODEC, "lz4")


def merge_delimiter(conf: Mapping[str, str]) -> bytes:
    """What RocksDB puts between two values that are merged into one key."""
    return b"" if conf.get(MERGE_OPERATOR_VERSION, "1").strip() == "2" else b","


def row_checksum(conf: Mapping[str, str]) -> bool:
    """Whether each row of the state files carries a checksum."""
    return conf.get(ROW_CHECKSUM, "false").strip().lower() == "true"


def strict_distribution(conf: Mapping[str, str]) -> bool:
    """Whether Spark hashes the rows of every operator to the number of partitions that is pinned (3.3 and later)."""
    return conf.get(STRICT_DISTRIBUTION, "false").strip().lower() == "true"
