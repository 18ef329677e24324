"""Selects keys by some or all of their fields, given as JSON (`--key`) or as a mapping."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.conditions.fields import ConditionError, Field, Literal, Mask, find_field
from hdfsstore.conditions.texts import json_texts


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
    key, schema = _key_of(schema)
    if not isinstance(given, dict) and key.type.num_fields == 1:
        given = {key.type.field(0).name: given}
    if not isinstance(given, dict):
        raise ConditionError(f"give a JSON object with fields of the key: {key.type}")
    return _struct(given, key, schema)


def key_pattern(given: Mapping[str, Any], schema: pa.Schema) -> KeyPattern:
    """The same for a mapping of fields to Python's values, or to those that JSON has for them.

    Raises ConditionError.
    """
    key, schema = _key_of(schema)
    if not isinstance(given, Mapping):
        raise ConditionError(f"{given!r} is no mapping of some or all of the key's fields, which are {key.type}")
    return _struct(given, key, schema)


def _key_of(schema: pa.Schema) -> tuple[Field, pa.Schema]:
    """The column of keys, and a schema with no other: so an error lists none of another."""
    return find_field(schema, ["key"]), pa.schema([schema.field("key")])


def _struct(given: Mapping[str, Any], field: Field, schema: pa.Schema) -> KeyPattern:
    parts = {}
    for name, value in _nested(given, field).items():
        child = find_field(schema, [*field.names, name])
        if isinstance(value, Mapping) and pa.types.is_struct(child.type):
            parts[name] = _struct(value, child, schema)
        else:
            parts[name] = _leaf(value, child)
    columns = [parts[child.name].row if child.name in parts else None for child in field.type]
    row = None
    if all(column is not None for column in columns):
        row = pa.StructArray.from_arrays(columns, fields=list(field.type)) if columns else None
    masks = [part.mask for part in parts.values()]
    return KeyPattern(lambda batch: _all(masks, batch), row)


def _nested(given: Mapping[str, Any], field: Field) -> dict[str, Any]:
    """The same with {"window.start": 1} as {"window": {"start": 1}}, unless the field itself has such a name."""
    there = {child.name for child in field.type}
    nested: dict[str, Any] = {}
    for name, value in given.items():
        outer, dot, inner = name.partition(".")
        if name in there or not dot or outer not in there:
            if name in nested:
                raise ConditionError(f"{field.name}.{name} is there twice")
            nested[name] = dict(value) if isinstance(value, Mapping) else value
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
    if pa.types.is_floating(kind) and (value == "NaN" or (isinstance(value, float) and isnan(value))):
        return KeyPattern(lambda batch: pc.is_nan(field.of(batch)), pa.array([float("nan")], kind))
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or kind == pa.month_day_nano_interval():
        as_json = _as_json(value, kind)
        return KeyPattern(lambda batch: _same_json(field.of(batch), as_json), None)
    scalar = Literal(json.dumps(value, default=str), _plain(value, field)).fit(field)
    try:
        row = pa.array([scalar.as_py()], scalar.type).cast(kind)
    except pa.ArrowInvalid:  # The field cannot hold such a value.
        row = None
    return KeyPattern(lambda batch: pc.equal(field.of(batch), scalar), row)


def _plain(value: Any, field: Field) -> Any:
    """Parses the strings that stand for values that JSON does not have."""
    kind = field.type
    if isinstance(value, list | Mapping):
        raise ConditionError(f"{field.name} is {kind}: it cannot be {json.dumps(value, default=str)}")
    try:
        if isinstance(value, float):
            return Decimal(repr(float(value)))
        if isinstance(value, str) and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return Decimal(value)
        if isinstance(value, str) and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            return base64.b64decode(value, validate=True)
    except (InvalidOperation, binascii.Error):
        raise ConditionError(f"{field.name} is {kind}: it cannot be {value!r}") from None
    return value


def _as_json(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON has it: itself, or what stands for Python's value there."""
    if _is_of_json(value):
        return value
    try:
        (text,) = json_texts(pa.array([value], kind))
    except (pa.ArrowException, TypeError) as error:
        raise ConditionError(f"{value!r} is no {kind}: {error}") from None
    return json.loads(text, parse_float=Decimal)


def _is_of_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_of_json, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_of_json(item) for name, item in value.items())
    return value is None or isinstance(value, str | int | Decimal)


def _same_json(column: pa.Array, value: Any) -> pa.Array:
    return pa.array([json.loads(text, parse_float=Decimal) == value for text in json_texts(column)], pa.bool_())
