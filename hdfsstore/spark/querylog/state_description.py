"""Records the schemas, the method and the partitions of a query's state, and compares them at each later start.

    <checkpoint>/hdfsstore/state/0/0/_metadata/schema       types of keys and values: Spark's file, version 2
    <checkpoint>/hdfsstore/state/0/_metadata/metadata       method, partitions, timeoutConf: Spark's, version 1

The second file is written last, so if it exists, both do. After a batch has begun, each start is compared with them. As
in Spark, the conf in the newest batch's offsets has the codec and the row checksums of the state's files.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, read_offset_log
from hdfsstore.checkpoint.operator_metadata import (
    OperatorMetadata,
    StoreMetadata,
    encode_operator_metadata,
    read_operator_metadata,
)
from hdfsstore.checkpoint.operators import DEFAULT_STORE
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY, ColumnFamily, encode_state_schema, read_state_schema
from hdfsstore.codecs import types as t
from hdfsstore.errors import MissingFileError, SchemaMismatchError, remedied
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.publish import publish
from hdfsstore.spark.querylog.log_entries import FOLDER, Entry, hdfsstore_entry
from hdfsstore.spark.spec import OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf

log = logging.getLogger("hdfsstore.spark.state_description")

_TIMEOUT_CONF = "timeoutConf"
_PUT_BACK = (
    "Put it back. A query with the same function, timeoutConf, key, state and number of partitions writes the same "
    "file when it is first started, with another checkpointLocation"
)
_REMEDY = "Start the query as it was, or with a new checkpointLocation: its state cannot be used otherwise"


@dataclass(frozen=True, slots=True)
class StateDescription:
    """What a query's state is made of.

    Attributes:
        method: name of the method that created the stream, such as applyInPandasWithState. It is the operator's name.
        timeout_conf: as PySpark has it.
        key_type, value_type: types of the key rows and of the value rows.
        num_partitions: number of partitions of the state.
    """

    method: str
    timeout_conf: str
    key_type: t.StructType
    value_type: t.StructType
    num_partitions: int


def settle_state(
    checkpoint: Location, wanted: StateDescription, conf: StateStoreConf
) -> tuple[StateDescription, StateStoreConf]:
    """Writes the description of the state at the first start, and compares it with the written one at later starts.

    Args:
        checkpoint: the query's checkpointLocation.
        wanted: the state as this start declares it.
        conf: settings of the stores as this start wants them.

    Returns:
        Description and settings, with the number of partitions, the codec and the row checksums of the first start. If
        this start wants others, there is a warning.

    Raises:
        SchemaMismatchError: the key, the state, the timeoutConf or the method has changed; the message has both.
        MissingFileError: batches are done, but the files that describe their state, or the log, do not exist.
        CorruptFileError: one of these files is damaged.
    """
    fs, path = resolve(checkpoint)
    root = f"{path}/{FOLDER}"
    settled = _settled(fs, root, wanted)
    if settled is None:
        write_description(fs, root, wanted)
        return wanted, conf
    metadata, newest = settled
    return _keep_partitions(_folder(root), metadata, wanted), _keep_conf(root, newest.parsed, conf)


def check_state(checkpoint: Location, wanted: StateDescription) -> None:
    """Compares as settle_state does, and writes nothing. A run of the query may be active."""
    fs, path = resolve(checkpoint)
    _settled(fs, f"{path}/{FOLDER}", wanted)


def _settled(fs: FileManager, root: str, wanted: StateDescription) -> tuple[OperatorMetadata, Entry] | None:
    """The description that was written, and the newest entry of the log; None if no batch has begun."""
    folder = _folder(root)
    # In this order: a batch that ends meanwhile may be only in the second listing, never only in the first one.
    done, begun = (MetadataLog(fs, f"{root}/{name}", read_offset_log).list().files for name in ("commits", "offsets"))
    newest = hdfsstore_entry(fs, root, max(begun)) if begun else None
    if newest is None:  # no batch has begun, but an earlier start may have failed
        if done:
            raise MissingFileError(
                f"batches {min(done)} to {max(done)} are done, but this log has no entry of them",
                f"{root}/offsets",
                remedy="Put its files back, or start the query with a new checkpointLocation",
            )
        return None
    with remedied(_PUT_BACK):
        metadata = read_operator_metadata(fs, folder)
        if metadata is None:
            raise MissingFileError(
                f"batch {max(begun)} has begun, and this file, which describes the state, is not there",
                f"{folder}/_metadata/metadata",
                remedy=_PUT_BACK,
            )
        _compare(fs, folder, metadata, wanted)
    return metadata, newest


def fits(new: t.DataType, stored: t.DataType) -> bool:
    """Whether rows of type `new` fit a state whose type is `stored`. Names do not count, and what was nullable may be
    not null now (DataType.equalsIgnoreNameAndCompatibleNullability in Spark)."""
    match new, stored:
        case t.StructType(), t.StructType():
            return len(new.fields) == len(stored.fields) and all(
                fits(a.type, b.type) and (b.nullable or not a.nullable)
                for a, b in zip(new.fields, stored.fields, strict=True)
            )
        case t.ArrayType(), t.ArrayType():
            return fits(new.element_type, stored.element_type) and (stored.contains_null or not new.contains_null)
        case t.MapType(), t.MapType():
            values = fits(new.value_type, stored.value_type)
            return (
                fits(new.key_type, stored.key_type)
                and values
                and (stored.value_contains_null or not new.value_contains_null)
            )
    return new == stored


def shown(type_: t.DataType) -> str:
    """A type in one line, with the names of Spark's JSON of types."""
    match type_:
        case t.StructType():
            fields = (f"{f.name}:{shown(f.type)}{'' if f.nullable else ' not null'}" for f in type_.fields)
            return f"struct<{','.join(fields)}>"
        case t.ArrayType():
            return f"array<{shown(type_.element_type)}>"
        case t.MapType():
            return f"map<{shown(type_.key_type)},{shown(type_.value_type)}>"
    return str(type_.json_value)


def write_description(fs: FileManager, root: str, wanted: StateDescription) -> None:
    """Writes the description of a query's state.

    Args:
        root: `<checkpoint>/hdfsstore`.
    """
    folder = _folder(root)
    family = ColumnFamily(DEFAULT_FAMILY, wanted.key_type, wanted.value_type, {})
    metadata = OperatorMetadata(
        wanted.method,
        [StoreMetadata(DEFAULT_STORE, wanted.num_partitions, 0, [])],
        {},
        {_TIMEOUT_CONF: wanted.timeout_conf},
    )
    publish(fs, _schema_path(folder), encode_state_schema([family], 2), overwrite=True)
    content = encode_operator_metadata(OPERATOR_ID, metadata, folder)
    publish(fs, f"{folder}/_metadata/metadata", content, overwrite=True)


def _folder(root: str) -> str:
    return f"{root}/state/{OPERATOR_ID}"


def _schema_path(folder: str) -> str:
    return f"{folder}/0/_metadata/schema"


def _compare(fs: FileManager, folder: str, metadata: OperatorMetadata, wanted: StateDescription) -> None:
    path = f"{folder}/_metadata/metadata"
    timeout_conf = metadata.hdfsstore_fields.get(_TIMEOUT_CONF)
    for what, before, now in (
        ("function", metadata.name, wanted.method),
        ("timeoutConf", timeout_conf, wanted.timeout_conf),
    ):
        if before != now:
            raise SchemaMismatchError(f"the query's {what} was {before}, and is {now} now", path, remedy=_REMEDY)
    schema_path = _schema_path(folder)
    try:
        (stored,) = read_state_schema(fs, schema_path)
    except FileNotFoundError:
        raise MissingFileError(
            "this file, the schema of the state, is not there", schema_path, remedy=_PUT_BACK
        ) from None
    for part, was, new in (
        ("key", stored.key_type, wanted.key_type),
        ("state", stored.value_type, wanted.value_type),
    ):
        if not fits(new, was):
            raise SchemaMismatchError(
                f"the schema of the {part} was {shown(was)}, and is {shown(new)} now", schema_path, remedy=_REMEDY
            )
        if new != was:
            log.info("the schema of the %s was %s, and is %s now, which fits it", part, shown(was), shown(new))


def _keep_partitions(folder: str, metadata: OperatorMetadata, wanted: StateDescription) -> StateDescription:
    kept = metadata.stores[0].num_partitions
    if kept != wanted.num_partitions:
        log.warning(
            "%s: the state has %d partitions since the query first started, and keeps them; %d were asked for",
            folder,
            kept,
            wanted.num_partitions,
        )
    return replace(wanted, num_partitions=kept)


def _keep_conf(root: str, newest: OffsetLogEntry, conf: StateStoreConf) -> StateStoreConf:
    kept = replace(
        conf,
        compression_codec=confs.compression_codec(newest.conf),
        row_checksum_enabled=confs.row_checksum(newest.conf),
    )
    for what, before, now in (
        ("codec", kept.compression_codec, conf.compression_codec),
        ("row checksum", kept.row_checksum_enabled, conf.row_checksum_enabled),
    ):
        if before != now:
            log.warning("%s: the %s of the state's files stays %s; %s was asked for", root, what, before, now)
    return kept
