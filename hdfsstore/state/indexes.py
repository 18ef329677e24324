"""What the images of a store are indexed by, besides the key."""

from __future__ import annotations

from typing import TypedDict

from hdfsstore._cext.versioned_map import PrefixPlan
from hdfsstore.codecs.types import LongType, StructType
from hdfsstore.errors import SchemaMismatchError
from hdfsstore.state.rows import prefix_plan

# A row begins with a bit for each column, in words of 8 bytes; then each column has 8 bytes.
_WORD = 8
_MAX_COLUMNS = 64


class Indexes(TypedDict):
    """Arguments that all makers of images take.

    Attributes:
        prefix: what prefix scans go by.
        timeout_offset: of the long in a value that `expired` goes by.
    """

    prefix: PrefixPlan | None
    timeout_offset: int | None


def no_indexes() -> Indexes:
    return Indexes(prefix=None, timeout_offset=None)


def indexes_of(
    key_type: StructType | None, value_type: StructType | None, num_cols_prefix_key: int, timeout_offset: int | None
) -> Indexes:
    """By the arguments of open_provider.

    Raises:
        ValueError: there is no column at the offset, or not that many columns in the key.
        SchemaMismatchError: the value schema has another type there than a long.
    """
    prefix = None if key_type is None or not num_cols_prefix_key else prefix_plan(key_type, num_cols_prefix_key)
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
