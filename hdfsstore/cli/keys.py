"""Parses `--key`: a JSON object with some or all of the key's fields."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.cli.values import json_texts
from hdfsstore.conditions.fields import ConditionError, Field, Literal, Mask, find_field


@dataclass(frozen=True)
class KeyPattern:
    """Selects keys by `mask`. `row` is the key as an array of one row if all of its fields are given, else None."""

    mask: Mask
    row: pa.StructArray | None


def parse_key(text: str, schema: pa.Schema) -> KeyPattern:
    """Selects the keys with the fields of this JSON, in batches of a schema with a column `key`.

    For a key of one field, the value alone is enough. Values are written as `--json` writes them.
    Raises ConditionError.
    """
    try:
        given = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise ConditionError(f"not JSON: {error}") from None
    key = find_field(schema, ["key"])
    if not isinstance(given, dict) and key.type.num_fields == 1:
        given = {key.type.field(0).name: given}
    if not isinstance(given, dict):
        raise ConditionError(f"give a JSON object with fields of the key: {key.type}")
    return _struct(given, key, schema)


def _struct(given: dict[str, Any], field: Field, schema: pa.Schema) -> KeyPattern:
    parts = {}
    for name, value in _nested(given, field).items():
        child = find_field(schema, [*field.names, name])
        if isinstance(value, dict) and pa.types.is_struct(child.type):
            parts[name] = _struct(value, child, schema)
        else:
            parts[name] = _leaf(value, child)
    columns = [parts[child.name].row if child.name in parts else None for child in field.type]
    row = None
    if all(column is not None for column in columns):
        row = pa.StructArray.from_arrays(columns, fields=list(field.type)) if columns else None
    masks = [part.mask for part in parts.values()]
    return KeyPattern(lambda batch: _all(masks, batch), row)


def _nested(given: dict[str, Any], field: Field) -> dict[str, Any]:
    """The same with {"window.start": 1} as {"window": {"start": 1}}, unless the field itself has such a name."""
    there = {child.name for child in field.type}
    nested: dict[str, Any] = {}
    for name, value in given.items():
        outer, dot, inner = name.partition(".")
        if name in there or not dot or outer not in there:
            if name in nested:
                raise ConditionError(f"{field.name}.{name} is there twice")
            nested[name] = value
        elif isinstance(known := nested.setdefault(outer, {}), dict) and inner not in known:
            known[inner] = value
        else:
            raise ConditionError(f"{field.name}.{name} is there twice")
    return nested


def _all(masks: list[Mask], batch: pa.RecordBatch) -> pa.Array:
    result = pa.repeat(pa.scalar(True), batch.num_rows)
    for mask in masks:
        result = pc.and_kleene(result, mask(batch))
    return result


def _leaf(value: Any, field: Field) -> KeyPattern:
    kind = field.type
    if value is None:
        return KeyPattern(lambda batch: pc.is_null(field.of(batch)), pa.nulls(1, kind))
    if pa.types.is_floating(kind) and value == "NaN":
        return KeyPattern(lambda batch: pc.is_nan(field.of(batch)), pa.array([float("nan")], kind))
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or kind == pa.month_day_nano_interval():
        return KeyPattern(lambda batch: _same_json(field.of(batch), value), None)
    scalar = Literal(json.dumps(value, default=str), _plain(value, field)).fit(field)
    try:
        row = pa.array([scalar.as_py()], scalar.type).cast(kind)
    except pa.ArrowInvalid:  # The field cannot hold such a value.
        row = None
    return KeyPattern(lambda batch: pc.equal(field.of(batch), scalar), row)


def _plain(value: Any, field: Field) -> Any:
    """Parses the strings that stand for values that JSON does not have."""
    kind = field.type
    if isinstance(value, list | dict):
        raise ConditionError(f"{field.name} is {kind}: it cannot be {json.dumps(value, default=str)}")
    try:
        if isinstance(value, str) and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return Decimal(value)
        if isinstance(value, str) and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            return base64.b64decode(value, validate=True)
    except (InvalidOperation, binascii.Error):
        raise ConditionError(f"{field.name} is {kind}: it cannot be {value!r}") from None
    return value


def _same_json(column: pa.Array, value: Any) -> pa.Array:
    return pa.array([json.loads(text, parse_float=Decimal) == value for text in json_texts(column)], pa.bool_())
