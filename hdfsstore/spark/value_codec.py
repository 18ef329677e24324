"""States that are any value of Python: msgpack's bytes in one binary column.

What msgpack has comes back as it was: None inside of others, bool, int of 64 bits, float, str, bytes, list, dict, and
datetime with a time zone, which comes back in UTC. A tuple comes back as a list, NumPy's scalars as Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.group_state import KeyState, KeyValue, plain_value
from hdfsstore.spark.row_columns import MisfitError

VALUE_SCHEMA = StructType([StructField("value", BinaryType())])


class ValueCodec:
    """A StateCodec of states without declared columns.

    Raises:
        StateStoreError: msgpack is not installed.
    """

    state_class: type[KeyState] = KeyValue
    width = 1
    is_plain = False

    def __init__(self) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise StateStoreError(
                "a state without stateStructType is kept with msgpack, which is not installed",
                remedy="pip install 'hdfsstore[spark]', on the executors too, or declare the state's columns with "
                "stateStructType",
            ) from error
        self._pack: Callable[[Any], bytes] = msgpack.Packer(default=_plain, datetime=True).pack
        self._unpack: Callable[..., Any] = msgpack.unpackb

    def decode(self, states: pa.StructArray) -> list[Any]:
        unpack = self._unpack
        return [
            None if packed is None else unpack(packed, strict_map_key=False, timestamp=3)
            for packed in states.flatten()[0].to_pylist()
        ]

    def accept(self, value: Any) -> tuple[bytes]:
        try:
            return (self._pack(value),)
        except (TypeError, ValueError, OverflowError) as error:
            raise MisfitError(f"msgpack cannot keep {value!r}: {error}") from error

    def encode(self, columns: Sequence[Sequence[Any]], is_there: Sequence[bool]) -> list[pa.Array[Any]]:  # noqa: ARG002
        return [pa.array(columns[0], pa.binary())]


def _plain(value: Any) -> Any:
    """What is packed for a value that msgpack does not know; TypeError."""
    plain = plain_value(value)
    if type(plain) is type(value):
        raise TypeError(f"a value of type {type(value).__name__}")
    return plain
