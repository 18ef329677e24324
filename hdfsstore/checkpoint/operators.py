"""Finds the stateful operators of a query and their stores: in their metadata or, before Spark 4.0, in the folders.

The number of partitions is in the conf of the batch (batch_conf.py). Spark 2.1 logs none; then the folders are counted.

    state/<op>/<partition>/           the store "default"
    state/<op>/<partition>/<store>/   any other store

A global limit declares all partitions of the query, but has only 0/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileType

from hdfsstore.checkpoint.batch_conf import BatchConf, nearest_conf
from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.metadata_log import NUMBER
from hdfsstore.checkpoint.notebook import html_table
from hdfsstore.checkpoint.operator_metadata import (
    SCHEMA_FOLDER,
    OperatorMetadataFiles,
    StoreMetadata,
    schema_files,
)
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY, ColumnFamily, read_state_schema
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import NullType, StructType
from hdfsstore.errors import CheckpointNotFoundError, MissingFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import both, in_order

DEFAULT_STORE = "default"
JOIN = "symmetricHashJoin"
# Folders of a RocksDB store, beside its versions.
_NO_STORES = ("SSTs", "logs")


class Store:
    """One state store of an operator: a key-value map in each partition.

    polars, DuckDB, pandas and nanoarrow take it as a table: `__arrow_c_stream__` gives the rows that
    `Checkpoint.open_state` gives, at the batch for which the operator was asked for. Each call reads them anew.

    Attributes:
        operator_id: the operator's number.
        name: "default", or the operator's name for it.
        num_partitions: from the offset log, else from the operator's metadata, else the number of folders.
        num_cols_prefix_key: how many leading columns of the key a prefix scan takes; None if unknown.
        partition_ids: those that have a folder, without those of `other_partition_ids`.
        other_partition_ids: folders of partitions that the batch does not have: of batches before or after a
            repartition.
    """

    def __init__(
        self,
        fs: FileManager,
        operator_folder: str,
        operator_id: int,
        name: str,
        partition_ids: list[int],
        num_partitions: int,
        metadata: StoreMetadata | None = None,
        other_partition_ids: Sequence[int] = (),
        schemas: Sequence[str] = (),
    ) -> None:
        self.operator_id = operator_id
        self.name = name
        self.partition_ids = partition_ids
        self.num_partitions = num_partitions
        self.other_partition_ids = list(other_partition_ids)
        self.num_cols_prefix_key = metadata.num_cols_prefix_key if metadata else None
        self._schema_files = list(schemas)
        self._fs = fs
        self._operator_folder = operator_folder
        self._open_rows: Callable[[], pa.RecordBatchReader] | None = None

    def with_rows(self, open_rows: Callable[[], pa.RecordBatchReader]) -> Store:
        """The same store, whose rows somebody opens."""
        store = copy(self)
        store._open_rows = open_rows
        return store

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, by Arrow's PyCapsule interface.

        Args:
            requested_schema: the capsule of a schema of the same columns in other types; None: as they are.

        Raises:
            As Checkpoint.open_state; ValueError, TypeError: Arrow cannot cast the rows to that schema.
        """
        if self._open_rows is None:
            raise StateStoreError(
                "the rows of this store cannot be opened", self._operator_folder, remedy="Take it from a Checkpoint"
            )
        return self._open_rows().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Store(operator_id={self.operator_id}, name={self.name!r}, num_partitions={self.num_partitions})"

    def _repr_html_(self) -> str:
        families = [
            (family.name, to_arrow_schema(family.key_type).to_string(), to_arrow_schema(family.value_type).to_string())
            for family in self.column_families
        ]
        title = f"Store {self.name} of operator {self.operator_id}: {self.num_partitions} partitions"
        return html_table(title, ("column family", "key", "value"), families)

    def partition_path(self, partition_id: int) -> str:
        """The folder of a partition's state files, on the checkpoint's filesystem."""
        folder = f"{self._operator_folder}/{partition_id}"
        return folder if self.name == DEFAULT_STORE else f"{folder}/{self.name}"

    def needed_partitions(self, key_type: StructType | None) -> range:
        """The partitions that each batch writes, and that have a folder therefore.

        Args:
            key_type: of the rows. An operator without keys (a global limit or aggregation) runs only in partition 0.
        """
        is_keyless = key_type is not None and all(isinstance(field.type, NullType) for field in key_type.fields)
        return range(1 if is_keyless else self.num_partitions)

    @property
    def schema_path(self) -> str:
        """The path of the newest schema file, which may be missing (Spark 2)."""
        return self.schema_paths[-1]

    @property
    def schema_paths(self) -> list[str]:
        """From the oldest to the newest."""
        of_families = [f"{self._operator_folder}/_stateSchema/{name}" for name in self._schema_files]
        return of_families or [f"{self.partition_path(0)}/_metadata/schema"]

    @property
    def has_families(self) -> bool:
        """Whether it is one of Spark's stores with column families, even if there is only one."""
        return bool(self._schema_files)

    def family(self, name: str) -> ColumnFamily:
        """The column family of that name.

        Raises:
            CheckpointNotFoundError: there is none.
            MissingFileError: there is no schema file.
        """
        for family in self.named_families:
            if family.name == name:
                return family
        raise CheckpointNotFoundError(
            f"the store has no column family {name!r}",
            self.schema_path,
            remedy=f"Its families are {', '.join(family.name for family in self.column_families)}",
        )

    @cached_property
    def column_families(self) -> list[ColumnFamily]:
        """The schema of each column family. Most stores have one, "default"; without a schema file there is none."""
        return self._families(self.schema_path)

    @property
    def named_families(self) -> list[ColumnFamily]:
        """The same of a store of which has_families is true. MissingFileError: its schema file is missing."""
        if not self.column_families:
            raise MissingFileError(
                "the operator's metadata names this schema file, and it is missing",
                self.schema_path,
                remedy="Restore it: it has the column families and their types",
            )
        return self.column_families

    def value_types(self, name: str) -> dict[int, StructType]:
        """Schema id -> the type of the values of a column family that were written with it."""
        older = (family for path in self.schema_paths for family in self._families(path))
        return {family.value_schema_id: family.value_type for family in older if family.name == name}

    def _families(self, path: str) -> list[ColumnFamily]:
        try:
            return read_state_schema(self._fs, path)
        except FileNotFoundError:
            return []

    @property
    def key_type(self) -> StructType | None:
        """Spark's type of the keys; None without a schema file, or if the column families differ in it."""
        family = self._only_family()
        return family.key_type if family else None

    @property
    def value_type(self) -> StructType | None:
        """Spark's type of the values; None without a schema file, or if the column families differ in it."""
        family = self._only_family()
        return family.value_type if family else None

    @property
    def key_schema(self) -> pa.Schema | None:
        """key_type in Arrow."""
        return None if self.key_type is None else to_arrow_schema(self.key_type)

    @property
    def value_schema(self) -> pa.Schema | None:
        """value_type in Arrow."""
        return None if self.value_type is None else to_arrow_schema(self.value_type)

    def _only_family(self) -> ColumnFamily | None:
        families = self.column_families
        named_default = [family for family in families if family.name == DEFAULT_FAMILY]
        return next(iter(named_default or families), None) if len(families) == 1 or named_default else None


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator.

    Attributes:
        operator_id: its number.
        name: Spark's short name of it, such as stateStoreSave; None before Spark 4.0.
        stores: its stores.
        properties: the state variables and timers of transformWithState, else empty.
    """

    operator_id: int
    name: str | None
    stores: list[Store]
    properties: dict[str, Any]

    def store(self, name: str = DEFAULT_STORE) -> Store:
        """The store of that name.

        Raises:
            CheckpointNotFoundError: there is none.
        """
        for store in self.stores:
            if store.name == name:
                return store
        of_join = self.name == JOIN or any(store.name.startswith(("left-", "right-")) for store in self.stores)
        advice = "; give join_side to read what a side of the join buffers" if of_join else ""
        raise CheckpointNotFoundError(
            f"operator {self.operator_id} has no store {name!r}",
            remedy=f"Its stores are {', '.join(store.name for store in self.stores)}{advice}",
        )

    def with_rows(self, open_rows: Callable[[str], pa.RecordBatchReader]) -> Operator:
        """The same operator, whose stores have the rows that somebody opens by their names."""
        return replace(self, stores=[store.with_rows(partial(open_rows, store.name)) for store in self.stores])


class OperatorFiles:
    """An operator's folder and metadata, listed once.

    Args:
        operator_id: the operator's number, also an attribute.
        batch_id: `at` will probably be asked for this batch (the newest by default), so its metadata is read at once.
    """

    def __init__(self, fs: FileManager, root: str, operator_id: int, batch_id: int | None = None) -> None:
        self._fs = fs
        self._root = root
        self.operator_id = operator_id
        self._folder = f"{root}/state/{operator_id}"
        self._infos, self._metadata = both(
            fs, partial(fs.list_folder, self._folder), partial(_metadata_of, fs, self._folder, batch_id)
        )

    @property
    def empty(self) -> bool:
        """Whether nothing is in the folder, or it is not there."""
        return not self._infos

    @property
    def batch_ids(self) -> list[int]:
        """The batches from which on the operator has other metadata, in ascending order."""
        return self._metadata.batch_ids

    def at(self, batch_id: int | None, conf: BatchConf | None) -> Operator:
        """The operator with the metadata it has at a batch (the newest by default), under the conf of that batch."""
        metadata = self._metadata.at(batch_id)
        folders = dict(_numbered(self._infos))
        stores: dict[str, StoreMetadata | None] = {each.name: each for each in metadata.stores} if metadata else {}
        schemas = {each.name: each.schema_files for each in metadata.stores} if metadata else {}
        if metadata is None:
            if any(info.base_name == SCHEMA_FOLDER for info in self._infos):  # the metadata that named them is lost
                schemas = schema_files(self._fs, self._folder, batch_id)
            with in_order(self._fs, [partial(self._fs.list_folder, path) for path in folders.values()]) as listed:
                names = sorted({name for infos in listed for name in _store_names(infos)})
            stores = dict.fromkeys(names or [DEFAULT_STORE])
        return Operator(
            self.operator_id,
            metadata.name if metadata else None,
            [
                self._store(name, list(folders), conf, of_store, schemas.get(name, []))
                for name, of_store in stores.items()
            ],
            metadata.properties if metadata else {},
        )

    def _store(
        self, name: str, ids: list[int], conf: BatchConf | None, metadata: StoreMetadata | None, schemas: list[str]
    ) -> Store:
        counted = max(ids, default=-1) + 1
        number = (conf.num_partitions if conf else None) or (metadata.num_partitions if metadata else counted)
        end = number if conf and conf.is_exact else counted
        own, others = [i for i in ids if i < end], [i for i in ids if i >= end]
        return Store(self._fs, self._folder, self.operator_id, name, own, number, metadata, others, schemas)


def _metadata_of(fs: FileManager, folder: str, batch_id: int | None) -> OperatorMetadataFiles:
    files = OperatorMetadataFiles(fs, folder)
    try:
        files.at(batch_id)
    except StateStoreError:
        return files  # it is raised again if it is this batch that is asked for
    return files


def list_operators(fs: FileManager, root: str, batch_id: int | None = None) -> list[Operator]:
    """The operators under `<root>/state`, by number, with the metadata and the partitions they have at a batch.

    Args:
        batch_id: the newest committed batch by default.
    """
    logs = BatchLogs(fs, root)
    logged = logs.look()
    at = max(logged.done, default=None) if batch_id is None else batch_id
    return operators_at(fs, root, at, nearest_conf(logs, logged, at))


def operators_at(fs: FileManager, root: str, batch_id: int | None, conf: BatchConf | None) -> list[Operator]:
    """The same for a batch whose conf is known."""
    ids = [operator_id for operator_id, _ in _numbered(fs.list_folder(f"{root}/state"))]
    with in_order(fs, [partial(OperatorFiles, fs, root, operator_id, batch_id) for operator_id in ids]) as operators:
        return [files.at(batch_id, conf) for files in operators]


def _numbered(infos: list[FileInfo]) -> list[tuple[int, str]]:
    """The folders whose name is a number."""
    folders = [info for info in infos if info.type == FileType.Directory and NUMBER.fullmatch(info.base_name)]
    return sorted((int(info.base_name), info.path) for info in folders)


def _store_names(infos: list[FileInfo]) -> list[str]:
    """The stores in a partition's folder."""
    names = []
    for info in infos:
        if info.type == FileType.File or info.base_name == "_metadata":
            names.append(DEFAULT_STORE)
        elif not info.base_name.startswith((".", "_")) and info.base_name not in _NO_STORES:
            names.append(info.base_name)
    return names
