"""What a caller asks a checkpoint for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from hdfsstore.checkpoint.row_converter import Key
from hdfsstore.checkpoint.row_shape import AS_THEY_ARE, RowShape

JoinSide: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The rows that a caller asks a checkpoint for.

    Attributes:
        operator_id, store_name: the store; with a join side the name is DEFAULT_STORE.
        batch_id: a committed batch; None = the newest.
        join_side: "left" or "right" of a stream-stream join, or None.
        partitions: the partitions to read; None = all.
        key_schema, value_schema: replace those of the store.
        key: the only key whose row is wanted; None = all.
        near_key: the only key of a join's side whose rows are wanted, though others may come; None = all.
        state_var: a state variable of transformWithState.
        flatten_collections: whether elements of lists and entries of maps have rows of their own.
        read_registered_timers: reads the timers of transformWithState.
        shape: what becomes of the rows.
    """

    operator_id: int
    store_name: str
    batch_id: int | None = None
    join_side: JoinSide | None = None
    partitions: Sequence[int] | None = None
    key_schema: pa.Schema | None = None
    value_schema: pa.Schema | None = None
    key: Key | None = None
    near_key: Key | None = None
    state_var: str | None = None
    flatten_collections: bool = True
    read_registered_timers: bool = False
    shape: RowShape = AS_THEY_ARE

    @property
    def of_variable(self) -> bool:
        """Whether it is for a state variable or timers."""
        return self.state_var is not None or self.read_registered_timers
