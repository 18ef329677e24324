"""applyInPandasWithState: PySpark's own method, with the user's function unchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import StructType

from hdfsstore.errors import UserFunctionError
from hdfsstore.spark.convert.frames import Frames, cutter
from hdfsstore.spark.convert.output_frames import OutputFrames
from hdfsstore.spark.convert.pandas_types import PandasConf, ToPandas
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.group_state import KeyState
from hdfsstore.spark.worker.key_groups import KeyGroups, group
from hdfsstore.spark.worker.key_states import ColumnsCodec, KeyStates
from hdfsstore.spark.worker.partition_state import PartitionState

Key: TypeAlias = tuple[Any, ...]
UserFunction: TypeAlias = "Callable[[Key, Iterable[pd.DataFrame], KeyState], Iterable[pd.DataFrame]]"
_FramesOfKeys: TypeAlias = "Iterable[Iterable[pd.DataFrame]]"

# Rows of as many keys as they have that are converted at a time, and of the output in a batch of it.
_ROWS = 10_000
# Expired keys whose states are held at a time.
_EXPIRED_KEYS = 10_000


class PandasEngine:
    """Runs applyInPandasWithState.

    Args:
        func: the user's.
        output: the schema of what it gives.
        output_arrow: Arrow's for it.
        state: the schema of the state.
        conf: of the session.
    """

    def __init__(
        self, func: UserFunction, output: StructType, output_arrow: pa.Schema, state: StructType, conf: PandasConf
    ) -> None:
        self._func = func
        self._output = output
        self._output_arrow = output_arrow
        self._state = state
        self._conf = conf

    def data(self, calls: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        run = self._run(state)
        for call in calls:
            yield from run.call(call)

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        run = self._run(state)
        for key_rows, states in state.expired(_EXPIRED_KEYS):
            yield from run.expired(key_rows, states)

    def _run(self, state: PartitionState) -> _Run:
        states = KeyStates(state, ColumnsCodec(self._state, state.state_type, state.shown))
        output = OutputFrames(self._output, self._output_arrow, self._conf)
        return _Run(self._func, state, states, ToPandas(self._conf), output, self._conf.max_records)


class _Run:
    """The calls of the function in one task."""

    def __init__(
        self,
        func: UserFunction,
        partition: PartitionState,
        states: KeyStates,
        to_pandas: ToPandas,
        output: OutputFrames,
        max_records: int,
    ) -> None:
        self._func = func
        self._partition = partition
        self._batch_id = partition.batch_id
        self._states = states
        self._to_pandas = to_pandas
        self._output = output
        self._max_records = max_records

    def call(self, call: KeyedRows) -> Iterator[pa.RecordBatch]:
        key_rows = self._partition.encode_keys(call.keys)
        groups = group(key_rows, is_sorted=call.is_sorted)
        key_rows = key_rows.take(groups.first)
        keys = call.keys.take(groups.first)
        # Rows are taken out of one chunk many times faster than out of many.
        rows = call.rows if groups.order is None else call.rows.combine_chunks()
        for begin, end in groups.chunks(_ROWS):
            first = begin
            for part, found in self._partition.read(key_rows.slice(begin, end - begin)):
                states = self._states.read(part, found)
                tuples = self._to_pandas.tuples(keys.slice(first, len(part)))
                yield from self._keys(tuples, self._frames(rows, groups, first, first + len(part)), states)
                first += len(part)

    def expired(self, key_rows: Any, states: pa.StructArray) -> Iterator[pa.RecordBatch]:
        keys = self._to_pandas.tuples(self._partition.decode_keys(key_rows))
        cut = cutter(pd.DataFrame(columns=pd.Index(self._partition.no_rows.column_names, dtype=object)))
        # Lists with a frame without rows, as PySpark gives.
        frames = (cut([0], [0]) for _ in range(len(key_rows)))
        yield from self._keys(keys, frames, self._states.read_expired(key_rows, states))

    def _frames(self, rows: pa.Table, groups: KeyGroups, first: int, end: int) -> _FramesOfKeys:
        """The frames of those keys: one each, or several where a key has more rows than a frame may have."""
        starts = groups.starts[first : end + 1]
        if (starts[1:] - starts[:-1]).max() <= self._max_records:
            return Frames(groups.rows(rows, starts[0], starts[-1]), starts - starts[0], self._to_pandas)

        def parts(start: int, end: int) -> Iterator[pd.DataFrame]:
            for begin in range(start, end, self._max_records):
                yield self._to_pandas.frame(groups.rows(rows, begin, min(begin + self._max_records, end)))

        return itertools.starmap(parts, itertools.pairwise(starts.tolist()))

    def _keys(self, keys: Iterable[Key], frames: _FramesOfKeys, states: Iterable[KeyState]) -> Iterator[pa.RecordBatch]:
        """Calls the function for each key, one after the other, and writes their states."""
        func, output, add, keep = self._func, self._output, self._output.add, self._states.keep
        for i, (key, its_frames, state) in enumerate(zip(keys, frames, states, strict=True)):
            results: Iterator[Any] | None = None
            is_done = False
            while not is_done:
                try:
                    if results is None:
                        result = func(key, its_frames, state)
                        results = result if type(result) is GeneratorType else _checked(result)
                    is_done = True
                    for frame in results:
                        add(i, frame)
                        if output.num_rows >= _ROWS:
                            is_done = False
                            break
                except BaseException as error:
                    raise self._failed(i, error) from error
                # Outside of it, as this is where whoever reads the output may end this generator.
                if not is_done:
                    yield output.batch(self._failed)
            keep(i, state)
        self._states.write()
        if output.num_rows:
            yield output.batch(self._failed)

    def _failed(self, index: int, error: BaseException) -> UserFunctionError:
        return UserFunctionError(
            f"the function of applyInPandasWithState failed for the key {self._states.describe(index)} in batch "
            f"{self._batch_id}: {self._states.shown.error(error)}",
            remedy="The state is as before the batch",
        )


def _checked(result: Any) -> Iterator[Any]:
    """What the function gave, which has to be iterable and no frame; PySparkTypeError."""
    expected = "iterable of pandas.DataFrame"
    if not isinstance(result, pd.DataFrame):
        try:
            return iter(result)
        except TypeError:
            expected = "iterable"
    raise PySparkTypeError(
        errorClass="UDF_RETURN_TYPE",
        messageParameters={"expected": expected, "actual": type(result).__name__},
    )
