"""The reader to which Spark pushes filters down.

Spark asks every reader with a method `pushFilters` for it, and fails if spark.sql.python.filterPushdown.enabled is
false, its default. So this is a class of its own. What is pushed down only saves work: Spark filters the rows again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, In

from hdfsstore.conditions.names import places, unique_names
from hdfsstore.spark.source.state_reader import StateReader


class PushingReader(StateReader):
    """Looks up the key, or leaves out the partitions, that filters name; of other filters it makes nothing."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes the filters, and returns those that Spark has to apply: all."""
        schema = unique_names(self._planned.rows().schema)
        terms = [term for each in filters if (term := _term(each, schema)) is not None]
        options = self._planned.options
        if terms and options.request.shape.where is None:
            shape = replace(options.request.shape, where=" and ".join(terms))
            request = replace(options.request, shape=shape)
            self._planned = replace(self._planned, options=replace(options, request=request))
        return filters


def _term(each: Filter, schema: pa.Schema) -> str | None:
    """A filter in the language of conditions; None: it cannot be said there, or not exactly."""
    if not isinstance(each, EqualTo | EqualNullSafe | In) or ".".join(each.attribute) not in places(schema):
        return None
    kind = _kind(schema, each.attribute)
    values = each.value if isinstance(each, In) else [each.value]
    literals = [_literal(value, kind) for value in values]
    if kind is None or not literals or None in literals:
        return None
    name = ".".join(f'"{part}"' for part in each.attribute)
    return f"{name} in ({', '.join(map(str, literals))})" if isinstance(each, In) else f"{name} = {literals[0]}"


def _kind(schema: pa.Schema, names: tuple[str, ...]) -> pa.DataType | None:
    """The type of a field; None if its values cannot be compared by their bytes: collated strings, floats."""
    fields = list(schema)
    field = None
    for name in names:
        if '"' in name:
            return None
        field = next(each for each in fields if each.name == name)
        fields = list(field.type) if pa.types.is_struct(field.type) else []
    if field is None or b"spark.type" in (field.metadata or {}):
        return None
    return field.type


def _literal(value: Any, kind: pa.DataType | None) -> str | None:
    match value:
        case bool():
            return str(value).lower() if pa.types.is_boolean(kind) else None
        case int():
            return str(value) if pa.types.is_integer(kind) else None
        case str():
            return "'" + value.replace("'", "''") + "'" if pa.types.is_string(kind) else None
    return None
