"""Store any Python value as the state of a key: msgpack's bytes in one binary column.

Values of msgpack's types come back equal: None inside of others, bool, int of 64 bits, float, str, bytes, list, dict,
and datetime with a time zone, which comes back in UTC. A tuple comes back as a list, NumPy's scalars as Python's. Other
values are refused when they are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from hdfsstore._cext.packable import packable
from hdfsstore.checkpoint.packed_values import PACKED
from hdfsstore.errors import StateStoreError
from hdfsstore.spark.convert.rows_to_arrow import MisfitError, whole
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.worker.group_state import KeyState, KeyValue

VALUE_SCHEMA = StructType([StructField("value", BinaryType(), metadata=dict(PACKED))])


class ValueCodec:
    """A StateCodec of states without declared columns.

    Raises:
        StateStoreError: msgpack is not installed.
    """

    state_class: type[KeyState] = KeyValue
    width = 1
    is_plain = False
    remedy = (
        "Give state.update() None, bool, int of 64 bits, float, str, bytes, list, dict or datetime with a time zone, "
        "or declare the state's columns with stateStructType"
    )

    def __init__(self, shown: Shown) -> None:
        msgpack = load_msgpack()
        self._pack = msgpack.Packer(datetime=True).pack
        self._unpack = msgpack.unpackb
        self._shown = shown

    def decode(self, states: pa.StructArray) -> list[Any]:
        unpack = self._unpack
        return [
            None if packed is None else unpack(packed, strict_map_key=False, timestamp=3)
            for packed in states.flatten()[0].to_pylist()
        ]

    def accept(self, value: Any) -> tuple[bytes]:
        try:
            # Checked again, because the function may have changed the value after it set it.
            return (self._pack(packable(value)),)
        except (TypeError, ValueError, OverflowError) as error:
            given = f"{self._shown.value(value)} ({type(value).__name__})"
            raise MisfitError(f"{given}{self._shown.because(error)}") from error

    def encode(self, columns: Sequence[Sequence[Any]], is_there: Sequence[bool]) -> list[pa.Array[Any]]:  # noqa: ARG002
        return [whole(pa.array(columns[0], pa.binary()), "value")]


def load_msgpack() -> Any:
    """Imports msgpack. StateStoreError: it is not installed."""
    try:
        import msgpack
    except ImportError as error:
        raise StateStoreError(
            "a state without stateStructType is kept with msgpack, which is not installed",
            remedy="pip install 'hdfsstore[spark]', on the executors too, or declare the state's columns with "
            "stateStructType",
        ) from error
    return msgpack
