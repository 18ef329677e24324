"""The state of one operator in the files of a checkpoint, and which reader these files need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.checkpoint.spark_quirks import prefix_encoder
from hdfsstore.checkpoint.state_schema import ColumnFamily
from hdfsstore.codecs.avro_rows import AvroRows
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import KeyCodec, Rows, RowsOf, family_prefix, key_codec
from hdfsstore.codecs.rocksdb_values import ValueCodec
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import CorruptFileError, UnsupportedProviderError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.state.protocols import PartitionReader
from hdfsstore.state.readers import PartitionFiles, WrittenFiles, family_of, open_files


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of one operator after a batch, in the files of a checkpoint.

    Attributes:
        fs: the checkpoint's filesystem.
        provider: the class of the state store provider, one of those of conf.BACKENDS.
        operator: the operator, with the metadata it has at the batch.
        version: the version that the batch wrote.
        unique_ids: version -> partition -> the unique id of each of the operator's stores, for the versions that have
            ids among those that are read.
        conf: the settings that the offset log pins for the batch.
        max_record_bytes: a key or value that declares more than this is refused.
        empty_folders: whether a folder without a state file is the empty store at every version.
    """

    fs: FileManager
    provider: str
    operator: Operator
    version: int
    unique_ids: Mapping[int, Sequence[Sequence[str]]]
    conf: Mapping[str, str]
    max_record_bytes: int
    empty_folders: bool = True

    def reader(self, store: Store, partition_id: int, family: str | None = None) -> PartitionReader:
        """Reads one partition of a store of the operator, or one column family in it."""
        return family_of(self.files(store, partition_id), family)

    def files(self, store: Store, partition_id: int) -> PartitionFiles:
        """Reads one partition of a store of the operator, and tells what its files take."""
        folder, unique_ids = store.partition_path(partition_id), self._unique_ids(store, partition_id)
        return open_files(self.fs, folder, self._written, unique_ids, empty_folder=self.empty_folders)

    def partitions(self, store: Store, key_type: StructType | None) -> list[int]:
        """The partitions of a store that have its state at the version.

        Others than those that each batch writes count if they have a file of it. Spark's own repartition writes one for
        partitions of operators without keys, too, and a query begun before Spark 3.3 may have more of them.

        Args:
            key_type: of the rows.
        """
        written = store.needed_partitions(key_type)
        return [i for i in store.partition_ids if i in written or self._has_state(store, i)]

    def _has_state(self, store: Store, partition_id: int) -> bool:
        ids = self.unique_ids.get(self.version)
        return partition_id < len(ids) if ids is not None else self.files(store, partition_id).has(self.version)

    def family_codecs(self, store: Store, family: ColumnFamily, *, lists: bool) -> tuple[KeyCodec, ValueCodec]:
        """How the keys and values of a column family hold their rows.

        Args:
            lists: whether a value is a list of rows.

        Raises:
            UnsupportedProviderError: rows are encoded in another way than Spark has.
            UnsupportedTypeError, UnsupportedVersionError: Avro has no such type or key.
            StateStoreError: they are encoded with Avro, and fastavro is missing.
        """
        encoding = self.conf.get(confs.ENCODING_FORMAT, "unsaferow").strip().lower()
        if encoding not in ("unsaferow", "avro"):
            raise UnsupportedProviderError(
                f"the rows of the store {store.name!r} are encoded as {encoding!r}, which this release cannot read",
                store.schema_path,
                remedy="Read them with Spark's statestore source",
            )
        key_rows: tuple[RowsOf, RowsOf] = RowCodec, RowCodec
        value_rows: Rows | None = None
        if encoding == "avro":
            key_rows = partial(AvroRows, schema_id=family.key_schema_id), AvroRows
            value_rows = AvroRows(family.value_type, family.value_schema_id, store.value_types(family.name))
        values = ValueCodec(
            family.value_type,
            lists=lists,
            row_checksums=confs.row_checksum(self.conf),
            key_start=len(family_prefix(0)),
            rows=value_rows,
            commas=confs.merge_delimiter(self.conf) == b",",
        )
        return key_codec(family.key_type, family.key_encoder, b"", *key_rows), values

    def codecs(self, store: Store, key_type: StructType, value_type: StructType) -> tuple[KeyCodec, ValueCodec] | None:
        """How the keys and values of a store without column families hold their rows; None: they are the rows."""
        if not self._written.encodes_rows:
            return None
        row_checksums = confs.row_checksum(self.conf)
        return (
            key_codec(key_type, prefix_encoder(store, key_type), b""),
            ValueCodec(value_type, lists=False, row_checksums=row_checksums),
        )

    def first_chunk(self, store: Store) -> RecordChunk | None:
        """Some records of the store; None where it has none."""
        for partition_id in self.partitions(store, store.key_type):
            for chunk in self.reader(store, partition_id).stream(self.version, RecordChunk.copy):
                return chunk
        return None

    @property
    def _written(self) -> WrittenFiles:
        return WrittenFiles(
            confs.BACKENDS[self.provider],
            confs.compression_codec(self.conf),
            confs.row_checksum(self.conf),
            self.max_record_bytes,
            confs.merge_delimiter(self.conf),
        )

    def _unique_ids(self, store: Store, partition_id: int) -> dict[int, str]:
        position = [other.name for other in self.operator.stores].index(store.name)
        ids = {}
        for version, partitions in self.unique_ids.items():
            try:
                unique_id = partitions[partition_id][position]
            except IndexError:
                raise CorruptFileError(
                    f"the commit log of batch {version - 1} has no unique id for this store",
                    store.partition_path(partition_id),
                    remedy="The commit log, or the operator's metadata, is of another query",
                ) from None
            if unique_id:  # Empty for a store that has no ids, beside others that have.
                ids[version] = unique_id
        return ids
