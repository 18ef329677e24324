"""What the offset log pins for the life of a query, and what Spark takes where an old one lacks it.

Spark reads a batch's state under that batch's own conf (StateDataSource.scala), with the defaults of
OffsetSeqMetadata.relevantSQLConfDefaultValues.
"""

from __future__ import annotations

from collections.abc import Mapping

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
COMPRESSION_CODEC = "spark.sql.streaming.stateStore.compression.codec"
ROW_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"

HDFS_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# CompressionCodec.scala: a short name in any case, or the codec's class.
_CODEC_CLASSES = {
    "org.apache.spark.io.lz4compressioncodec": "lz4",
    "org.apache.spark.io.lzfcompressioncodec": "lzf",
    "org.apache.spark.io.snappycompressioncodec": "snappy",
    "org.apache.spark.io.zstdcompressioncodec": "zstd",
}


def compression_codec(conf: Mapping[str, str]) -> str:
    """Spark's short name of the codec that state files are compressed with; what is none of Spark's as it is."""
    name = conf.get(COMPRESSION_CODEC, "lz4")
    return _CODEC_CLASSES.get(name.lower(), name.lower())


def row_checksum(conf: Mapping[str, str]) -> bool:
    """Whether each row of the state files carries a checksum."""
    return conf.get(ROW_CHECKSUM, "false").strip().lower() == "true"
