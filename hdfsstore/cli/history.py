"""`hdfsstore history`: shows the value of a key after each batch that the checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

from hdfsstore import (
    Batch,
    BatchNotAvailableError,
    Checkpoint,
    MissingFileError,
    Operator,
    StateStoreError,
    Store,
    UnsupportedTypeError,
)
from hdfsstore.cli import options
from hdfsstore.cli.keys import KeyPattern, parse_key
from hdfsstore.cli.output import choose_format, note, numbered, write_rows
from hdfsstore.cli.progress import counted
from hdfsstore.cli.values import json_texts
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.one_key import has_one_form

# Operators that partition by the hash of the whole key. Session windows are partitioned by the key without the session,
# and the buffered rows of a join by the join's key.
_BY_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
)


def history(
    path: options.Location,
    key: Annotated[
        str,
        typer.Option(
            help="""The key's fields as JSON: '{"user": 42}'. With fewer fields, all keys that match.""",
            show_default=False,
        ),
    ],
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    start: Annotated[
        int | None, typer.Option("--from", help="Begin with this batch.", min=0, show_default=False)
    ] = None,
    end: Annotated[int | None, typer.Option("--to", help="End with this batch.", min=0, show_default=False)] = None,
    changes_only: Annotated[bool, typer.Option(help="Leave out batches that did not change the value.")] = False,
    limit: Annotated[
        int, typer.Option(help="Show at most this many rows; 0 means all.", min=0, show_default=False)
    ] = 0,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Show the value of a key after each batch that is kept."""
    checkpoint = options.open_checkpoint(path, option_file)
    found = options.find_store(checkpoint, operator, store)
    try:
        pattern = parse_key(key, unique_names(options.key_schema(found[1])))
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--key") from None
    committed = [batch for batch in checkpoint.batches if batch.committed]
    story = _Story(checkpoint, *found, pattern, committed)
    times = {batch.batch_id: batch.timestamp_ms for batch in committed}
    first, last = start or 0, max(times, default=0) if end is None else end
    times = {batch_id: at for batch_id, at in times.items() if first <= batch_id <= last}
    if not times:
        raise typer.BadParameter(f"the checkpoint keeps no batch from {first} to {last}")
    entries = [entry for batch_id in counted(times, "Batches", len(times)) for entry in story.read(batch_id)]
    if story.unavailable:
        newest = max(story.unavailable)
        if len(story.unavailable) == len(times):
            raise story.unavailable[newest]
        why = f"of batch {newest}: {story.unavailable[newest]}"
        note(f"The state of batch {_ranges(list(story.unavailable))} cannot be read; {why}")
    if not entries:
        note("None of the batches that are kept has such a key.")
        return
    if changes_only:
        entries = [entry for entry in entries if entry.change]
    entries.sort(key=lambda entry: (entry.key_text, entry.batch_id))
    write_rows(*numbered(*_as_rows(entries, times)), choose_format(None, json, None), limit=limit)


@dataclass(frozen=True)
class _Entry:
    """A key after a batch.

    `change` is "added", "changed", "removed" (`value` is null), or "" for none. In the first batch kept it is "" too,
    because the state before is unknown.
    """

    batch_id: int
    change: str
    key_text: str
    key: pa.Array
    value: pa.Array


_Rows = dict[str, tuple[pa.Array, pa.Array, str]]  # Key as text -> key, value, value as text.


class _Story:
    """Follows keys from batch to batch: reads the whole state of the first batch, then the changes of each."""

    def __init__(
        self, checkpoint: Checkpoint, operator: Operator, store: Store, pattern: KeyPattern, batches: Sequence[Batch]
    ) -> None:
        self.unavailable: dict[int, StateStoreError] = {}  # why, for the batches before the first that can be read
        self._checkpoint = checkpoint
        self._operator_id = operator.operator_id
        self._store_name = store.name
        self._pattern = pattern
        self._numbers = {batch.batch_id: batch.num_partitions for batch in batches}
        self._last_of_number = {number: batch_id for batch_id, number in self._numbers.items()}
        self._partitions: dict[int | None, list[int] | None] = {}  # by the number of partitions
        self._key = pattern.row if pattern.row is not None and has_one_form(pattern.row.type) else None
        self._rows: _Rows | None = None

    def read(self, batch_id: int) -> list[_Entry]:
        """The keys after this batch. Call it for the batches in their order."""
        if self._rows is None:
            try:
                self._rows = self._state(batch_id)
            except (BatchNotAvailableError, MissingFileError) as error:
                self.unavailable[batch_id] = error
                return []
            return list(self._entries(batch_id, {} if batch_id == 0 else self._rows, self._rows))
        before = dict(self._rows)
        of = (self._operator_id, self._store_name)
        try:
            changes = self._checkpoint.read_changes(batch_id, batch_id, *of, self._partitions_at(batch_id))
        except BatchNotAvailableError:  # Spark writes no changelog of a RocksDB unless told to
            self._rows = self._state(batch_id)
        else:
            for text, key, value in self._matches(changes.to_batches()):
                if value.null_count:
                    self._rows.pop(text, None)
                else:
                    self._rows[text] = (key, value, json_texts(value)[0])
        return list(self._entries(batch_id, before, self._rows))

    def _entries(self, batch_id: int, before: _Rows, after: _Rows) -> Iterator[_Entry]:
        for text, (key, value, value_text) in after.items():
            change = "added" if text not in before else "" if before[text][2] == value_text else "changed"
            yield _Entry(batch_id, change, text, key, value)
        for text in before.keys() - after.keys():
            key, value, _ = before[text]
            yield _Entry(batch_id, "removed", text, key, pa.nulls(1, value.type))

    def _state(self, batch_id: int) -> _Rows:
        of = (self._operator_id, self._store_name, batch_id)
        partitions = self._partitions_at(batch_id)
        with self._checkpoint.open_state(*of, partitions=partitions, key=self._key) as state:
            return {text: (key, value, json_texts(value)[0]) for text, key, value in self._matches(state)}

    def _partitions_at(self, batch_id: int) -> list[int] | None:
        number = self._numbers[batch_id]
        if number not in self._partitions:
            last = self._last_of_number[number]
            operator = self._checkpoint.operator(self._operator_id, last)
            store = operator.store(self._store_name)
            self._partitions[number] = partitions_of(self._checkpoint, operator, store, self._pattern, last)
        return self._partitions[number]

    def _matches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Array, pa.Array]]:
        """The key as text, the key, and the value of each row that the pattern selects."""
        for batch in batches:
            named = with_names(batch, unique_names(batch.schema))
            kept = batch.filter(self._pattern.mask(named))
            for row, text in enumerate(json_texts(kept["key"])):
                yield text, kept["key"].slice(row, 1), kept["value"].slice(row, 1)


def partitions_of(
    checkpoint: Checkpoint, operator: Operator, store: Store, pattern: KeyPattern, batch_id: int | None = None
) -> list[int] | None:
    """The partition of the key at a batch; None if all partitions have to be searched.

    The hash is checked against some keys of the partition, because Spark before 3.3 could keep an aggregation in the
    partitioning of its input.
    """
    if operator.name not in _BY_WHOLE_KEY or store.name != "default" or pattern.row is None:
        return None
    if store.key_type is None or not store.num_partitions:
        return None
    hashed = partial(partition_ids, struct_type=store.key_type, num_partitions=store.num_partitions)
    try:
        partition = hashed(pattern.row)[0].as_py()
        if partition not in store.partition_ids:
            return None
        with checkpoint.open_state(operator.operator_id, store.name, batch_id, partitions=[partition]) as state:
            keys = next((batch["key"] for batch in state if batch.num_rows), None)
        fits = keys is not None and hashed(keys).unique().to_pylist() == [partition]
    except UnsupportedTypeError:  # Spark's hash does not take such a key, or its collation needs ICU.
        return None
    return [partition] if fits else None


def _as_rows(entries: list[_Entry], times: dict[int, int]) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    columns = {
        "batch_id": pa.array([entry.batch_id for entry in entries], pa.int64()),
        "batch_time": pa.array([times[entry.batch_id] or None for entry in entries], pa.timestamp("ms", "UTC")),
        "change": pa.array([entry.change for entry in entries]),
        "key": pa.concat_arrays([entry.key for entry in entries]),
        "value": pa.concat_arrays([entry.value for entry in entries]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.schema, [batch]


def _ranges(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
