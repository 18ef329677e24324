"""Call the user's function key by key, for the engines that do so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError, StateStoreError, UserFunctionError
from hdfsstore.spark.convert.rows_to_arrow import MisfitError
from hdfsstore.spark.worker.group_state import KeyState
from hdfsstore.spark.worker.key_states import KeyStates

Key: TypeAlias = tuple[Any, ...]
UserFunction: TypeAlias = "Callable[[Key, Any, Any], Any]"


class Output(Protocol):
    """Gathers what the function returns for the keys, and converts many of its rows together."""

    @property
    def num_rows(self) -> int:
        """Rows that were taken since the last batch."""

    def iterate(self, result: Any) -> Iterator[Any]:
        """Iterates over what a call of the function returned, if that is no generator. PySparkTypeError, TypeError."""

    def take(self, index: int, results: Iterator[Any]) -> bool:
        """Takes the results of a key. True: all are taken. False: call `batch`, and then `take` again.

        Raises:
            MisfitError: a row does not fit the declared columns.
            PySparkTypeError, PySparkRuntimeError: a frame does not.
            BaseException: whatever the user's generator raises.
        """

    def batch(self, failed: Callable[[int, Exception], Exception]) -> pa.RecordBatch:
        """Converts the rows that were taken, and drops them.

        Args:
            failed: makes the error for a key, of the given index, whose results do not convert.
        """


class KeyCalls:
    """Calls the function, keeps the states that it sets, and yields its output.

    Args:
        method: the method of the user's query, for messages.
        func: the user's.
        states: of the task; they were read for the keys that the function is called with.
        output: gathers what the function returns.
        batch_id: for messages.
    """

    def __init__(self, method: str, func: UserFunction, states: KeyStates, output: Output, batch_id: int) -> None:
        self._method = method
        self._func = func
        self._states = states
        self._output = output
        self._batch_id = batch_id

    def __call__(
        self, keys: Iterable[Key], rows: Iterable[Any], states: Iterable[KeyState]
    ) -> Iterator[pa.RecordBatch]:
        """Calls the function with each key, its rows and its state, and writes the states.

        Raises:
            UserFunctionError: the function raised, or what it returned is not of the declared types.
            SchemaMismatchError: a row that it returned, or a state that it set, does not fit its schema.
        """
        func, take, keep, iterate = self._func, self._output.take, self._states.keep, self._output.iterate
        for index, (key, its_rows, state) in enumerate(zip(keys, rows, states, strict=True)):
            results: Iterator[Any] | None = None
            while True:
                try:
                    if results is None:
                        result = func(key, its_rows, state)
                        results = result if type(result) is GeneratorType else iterate(result)
                    is_done = take(index, results)
                except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
                    raise self._failed(index, error) from _cause(error)
                if is_done:
                    break
                # Outside of `try`: whoever reads the output may close this generator here.
                yield self._output.batch(self._failed)
            keep(index, state)
        self._states.write()
        if self._output.num_rows:
            yield self._output.batch(self._failed)

    def _failed(self, index: int, error: BaseException) -> StateStoreError:
        where = f"for the key {self._states.describe(index)} in batch {self._batch_id}"
        if isinstance(error, MisfitError):
            return SchemaMismatchError(
                f"the function of {self._method} gave a row {where} that does not fit: {error.message}",
                remedy="Give an iterable of rows with the columns of outputStructType",
            )
        return UserFunctionError(
            f"the function of {self._method} failed {where}: {self._states.shown.error(error)}",
            remedy="The state is as before the batch",
        )


def _cause(error: BaseException) -> BaseException | None:
    """The error that a user can act on: a MisfitError only wraps it."""
    return error.__cause__ if isinstance(error, MisfitError) else error
