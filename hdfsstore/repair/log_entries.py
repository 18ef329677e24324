"""Changes single facts of a log's entry, and leaves all else in it as Spark wrote it.

hdfsstore/checkpoint/offset_log.py, commit_log.py and operator_metadata.py have the layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hdfsstore.checkpoint.commit_log import NEWEST_VERSION as NEWEST_COMMIT
from hdfsstore.checkpoint.json_files import Text, encode_versioned, parse_versioned
from hdfsstore.checkpoint.offset_log import NEWEST_VERSION as NEWEST_OFFSETS
from hdfsstore.checkpoint.operator_metadata import NEWEST_VERSION as NEWEST_METADATA
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.errors import RepairError

_IDS = "stateUniqueIds"
_SCHEMA_FOLDER = "/_stateSchema/"


def with_conf(content: bytes, path: str, changes: Mapping[str, str]) -> bytes:
    """An entry of the offset log with other settings.

    Args:
        content, path: the entry and where it was read.
        changes: settings by name. Those that are not named stay.

    Raises:
        CorruptFileError, UnsupportedVersionError: it is no entry that this release knows.
        RepairError: it pins no settings at all, as those of Spark 2.1.
    """
    if not changes:
        return content
    version, lines = parse_versioned(content, path, NEWEST_OFFSETS)
    fields = lines[0].json_object().as_dict() if lines and lines[0].text.strip() else {}
    conf = fields.get("conf")
    if not isinstance(conf, dict):
        raise RepairError(
            "this entry pins no settings, so that the next start could not be given others",
            path,
            remedy="Let a newer Spark run a batch on the checkpoint first",
        )
    conf |= changes
    return encode_versioned(version, dump_json(fields), *(line.text for line in lines[1:]))


def with_unique_ids(content: bytes, path: str, ids: Mapping[int, Sequence[Sequence[str]]]) -> bytes:
    """An entry of the commit log with other unique ids.

    Args:
        ids: operator -> partition -> an id for each store; empty: the state that it commits has none.
    """
    version, lines = parse_versioned(content, path, NEWEST_COMMIT)
    fields = lines[0].json_object().as_dict() if lines else {}
    if not ids and _IDS not in fields:
        return content
    if ids:
        fields[_IDS] = {str(operator): [list(stores) for stores in of] for operator, of in sorted(ids.items())}
        version = max(version, 2)
    else:
        del fields[_IDS]
        version = 1 if version == 2 else version
    return encode_versioned(version, dump_json(fields))


def with_operator(content: bytes, path: str, operator_uri: str | None, num_partitions: int | None) -> bytes:
    """An operator's metadata with other places of its schema files, and another number of partitions.

    Args:
        operator_uri: `<checkpoint>/state/<op>` with its scheme, where schema files are named; None: they stay.
        num_partitions: of each store; None: as it is.
    """
    version, lines = parse_versioned(content, path, NEWEST_METADATA)
    fields = Text("\n".join(line.text for line in lines), path, lines[0].offset if lines else 0).json_object().as_dict()

    def moved(schema: str) -> str:
        name = "/".join(schema.split("/")[-2:])
        return schema if operator_uri is None else f"{operator_uri}{_SCHEMA_FOLDER}{name}"

    stores: list[dict[str, Any]] = fields.get("stateStoreInfo", [])
    for store in stores:
        if num_partitions is not None:
            store["numPartitions"] = num_partitions
        if "stateSchemaFilePath" in store:
            store["stateSchemaFilePath"] = moved(store["stateSchemaFilePath"])
        if "stateSchemaFilePaths" in store:
            store["stateSchemaFilePaths"] = [moved(schema) for schema in store["stateSchemaFilePaths"]]
    return encode_versioned(version, dump_json(fields))
