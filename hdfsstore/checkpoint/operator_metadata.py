"""Reads and writes the metadata that Spark 4.0 and later keep of a stateful operator.

    state/<op>/_metadata/metadata      v1   operatorInfo, stateStoreInfo
    state/<op>/_metadata/v2/<batch>    v2   + stateSchemaFilePaths of each store, operatorPropertiesJson;
                                            if this folder exists, it counts

    v1
    {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
     "stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}

In version 2 each store has "stateSchemaFilePaths" (a list, newest last; "stateSchemaFilePath" before 4.0.0), as the
writer's absolute URIs. hdfsstore's driver may add an object "hdfsstore". Spark ignores it.
OperatorStateMetadata.scala in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from pyarrow.fs import FileType

from hdfsstore.checkpoint.json_files import JsonObject, Text, encode_versioned, read_versioned
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import both

NEWEST_VERSION = 2
SCHEMA_FOLDER = "_stateSchema"
SCHEMA_FILE = re.compile(r"(\d{1,18})_.+")
_HDFSSTORE = "hdfsstore"


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """One store: its name, its declared numbers, and its schema files (newest last) relative to `_stateSchema`."""

    name: str
    num_partitions: int
    num_cols_prefix_key: int
    schema_files: list[str]


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """One operator.

    Attributes:
        properties: those of transformWithState, else empty.
        hdfsstore_fields: fields that the driver of an hdfsstore query has added.
    """

    name: str
    stores: list[StoreMetadata]
    properties: dict[str, Any]
    hdfsstore_fields: dict[str, Any] = field(default_factory=dict)


def read_operator_metadata(fs: FileManager, operator_folder: str) -> OperatorMetadata | None:
    """The operator's newest metadata; None if there is none (before Spark 4.0)."""
    return OperatorMetadataFiles(fs, operator_folder).at()


def schema_files(fs: FileManager, operator_folder: str, batch_id: int | None = None) -> dict[str, list[str]]:
    """The schema files of each store with column families, as StoreMetadata has them, by what is in the folders.

    Args:
        batch_id: only what batches up to this one have written; None: all.
    """
    found = {}
    for store in fs.list_folder(f"{operator_folder}/{SCHEMA_FOLDER}"):
        if store.type != FileType.Directory:
            continue
        files = (SCHEMA_FILE.fullmatch(info.base_name) for info in fs.list_folder(store.path))
        batches = sorted((int(name[1]), name[0]) for name in files if name)
        names = [f"{store.base_name}/{name}" for batch, name in batches if batch_id is None or batch <= batch_id]
        if names:
            found[store.base_name] = names
    return found


class OperatorMetadataFiles:
    """An operator's metadata, listed once."""

    def __init__(self, fs: FileManager, operator_folder: str) -> None:
        self._fs = fs
        self._folder = f"{operator_folder}/_metadata"
        self._log = MetadataLog(fs, f"{self._folder}/v2", _read)
        infos, self._listing = both(fs, partial(fs.list_folder, self._folder), self._log.list)
        self._names = {info.base_name for info in infos}

    def at(self, batch_id: int | None = None) -> OperatorMetadata | None:
        """The metadata at a batch (the newest by default), read once; None if there is none."""
        for number in reversed(self._listing.files):
            if (batch_id is None or number <= batch_id) and (found := self._log.read(self._listing, number)):
                return found
        return self._of_version_1

    @property
    def batch_ids(self) -> list[int]:
        """The batches from which on there is other metadata, in ascending order."""
        return list(self._listing.files)

    @cached_property
    def _of_version_1(self) -> OperatorMetadata | None:
        if "metadata" not in self._names:
            return None
        try:
            return _read(self._fs, f"{self._folder}/metadata", self._names)
        except FileNotFoundError:
            return None


def encode_operator_metadata(operator_id: int, metadata: OperatorMetadata, operator_uri: str) -> bytes:
    """The content of an operator's file: version 2 if its stores have schema files of their own, else 1.

    Args:
        operator_uri: `<checkpoint>/state/<op>` with its scheme, which the paths of the schema files start with.
    """
    version = 2 if any(store.schema_files for store in metadata.stores) else 1
    stores = []
    for store in metadata.stores:
        fields: dict[str, Any] = {
            "storeName": store.name,
            "numColsPrefixKey": store.num_cols_prefix_key,
            "numPartitions": store.num_partitions,
        }
        if version == 2:
            fields["stateSchemaFilePaths"] = [f"{operator_uri}/_stateSchema/{file}" for file in store.schema_files]
        stores.append(fields)
    content: dict[str, Any] = {
        "operatorInfo": {"operatorId": operator_id, "operatorName": metadata.name},
        "stateStoreInfo": stores,
    }
    if version == 2:
        content["operatorPropertiesJson"] = dump_json(metadata.properties)
    if metadata.hdfsstore_fields:
        content[_HDFSSTORE] = metadata.hdfsstore_fields
    return encode_versioned(version, dump_json(content))


def _read(fs: FileManager, path: str, siblings: Collection[str] | None) -> OperatorMetadata:
    _, lines = read_versioned(fs, path, NEWEST_VERSION, siblings)
    body = Text("\n".join(line.text for line in lines), path, lines[0].offset if lines else 0)
    fields = body.json_object()
    properties: dict[str, Any] = {}
    if "operatorPropertiesJson" in fields:
        nested = Text(fields.string("operatorPropertiesJson") or "{}", path, body.offset)
        properties = _properties(nested.json_object())
    return OperatorMetadata(
        fields.child("operatorInfo").string("operatorName"),
        [_store(store) for store in fields.children("stateStoreInfo")],
        properties,
        fields.plain(_HDFSSTORE),
    )


def _properties(fields: JsonObject) -> dict[str, Any]:
    """All of them, once those that this package reads have their types."""
    if "timeMode" in fields:
        fields.string("timeMode")
    for variable in fields.children("stateVariables") if "stateVariables" in fields else ():
        variable.string("stateName")
        variable.string("stateVariableType")
    return fields.as_dict()


def _store(fields: JsonObject) -> StoreMetadata:
    if "stateSchemaFilePath" in fields:
        paths = [fields.string("stateSchemaFilePath")]
    else:
        paths = fields.strings("stateSchemaFilePaths") if "stateSchemaFilePaths" in fields else []
    return StoreMetadata(
        fields.string("storeName"),
        fields.integer("numPartitions"),
        fields.integer("numColsPrefixKey", 0),
        # The checkpoint may have been moved since, so only <store>/<file> is certain.
        ["/".join(path.split("/")[-2:]) for path in paths],
    )
