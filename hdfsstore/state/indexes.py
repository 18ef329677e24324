"""Describes the indexes of a store's images, besides that of the key."""

from __future__ import annotations

from typing import TypedDict

from hdfsstore._cext.versioned_map import PrefixPlan
from hdfsstore.codecs.types import LongType
from hdfsstore.errors import SchemaMismatchError
from hdfsstore.state.rows import prefix_plan
from hdfsstore.state.store_schema import StoreSchema

# A row begins with a bit for each column, in words of 8 bytes; then each column has 8 bytes.
_WORD = 8
_MAX_COLUMNS = 64


class Indexes(TypedDict):
    """Arguments for everything that makes images.

    Attributes:
        prefix: layout of the key's prefix, for prefix_scan.
        timeout_offset: byte offset of the timeout in the value, for `expired`.
    """

    prefix: PrefixPlan | None
    timeout_offset: int | None


def no_indexes() -> Indexes:
    return Indexes(prefix=None, timeout_offset=None)


def indexes_of(schema: StoreSchema) -> Indexes:
    """The indexes that the images of a store need.

    Raises:
        ValueError: there is no column at the offset, or not that many columns in the key.
        SchemaMismatchError: the value schema has another type there than a long.
    """
    key_type, value_type, timeout_offset = schema.key_type, schema.value_type, schema.timeout_offset
    columns_of_prefix = schema.num_cols_prefix_key
    prefix = None if key_type is None or not columns_of_prefix else prefix_plan(key_type, columns_of_prefix)
    if timeout_offset is not None:
        column, rest = divmod(timeout_offset, _WORD)
        columns = _MAX_COLUMNS if value_type is None else len(value_type.fields)
        if rest or not 1 <= column <= columns <= _MAX_COLUMNS:
            raise ValueError(
                f"timeout_offset is {timeout_offset}: the columns of a value with {columns} of them begin at "
                f"8, 16, ..., and it may have {_MAX_COLUMNS} at most"
            )
        if value_type is not None and not isinstance(value_type.fields[column - 1].type, LongType):
            raise SchemaMismatchError(
                f"the column at timeout_offset {timeout_offset} of a value is {value_type.fields[column - 1].name!r}, "
                "which is no long",
                remedy="Give the offset of a bigint column",
            )
    return Indexes(prefix=prefix, timeout_offset=timeout_offset)
