"""Run applyInPandasWithState: PySpark's own method, with the user's function unchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from hdfsstore.spark.convert.frames import Frames, cutter
from hdfsstore.spark.convert.output_frames import OutputFrames
from hdfsstore.spark.convert.pandas_types import PandasConf, ToPandas
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.group_state import KeyState
from hdfsstore.spark.worker.key_calls import Key, KeyCalls
from hdfsstore.spark.worker.key_groups import KeyGroups, group
from hdfsstore.spark.worker.key_states import ColumnsCodec, KeyStates
from hdfsstore.spark.worker.partition_state import PartitionState

UserFunction: TypeAlias = "Callable[[Key, Iterable[pd.DataFrame], KeyState], Iterable[pd.DataFrame]]"
_FramesOfKeys: TypeAlias = "Iterable[Iterable[pd.DataFrame]]"

# Rows that are converted at a time; a key with more rows is converted by itself.
_CHUNK_ROWS = 10_000
# Expired keys whose states are read at a time.
_EXPIRED_KEYS = 10_000


class PandasEngine:
    """Runs applyInPandasWithState.

    Args:
        func: the user's.
        output: the schema of what it returns.
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

    def data(self, keyed_rows: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, call_keys = self._start(state)
        to_pandas = ToPandas(self._conf)
        for keyed in keyed_rows:
            key_rows = state.encode_keys(keyed.keys)
            groups = group(key_rows, is_sorted=keyed.is_sorted)
            key_rows = key_rows.take(groups.first)
            keys = keyed.keys.take(groups.first)
            # Taking rows out of one chunk is many times faster than out of many.
            rows = keyed.rows if groups.order is None else keyed.rows.combine_chunks()
            for begin, end in groups.chunks(_CHUNK_ROWS):
                first = begin
                for part, found in state.read(key_rows.slice(begin, end - begin)):
                    last = first + len(part)
                    tuples = to_pandas.tuples(keys.slice(first, len(part)))
                    frames = _frames(rows, groups, first, last, to_pandas, self._conf.max_records)
                    yield from call_keys(tuples, frames, states.read(part, found))
                    first = last

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, call_keys = self._start(state)
        to_pandas = ToPandas(self._conf)
        for key_rows, found in state.expired(_EXPIRED_KEYS):
            keys = to_pandas.tuples(state.decode_keys(key_rows))
            cut = cutter(pd.DataFrame(columns=pd.Index(state.no_rows.column_names, dtype=object)))
            # PySpark too gives a frame without rows.
            frames = (cut([0], [0]) for _ in range(len(key_rows)))
            yield from call_keys(keys, frames, states.read_expired(key_rows, found))

    def _start(self, state: PartitionState) -> tuple[KeyStates, KeyCalls]:
        states = KeyStates(state, ColumnsCodec(self._state, state.state_type, state.shown))
        output = OutputFrames(self._output, self._output_arrow, self._conf)
        return states, KeyCalls("applyInPandasWithState", self._func, states, output, state.batch_id)


def _frames(
    rows: pa.Table, groups: KeyGroups, first: int, last: int, to_pandas: ToPandas, max_records: int
) -> _FramesOfKeys:
    """The frames of the keys [first, last): one each, or several for a key with more than max_records rows."""
    starts = groups.starts[first : last + 1]
    if (starts[1:] - starts[:-1]).max() <= max_records:
        return Frames(groups.rows(rows, starts[0], starts[-1]), starts - starts[0], to_pandas)

    def parts(start: int, end: int) -> Iterator[pd.DataFrame]:
        for begin in range(start, end, max_records):
            yield to_pandas.frame(groups.rows(rows, begin, min(begin + max_records, end)))

    return itertools.starmap(parts, itertools.pairwise(starts.tolist()))
