"""The commit log, `commits/<batch>`: written when a batch is done. Without it the batch is run again.

    v1   {"nextBatchWatermarkMs":0}           "{}", or nothing, in old ones
    v2   + "stateUniqueIds":{"0":[["<id>"],["<id>"]]}     operator id -> partition -> an id for each of its stores
    v3   + "sinkMetadataMap":{"<name>":{"sinkName":...,"commitOffset":"-","providerName":...,"isActive":true}}

CommitLog.scala in Spark.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.json_files import JsonObject, Text, read_versioned
from hdfsstore.checkpoint.metadata_log import NUMBER

NEWEST_VERSION = 3


@dataclass(frozen=True, slots=True)
class CommitLogEntry:
    """One file of the commit log.

    Attributes:
        next_watermark_ms: the watermark of the batch after it, milliseconds since 1970.
        state_unique_ids: operator id -> partition -> the unique id of each store's new version; empty without them.
        sinks: what is known of each sink, by name.
    """

    version: int
    next_watermark_ms: int
    state_unique_ids: dict[int, list[list[str]]]
    sinks: dict[str, Any]


def read_commit_log(fs: FileSystem, path: str, siblings: Collection[str] | None = None) -> CommitLogEntry:
    version, lines = read_versioned(fs, path, NEWEST_VERSION, siblings)
    line = lines[0] if lines else Text("{}", path, 0)
    fields = line.json_object()
    return CommitLogEntry(
        version, fields.integer("nextBatchWatermarkMs", 0), _unique_ids(fields), fields.plain("sinkMetadataMap")
    )


def _unique_ids(fields: JsonObject) -> dict[int, list[list[str]]]:
    ids: dict[int, list[list[str]]] = {}
    for operator_id, partitions in fields.plain("stateUniqueIds").items():
        if not NUMBER.fullmatch(operator_id) or not _is_list_of_string_lists(partitions):
            raise fields.error("stateUniqueIds is not, by operator id, a list of lists of strings")
        ids[int(operator_id)] = partitions
    return ids


def _is_list_of_string_lists(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, list) and all(isinstance(item, str) for item in part) for part in value
    )
