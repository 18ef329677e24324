"""Calls of mapWithState's function: one key after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState

from hdfsstore.errors import SchemaMismatchError, UserFunctionError
from hdfsstore.spark.convert.rows_to_arrow import MisfitError, RowWriter
from hdfsstore.spark.worker.group_state import KeyState
from hdfsstore.spark.worker.key_states import KeyStates

UserFunction: TypeAlias = "Callable[[tuple[Any, ...], Iterator[Row], GroupState], Iterable[Any] | None]"

# Rows of the input, and of the output, that are Python objects at a time. Fewer cost more in Arrow; more get old before
# they are freed, and make Python's garbage collector look through the whole process.
PART_ROWS = 1_000


class KeyCalls:
    """Calls the function, keeps what it does to the states, and gathers what it gives.

    Args:
        func: the user's.
        states: of the task; the keys that they have read are those that are called with.
        writer: of the output.
        schema: of the output.
        batch_id: for messages.
    """

    def __init__(
        self, func: UserFunction, states: KeyStates, writer: RowWriter, schema: pa.Schema, batch_id: int
    ) -> None:
        self._func = func
        self._states = states
        self._writer = writer
        self._schema = schema
        self._batch_id = batch_id
        # Rows that are not handed out yet; the keys that they are of begin with the first, and end at the ends.
        self._rows: list[tuple[Any, ...]] = []
        self._ends: list[int] = []
        self._first_key = 0

    def __call__(
        self, keys: Iterable[tuple[Any, ...]], states: Iterable[KeyState], rows: Iterable[Iterator[Row]]
    ) -> Iterator[pa.RecordBatch]:
        """Calls the function with each key, its rows and its state, and writes the states; yields the output.

        Raises:
            UserFunctionError: the function has raised.
            SchemaMismatchError: a row or a state that it gave does not fit.
        """
        func, accept, keep = self._func, self._writer.accept, self._states.keep
        output, ends = self._rows, self._ends
        self._first_key = 0
        for index, (key, state, its_rows) in enumerate(zip(keys, states, rows, strict=True)):
            results: Iterator[Any] | None = None
            while True:
                try:
                    if results is None:
                        result = func(key, its_rows, state)
                        results = iter(() if result is None else result)
                    given = list(map(accept, islice(results, PART_ROWS)))
                except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
                    self._fail(error, index)
                output += given
                if len(given) < PART_ROWS:
                    break
                yield self._batch()
            ends.append(len(output))
            keep(index, state)
            if len(output) >= PART_ROWS:
                yield self._batch()
        self._states.write()
        if output:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        """The rows that are not handed out yet."""
        try:
            batch = pa.RecordBatch.from_arrays(self._writer.arrays(self._rows), schema=self._schema)
        except MisfitError as error:
            self._fail(error, self._first_key + bisect_right(self._ends, error.row or 0))
        self._first_key += len(self._ends)
        self._rows.clear()
        self._ends.clear()
        return batch

    def _fail(self, error: BaseException, index: int) -> NoReturn:
        key = self._states.describe(index)
        if isinstance(error, MisfitError):
            raise SchemaMismatchError(
                f"the function of mapWithState gave a row for the key {key} in batch {self._batch_id} that does not "
                f"fit: {error.message}",
                remedy="Give an iterable of rows with the columns of outputStructType",
            ) from error.__cause__
        raise UserFunctionError(
            f"the function of mapWithState failed for the key {key} in batch {self._batch_id}: "
            f"{self._states.shown.error(error)}",
            remedy="The state is as before the batch",
        ) from error
