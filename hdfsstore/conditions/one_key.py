"""Finds the only key that a condition on rows leaves, so that it can be looked up."""

from __future__ import annotations

import pyarrow as pa

from hdfsstore.conditions.where import equal_values


def key_of_condition(text: str, schema: pa.Schema) -> pa.StructArray | None:
    """The only key that can meet a condition on batches of the schema; None if there may be several.

    Raises ConditionError.
    """
    kind = schema.field("key").type
    values = equal_values(text, schema, "key")
    if set(values) != {(place,) for place in range(kind.num_fields)} or not values or not has_one_form(kind):
        return None
    try:
        columns = [pa.array([values[place,].as_py()], values[place,].type).cast(f.type) for place, f in enumerate(kind)]
    except pa.ArrowInvalid:  # The field cannot hold such a value.
        return None
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def has_one_form(kind: pa.DataType) -> bool:
    """Whether keys that are equal have equal bytes: not so 0.0 and -0.0, and NaNs."""
    if pa.types.is_struct(kind):
        return all(has_one_form(field.type) for field in kind)
    return not pa.types.is_floating(kind)
