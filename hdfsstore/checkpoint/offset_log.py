"""Reads and writes the offset log, `offsets/<batch>`: the offsets and the conf of a batch, written before it runs.

    v1                                                                     v1
    {"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{...}}               the line may be empty, conf may be missing
    {"logOffset":2}                                                        one line a source, "-" = no offset yet
    -

    v2 (Spark 4.3)
    {"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{...},"sourceMetadataInfo":{},"controlBatchInfo":{...}}
    clicks:{"logOffset":2}                                                 source id, ":", offset

hdfsstore's driver may add an object "hdfsstore" to the first of these lines. Spark ignores it.
OffsetSeqLog.scala, OffsetSeq.scala in Spark.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from hdfsstore.checkpoint.guard import parse_guard
from hdfsstore.checkpoint.json_files import Text, encode_versioned, parse_versioned
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file

NEWEST_VERSION = 2
_NO_OFFSET = "-"
_HDFSSTORE = "hdfsstore"


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """One file of the offset log.

    Attributes:
        watermark_ms, timestamp_ms: milliseconds since 1970; 0 where there is none (yet).
        conf: the settings that the batch runs under, which a restart keeps.
        offsets: each source's offset as the source's own JSON text, or None.
        source_ids: each source's id; its position in version 1.
        source_metadata: sourceId, providerName and apiVersion of each source that has them, by source id.
        control_batch: operationType and operationInfo of a batch that the engine made without data, else empty.
        hdfsstore_fields: fields that the driver of an hdfsstore query has added.
    """

    version: int
    watermark_ms: int
    timestamp_ms: int
    conf: dict[str, str]
    offsets: list[str | None]
    source_ids: list[str]
    source_metadata: dict[str, Any]
    control_batch: dict[str, Any]
    hdfsstore_fields: dict[str, Any] = field(default_factory=dict)


def read_offset_log(fs: FileManager, path: str, siblings: Collection[str] | None = None) -> OffsetLogEntry:
    return parse_offset_log(read_file(fs, path, siblings), path)


def parse_offset_log(content: bytes, path: str) -> OffsetLogEntry:
    """Parses the content of a file.

    Raises:
        RepairUnderWayError: it is the guard of an in-place repair (guard.py).
    """
    if guard := parse_guard(content):
        raise guard.error(path)
    version, lines = parse_versioned(content, path, NEWEST_VERSION)
    if not lines:
        lines = [Text("", path, 0)]
    metadata, *sources = lines
    fields = Text(metadata.text.strip() or "{}", path, metadata.offset).json_object()
    if version == 1:
        source_ids = [str(position) for position in range(len(sources))]
        offsets = [source.text for source in sources]
    else:
        pairs = [_source_and_offset(source) for source in sources]
        source_ids = [source_id for source_id, _ in pairs]
        offsets = [offset for _, offset in pairs]
    return OffsetLogEntry(
        version,
        fields.integer("batchWatermarkMs", 0),
        fields.integer("batchTimestampMs", 0),
        fields.string_map("conf"),
        [None if offset == _NO_OFFSET else offset for offset in offsets],
        source_ids,
        fields.plain("sourceMetadataInfo"),
        fields.plain("controlBatchInfo"),
        fields.plain(_HDFSSTORE),
    )


def encode_offset_log(entry: OffsetLogEntry) -> bytes:
    """The content of an entry's file, in version 1 or 2, as Spark writes it."""
    fields: dict[str, Any] = {"batchWatermarkMs": entry.watermark_ms, "batchTimestampMs": entry.timestamp_ms}
    if entry.conf:
        fields["conf"] = entry.conf
    sources = [_NO_OFFSET if offset is None else offset for offset in entry.offsets]
    if entry.version > 1:
        fields["sourceMetadataInfo"] = entry.source_metadata
        if entry.control_batch:
            fields["controlBatchInfo"] = entry.control_batch
        sources = [f"{source_id}:{offset}" for source_id, offset in zip(entry.source_ids, sources, strict=True)]
    if entry.hdfsstore_fields:
        fields[_HDFSSTORE] = entry.hdfsstore_fields
    return encode_versioned(entry.version, dump_json(fields), *sources)


def _source_and_offset(line: Text) -> tuple[str, str]:
    source_id, colon, offset = line.text.partition(":")
    if not colon:
        raise line.error("no source id before the offset")
    return source_id, offset
