"""Describes the rows of a store for a provider: their types, and the columns by which it finds them."""

from __future__ import annotations

from dataclasses import dataclass

from hdfsstore.codecs.types import StructType
from hdfsstore.errors import SchemaMismatchError


@dataclass(frozen=True, slots=True)
class StoreSchema:
    """The rows of one store, as open_provider takes them.

    Attributes:
        key_type, value_type: types of the rows. Without them the calls with record batches raise SchemaMismatchError.
        num_cols_prefix_key: number of the key's first columns by which prefix_scan finds rows; 0: no prefix_scan.
        timeout_offset: byte offset of the timeout in the value; None: no `expired`.
        num_partitions: of the store, whose keys are partitioned by all of their columns; None: not known.

    Raises:
        SchemaMismatchError: there is a prefix, or a number of partitions, without a key type.
    """

    key_type: StructType | None = None
    value_type: StructType | None = None
    num_cols_prefix_key: int = 0
    timeout_offset: int | None = None
    num_partitions: int | None = None

    def __post_init__(self) -> None:
        if self.num_cols_prefix_key and self.key_type is None:
            raise SchemaMismatchError(
                "num_cols_prefix_key needs the key schema, by which a prefix is found in the keys",
                remedy="Open the provider with key_schema=pyarrow.schema([...])",
            )
        if self.num_partitions is not None and self.key_type is None:
            raise SchemaMismatchError(
                "num_partitions needs the key schema, by which the partition of a key is found",
                remedy="Open the provider with key_schema=pyarrow.schema([...])",
            )
