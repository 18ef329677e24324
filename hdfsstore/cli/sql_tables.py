"""Makes the stores of a checkpoint tables of a DuckDB connection, those that a query names.

A store with column families is one table for each state variable, for timers, or for each side of a join.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pyarrow as pa

from hdfsstore import Checkpoint, StateStoreError
from hdfsstore.checkpoint.packed_values import has_msgpack
from hdfsstore.checkpoint.parts import parts_of_operator
from hdfsstore.cli.output import numbered
from hdfsstore.cli.progress import counted

_AT_BATCH = re.compile(r"(\w+)_at_(\d+)")


def table_name(operator_id: int, name: str) -> str:
    """The table of a store, variable or side of a join: state, state_1_default, state_0_left_keytonumvalues."""
    if (operator_id, name) == (0, "default"):
        return "state"
    return f"state_{operator_id}_{re.sub(r'[^0-9a-z]+', '_', name.lower())}"


class Tables:
    """The tables of a connection: each store after a batch, and as <table>_at_<batch> after any batch that is kept.

    Args:
        connection: DuckDB's.
        batch_id: the batch of the tables without one in their names; None: the newest that is committed.
    """

    def __init__(self, connection: Any, checkpoint: Checkpoint, batch_id: int | None) -> None:
        self._connection = connection
        self._checkpoint = checkpoint
        self._batch_id = batch_id
        self._read: set[str] = set()
        self.stores: dict[str, dict[str, Any]] = {}
        for operator in checkpoint.operators:
            for part in parts_of_operator(operator):
                table = name = table_name(operator.operator_id, part.name)
                for number in count(2):
                    if table not in self.stores:
                        break
                    table = f"{name}_{number}"  # names that differ in upper and lower case alone
                self.stores[table] = {"operator_id": operator.operator_id, **part.arguments}

    @property
    def described(self) -> str:
        """What tables there are, as a sentence."""
        if not self.stores:
            return "This checkpoint has no state."
        first = next(iter(self.stores))
        return f"The tables are {', '.join(self.stores)}; {first}_at_3 is the one after batch 3."

    def prepare(self, query: str) -> None:
        """Reads the tables that a query names. Of one that names none, such as `show tables`, it lists all."""
        named = {name.lower() for name in self._connection.get_table_names(query)}
        found = {name: place for name in sorted(named - self._read) if (place := self._place_of(name)) is not None}
        for name in counted(found, "Reading tables", len(found)):
            state = self._checkpoint.read_state(**found[name], unique_names=False, decode_values=has_msgpack())
            schema, batches = numbered(state.schema, state.to_batches())
            self._connection.register(name, pa.Table.from_batches(batches, schema))
            self._read.add(name)
        if not named:
            self._list()

    def _place_of(self, name: str) -> dict[str, Any] | None:
        """The arguments of read_state that give a table; None: it is not one of ours."""
        if name in self.stores:
            return {**self.stores[name], "batch_id": self._newest()}
        if (match := _AT_BATCH.fullmatch(name)) and match[1] in self.stores:
            return {**self.stores[match[1]], "batch_id": int(match[2])}
        return None

    def _newest(self) -> int:
        """The same batch for all tables of the connection."""
        if self._batch_id is None:
            self._batch_id = self._checkpoint.latest_batch_id
        return self._batch_id

    def _list(self) -> None:
        """Registers the tables that have not been read, without rows."""
        batches = [batch.batch_id for batch in self._checkpoint.batches if batch.committed]
        for table, place in self.stores.items():
            try:
                with self._checkpoint.open_state(
                    **place, batch_id=self._newest(), decode_values=has_msgpack()
                ) as state:
                    empty = state.schema.empty_table()
            except StateStoreError:
                continue  # a query that names it gets the reason
            for name in (table, *(f"{table}_at_{batch_id}" for batch_id in batches)):
                if name not in self._read:
                    self._connection.register(name, empty)
