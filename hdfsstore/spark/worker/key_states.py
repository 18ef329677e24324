"""Read the states of some keys together, give them to the user's function one by one, and write them together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from hdfsstore._cext.group_state import Notes
from hdfsstore.errors import SchemaMismatchError
from hdfsstore.spark.convert.arrow_to_rows import RowReader
from hdfsstore.spark.convert.rows_to_arrow import MisfitError, RowWriter
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.worker.group_state import KeyState, key_state_class
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.state.rows import BinaryRows


class StateCodec(Protocol):
    """Converts states between Arrow and the values that the user's function sees.

    Attributes:
        state_class: of the states.
        width: how many columns a state has.
        is_plain: whether `accept` returns a tuple of that many values unchanged.
        remedy: of the error for a value that does not fit.
    """

    state_class: type[KeyState]
    width: int
    is_plain: bool
    remedy: str

    def decode(self, states: pa.StructArray) -> Iterable[Any]:
        """The values of the states; None where there is none."""

    def accept(self, value: Any) -> tuple[Any, ...]:
        """The columns of a value that the function has set; they no longer change. MisfitError."""

    def encode(self, columns: Sequence[Sequence[Any]], is_there: Sequence[bool]) -> list[pa.Array[Any]]:
        """The columns of accepted values, None where there is no state. MisfitError."""


class ColumnsCodec:
    """A StateCodec of states with declared columns, which are tuples to the function."""

    state_class: type[KeyState] = KeyState

    def __init__(self, schema: s.StructType, arrow_type: pa.StructType, shown: Shown) -> None:
        self._reader = RowReader(schema)
        self._writer = RowWriter(schema, list(arrow_type), shown)
        self.width, self.is_plain = len(schema), self._writer.is_plain
        self.remedy = f"Give state.update() the columns that were declared for the state: {', '.join(schema.names)}"
        self.accept = self._writer.accept
        self.encode = self._writer.columns

    def decode(self, states: pa.StructArray) -> Iterable[Any]:
        if states.null_count == len(states):
            return itertools.repeat(None, len(states))
        values = self._reader.tuples(states)
        if not states.null_count:
            return values
        valid = states.is_valid().to_numpy(zero_copy_only=False).tolist()
        return (value if is_there else None for value, is_there in zip(values, valid, strict=True))


class KeyStates:
    """Reads and writes the states of a partition's keys, a chunk of them at a time. For one thread.

    Args:
        partition: of the task.
        codec: of its states.

    Attributes:
        shown: how messages show keys and values.
    """

    def __init__(self, partition: PartitionState, codec: StateCodec) -> None:
        self._partition = partition
        self.shown = partition.shown
        self._codec = codec
        self._class_of_data = self._class(has_timed_out=False)
        self._class_of_expired = self._class(has_timed_out=True)
        self._key_rows: BinaryRows = pa.array([], pa.binary())
        self._notes = Notes(codec.width, self._accept, codec.is_plain)
        # keep(index, state) notes what the function did to the state of a key. It is called when the function has
        # ended; index is the key's number among those that were read.
        self.keep = self._notes.keep

    def read(self, key_rows: BinaryRows, states: pa.StructArray) -> Iterator[KeyState]:
        """The states of keys that have rows, as PartitionState.read gives them.

        Each is made when it is asked for: objects that live long make Python's garbage collector run more.
        """
        self._key_rows = key_rows
        return map(self._class_of_data, self._decoded(states))

    def read_expired(self, key_rows: BinaryRows, states: pa.StructArray) -> Iterator[KeyState]:
        """The states of expired keys, as PartitionState.expired gives them."""
        self._key_rows = key_rows
        return map(self._class_of_expired, self._decoded(states))

    def write(self) -> None:
        """Writes what was noted. SchemaMismatchError: a state does not fit its schema."""
        notes = self._notes
        if notes.removed:
            self._partition.remove(self._taken(notes.removed))
        if notes.put:
            try:
                columns = self._codec.encode(notes.columns, notes.is_there)
            except MisfitError as error:
                raise self._misfit(error, notes.put[error.row or 0]) from error.__cause__
            states = _structs(self._partition.state_type, columns, np.array(notes.is_there))
            timeouts = pa.array(np.array(notes.timeouts).astype(np.int64))  # milliseconds may have a fraction
            self._partition.put(self._taken(notes.put), states, timeouts)
        notes.clear()

    def describe(self, index: int) -> str:
        """A key among those that were read, for messages."""
        return self.shown.key(self._partition.decode_keys(self._key_rows.slice(index, 1)))

    def _decoded(self, states: pa.StructArray) -> Iterable[Any]:
        try:
            return self._codec.decode(states)
        except Exception as error:
            for index in range(len(states)):
                try:
                    list(self._codec.decode(states.slice(index, 1)))
                except Exception as of_key:
                    raise SchemaMismatchError(
                        f"the state of the key {self.describe(index)}, from before batch {self._partition.batch_id}, "
                        f"cannot be read: {self.shown.error(of_key)}",
                        remedy="Set the query back to a batch from before it was written (delete Spark's offsets and "
                        "commits from there on)",
                    ) from of_key
            raise SchemaMismatchError(
                f"the states before batch {self._partition.batch_id} cannot be read: {self.shown.error(error)}"
            ) from error

    def _taken(self, indices: list[int]) -> BinaryRows:
        """Some of the keys that were read, by ascending numbers; if all, the same array, which a store recognizes."""
        return self._key_rows if len(indices) == len(self._key_rows) else self._key_rows.take(_numbers(indices))

    def _accept(self, index: int, value: Any) -> tuple[Any, ...]:
        try:
            return self._codec.accept(value)
        except MisfitError as error:
            raise self._misfit(error, index) from error.__cause__

    def _class(self, *, has_timed_out: bool) -> type[KeyState]:
        state = self._partition
        return key_state_class(
            state.timeout_conf,
            state.processing_time_ms,
            state.watermark_ms,
            has_timed_out=has_timed_out,
            base=self._codec.state_class,
        )

    def _misfit(self, error: MisfitError, index: int) -> SchemaMismatchError:
        return SchemaMismatchError(
            f"the state of the key {self.describe(index)} in batch {self._partition.batch_id} cannot be kept: "
            f"{error.message}",
            remedy=self._codec.remedy,
        )


def _numbers(indices: list[int]) -> npt.NDArray[np.int32]:
    return np.array(indices, np.int32)


def _structs(
    arrow_type: pa.StructType, columns: list[pa.Array[Any]], is_there: npt.NDArray[np.bool_]
) -> pa.StructArray:
    """Makes structs. Where there is no state, the struct and all its columns are null, also those not nullable."""
    validity = None if is_there.all() else pa.array(is_there).buffers()[1]
    structs = pa.Array.from_buffers(arrow_type, len(is_there), [validity], children=columns)
    return cast(pa.StructArray, structs)
