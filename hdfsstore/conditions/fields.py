"""Finds fields of rows by name, and compares them with literals, for `--where` and `--key`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.conditions.names import leaves
from hdfsstore.errors import StateStoreError

Mask = Callable[[pa.RecordBatch], Any]  # Returns a boolean array: null if the condition is neither true nor false.


class ConditionError(StateStoreError, ValueError):
    """The condition cannot be parsed, or does not fit the fields."""


@dataclass(frozen=True)
class Field:
    """A field of the rows; `path` is its position on each level below the column."""

    names: tuple[str, ...]
    type: pa.DataType
    path: tuple[int, ...]

    @property
    def name(self) -> str:
        return ".".join(self.names)

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch[self.names[0]]
        return pc.struct_field(column, list(self.path)) if self.path else column


@dataclass(frozen=True)
class Literal:
    """A literal of the condition: its text and its value."""

    text: str
    value: int | Decimal | str | bytes | bool | date | datetime | time

    def fit(self, field: Field) -> pa.Scalar:
        """The value as a scalar that Arrow compares with the field's values. Raises ConditionError."""
        value, kind = self.value, field.type
        try:
            if isinstance(value, str) and pa.types.is_date(kind):
                return pa.scalar(date.fromisoformat(value))
            if isinstance(value, str) and pa.types.is_timestamp(kind):
                value = datetime.fromisoformat(value)
            if isinstance(value, str) and pa.types.is_time(kind):
                return pa.scalar(time.fromisoformat(value)).cast(kind)
        except ValueError as error:
            raise ConditionError(f"{field.name} is {kind}: {error}") from None
        if pa.types.is_timestamp(kind) and isinstance(value, date):
            value = value if isinstance(value, datetime) else datetime.combine(value, time())
            value = value.replace(tzinfo=value.tzinfo or UTC) if kind.tz else value.replace(tzinfo=None)
            return pa.scalar(value, kind)
        if self._is_comparable(kind):
            try:
                if pa.types.is_floating(kind):
                    return pa.scalar(float(value), kind)  # type: ignore[arg-type]
                return pa.scalar(value)
            except (pa.ArrowInvalid, OverflowError) as error:
                raise ConditionError(f"{field.name} is {kind}: {self.text} does not fit: {error}") from None
        hint = " (write strings in single quotes)" if pa.types.is_string(kind) else ""
        raise ConditionError(f"{field.name} is {kind}: it cannot be compared with {self.text}{hint}")

    def _is_comparable(self, kind: pa.DataType) -> bool:
        match self.value:
            case bool():
                return bool(pa.types.is_boolean(kind))
            case int() | Decimal():
                return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
            case str():
                return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
            case bytes():
                return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
            case datetime():
                return bool(pa.types.is_timestamp(kind))
            case date():
                return bool(pa.types.is_date(kind))
            case _:
                return bool(pa.types.is_time(kind))


def find_field(schema: pa.Schema, names: list[str]) -> Field:
    """Finds the field with these names, the outermost first. Raises ConditionError, which lists all fields."""
    name, fields = ".".join(names), list(schema)
    path: list[int] = []
    kind = None
    for part in names:
        found = [i for i, field in enumerate(fields) if field.name == part]
        if len(found) != 1:
            raise ConditionError(f"there is no field {name}; the fields are {', '.join(leaves(schema))}")
        path.append(found[0])
        kind = fields[found[0]].type
        fields = list(kind) if pa.types.is_struct(kind) else []
    return Field(tuple(names), kind, tuple(path[1:]))
