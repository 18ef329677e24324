"""The raw rows of a checkpoint, for comparing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import RecordChunk

Rows = Counter[tuple[bytes, bytes]]


def rows_of_partition(state: OperatorState, store: Store, partition_id: int) -> Rows:
    rows: Rows = Counter()
    for chunk in state.files(store, partition_id).stream(state.version, RecordChunk.copy):
        keys, values = (memoryview(spans).cast("B").cast("i") for spans in (chunk.keys, chunk.values))
        for i in range(0, len(keys), 2):
            key, value = (bytes(chunk.data[s[i] : s[i] + s[i + 1]]) for s in (keys, values))
            rows[key, value] += 1
    return rows


def raw_rows(checkpoint: Path, batch_id: int | None = None) -> dict[tuple[int, str, int], Rows]:
    """Keys and values by operator, store and partition; partitions without rows are left out."""
    opened = Checkpoint(checkpoint)
    found = {}
    for operator in opened.operators:
        state = opened.operator_state(operator.operator_id, batch_id)
        for store in state.operator.stores:
            for partition_id in state.partitions(store, store.key_type):
                found[operator.operator_id, store.name, partition_id] = rows_of_partition(state, store, partition_id)
    return {where: rows for where, rows in found.items() if rows}
