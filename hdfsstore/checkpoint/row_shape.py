"""What a caller wants of the rows of a store: some columns, rows that meet a condition, other names, flat columns.

Columns and conditions go by the names of `unique_names`: of two fields `sum` the second one is `value.sum_2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint.packed_values import has_packed, unpacked, unpacked_schema
from hdfsstore.conditions.columns import add_field, flat_columns, flat_schema, narrowed, narrowed_schema, wanted_fields
from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.one_key import key_of_condition
from hdfsstore.conditions.where import equal_values, fields_of, parse_condition

# A condition in the language of `--where`, or Arrow's on the columns.
Where: TypeAlias = "str | pc.Expression"


@dataclass(frozen=True, slots=True)
class RowShape:
    """What becomes of the rows of a store.

    Attributes:
        columns: the full names of the columns and fields that are wanted (`key`, `value.count`); None = all.
        where: keeps the rows for which it is true; None = all.
        unique_names: numbers the second of two fields of one name: `sum_2`.
        flatten_columns: makes a column `key.user` of each field of a struct; the names are unique.
        decode_values: makes JSON of values that msgpack has packed; conditions are on that.
    """

    columns: Sequence[str] | None = None
    where: Where | None = None
    unique_names: bool = False
    flatten_columns: bool = False
    decode_values: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether the rows stay as they are."""
        alike = not (self.unique_names or self.flatten_columns or self.decode_values)
        return self.columns is None and self.where is None and alike


AS_THEY_ARE = RowShape()


class RowShaper:
    """Shapes rows.

    Args:
        schema: of the rows, with Spark's names.
        shape: what is wanted of them.

    Attributes:
        schema: of the result.

    Raises:
        ConditionError: there is no such field, or the condition cannot be parsed.
    """

    def __init__(self, schema: pa.Schema, shape: RowShape) -> None:
        self._shape = shape
        self._unpacked = unpacked_schema(schema) if shape.decode_values and has_packed(schema) else None
        schema = self._unpacked or schema
        self._unique = unique_names(schema)
        self._wanted = None if shape.columns is None else wanted_fields(self._unique, shape.columns)
        where = shape.where
        self._mask = parse_condition(where, self._unique) if isinstance(where, str) else None
        self._compared = fields_of(where, self._unique) if isinstance(where, str) else []
        self._nested = self._unique if shape.unique_names or shape.flatten_columns else schema
        if self._wanted is not None:
            self._nested = narrowed_schema(self._nested, self._wanted)
        self.schema = flat_schema(self._nested) if shape.flatten_columns else self._nested

    def needed(self) -> Mapping[str, Sequence[int] | None]:
        """The columns that are needed, and of each the places of the fields that are; None = all of them."""
        if self._wanted is None or isinstance(self._shape.where, pc.Expression):  # its fields are its secret
            return dict.fromkeys(self._unique.names)
        needed = {at: None if below is None else dict.fromkeys(below) for at, below in self._wanted.items()}
        for field in self._compared:
            add_field(needed, (self._unique.get_field_index(field.names[0]), *field.path[:1]))
        return {self._unique.names[at]: None if below is None else sorted(below) for at, below in needed.items()}

    def key(self) -> pa.StructArray | None:
        """The only key that can meet the condition; None if there may be several."""
        where = self._shape.where
        if not isinstance(where, str) or "key" not in self._unique.names:
            return None
        return key_of_condition(where, self._unique)

    def partition_id(self) -> int | None:
        """The only partition whose rows can meet the condition; None if there may be several."""
        where = self._shape.where
        value = equal_values(where, self._unique, "partition_id").get(()) if isinstance(where, str) else None
        number = None if value is None else value.as_py()
        return number if isinstance(number, int) else None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What becomes of a batch."""
        if self._shape.changes_nothing:
            return batch
        if self._unpacked is not None:
            batch = unpacked(batch, self._unpacked)
        batch = with_names(batch, self._unique)
        if self._mask is not None:
            batch = batch.filter(self._mask(batch))
        elif self._shape.where is not None:
            kept = pa.Table.from_batches([batch]).filter(self._shape.where).combine_chunks()
            batch = next(iter(kept.to_batches()), batch.slice(0, 0))
        if self._wanted is not None:
            batch = narrowed(batch, self._wanted)
        batch = with_names(batch, self._nested)
        return flat_columns(batch, self.schema) if self._shape.flatten_columns else batch


def shaped(table: pa.Table, shape: RowShape) -> pa.Table:
    """A table in another shape."""
    shaper = RowShaper(table.schema, shape)
    return pa.Table.from_batches(map(shaper, table.to_batches()), shaper.schema)
