"""What a query's state is made of, settled when the query first starts.

    <checkpoint>/hdfsstore/state/0/0/_metadata/schema       types of keys and values: Spark's file, version 2
    <checkpoint>/hdfsstore/state/0/_metadata/metadata       method, partitions, timeoutConf: Spark's, version 1

The second one is written last: where it is, both are. Once a batch has begun, a later start is compared with them. The
codec and row checksums of the state's files are those in the conf of the newest batch's offsets, as in Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pyarrow.fs import FileSystem

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
from hdfsstore.fs import Location, resolve
from hdfsstore.publish import publish
from hdfsstore.spark.querylog.log_entries import FOLDER, Entry, hdfsstore_entry
from hdfsstore.spark.spec import OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf

log = logging.getLogger("hdfsstore.spark.state_description")

_TIMEOUT_CONF = "timeoutConf"
_PUT_BACK = (
    "Put it back. A query with the same function, timeoutConf, key, state and number of partitions writes the same "
    "file when it is first started, with another checkpointLocation"
)
_REMEDY = "Start the query as it was, or with a new checkpointLocation: what it keeps cannot be used otherwise"


@dataclass(frozen=True, slots=True)
class StateDescription:
    """What a query keeps.

    Attributes:
        method: that made it, such as applyInPandasWithState: the operator's name.
        timeout_conf: PySpark's.
        key_type, value_type: of the rows.
        num_partitions: of the state.
    """

    method: str
    timeout_conf: str
    key_type: t.StructType
    value_type: t.StructType
    num_partitions: int


def settle_state(
    checkpoint: Location, wanted: StateDescription, conf: StateStoreConf
) -> tuple[StateDescription, StateStoreConf]:
    """Writes what the query keeps, if it starts for the first time, or compares it with what it kept before.

    Args:
        checkpoint: the query's checkpointLocation.
        conf: how its stores are to work.

    Returns:
        Both, with what was settled before: the number of partitions, the codec and row checksums. There is a warning
        where that is something else than what is wanted now.

    Raises:
        SchemaMismatchError: key, state, timeoutConf or method are others than before; the message has both.
        MissingFileError: batches are done, and the files that describe their state, or the log, are not there.
        CorruptFileError: one of them is damaged.
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
    """Compares what the query keeps with what it kept before, as settle_state does; a run of it may be active."""
    fs, path = resolve(checkpoint)
    _settled(fs, f"{path}/{FOLDER}", wanted)


def _settled(fs: FileSystem, root: str, wanted: StateDescription) -> tuple[OperatorMetadata, Entry] | None:
    """What describes the state, and the newest entry of the log; None where no batch has begun."""
    folder = _folder(root)
    # A batch that ends meanwhile is in the first listing or not, and in the second one if it is in the first.
    done, begun = (MetadataLog(fs, f"{root}/{name}", read_offset_log).list().files for name in ("commits", "offsets"))
    newest = hdfsstore_entry(fs, root, max(begun)) if begun else None
    if newest is None:  # no batch has begun: a start before may have failed
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
    """Whether rows of a type can be kept where another one is declared: names do not count, and what was declared null
    may be declared not null now (DataType.equalsIgnoreNameAndCompatibleNullability in Spark)."""
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
    """A type in a line, with the names that Spark's JSON of types has."""
    match type_:
        case t.StructType():
            fields = (f"{f.name}:{shown(f.type)}{'' if f.nullable else ' not null'}" for f in type_.fields)
            return f"struct<{','.join(fields)}>"
        case t.ArrayType():
            return f"array<{shown(type_.element_type)}>"
        case t.MapType():
            return f"map<{shown(type_.key_type)},{shown(type_.value_type)}>"
    return str(type_.json_value)


def write_description(fs: FileSystem, root: str, wanted: StateDescription) -> None:
    """Writes what a query keeps.

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


def _compare(fs: FileSystem, folder: str, metadata: OperatorMetadata, wanted: StateDescription) -> None:
    path = f"{folder}/_metadata/metadata"
    timeout_conf = metadata.own.get(_TIMEOUT_CONF)
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
