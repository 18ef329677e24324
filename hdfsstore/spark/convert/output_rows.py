"""Gather the rows that a user's function returns, and convert many of them to one record batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from hdfsstore.spark.convert.rows_to_arrow import MisfitError, RowWriter


class OutputRows:
    """Gathers rows of the declared columns.

    Args:
        writer: of these columns.
        schema: Arrow's for them.
        max_rows: of a batch.
    """

    def __init__(self, writer: RowWriter, schema: pa.Schema, max_rows: int) -> None:
        self._writer = writer
        self._accept = writer.accept
        self._schema = schema
        self._max_rows = max_rows
        self._rows: list[tuple[Any, ...]] = []
        # Of each take that found rows: the key's index, and the number of rows gathered by then.
        self._keys: list[int] = []
        self._ends: list[int] = []

    @property
    def num_rows(self) -> int:
        """Rows that were taken since the last batch."""
        return len(self._rows)

    def iterate(self, result: Any) -> Iterator[Any]:
        """Iterates over what a call of the function returned: an iterable of rows, or None for no row. TypeError."""
        return iter(() if result is None else result)

    def take(self, index: int, results: Iterator[Any]) -> bool:
        """Takes the rows of a key. True: all are taken. False: call `batch`, and then `take` again.

        Raises:
            MisfitError: a row does not fit the declared columns.
        """
        rows = self._rows
        num_before = len(rows)
        rows += map(self._accept, islice(results, self._max_rows - num_before))
        num_rows = len(rows)
        if num_rows > num_before:
            self._keys.append(index)
            self._ends.append(num_rows)
        return num_rows < self._max_rows

    def batch(self, failed: Callable[[int, Exception], Exception]) -> pa.RecordBatch:
        """Converts the rows that were taken, and drops them.

        Args:
            failed: makes the error for a key, of the given index, that has a row which does not fit.

        Raises:
            SizeLimitError: a column takes 2 GiB or more.
        """
        try:
            batch = pa.RecordBatch.from_arrays(self._writer.arrays(self._rows), schema=self._schema)
        except MisfitError as error:
            raise failed(self._keys[bisect_right(self._ends, error.row or 0)], error) from error.__cause__
        self._rows.clear()
        self._keys.clear()
        self._ends.clear()
        return batch
