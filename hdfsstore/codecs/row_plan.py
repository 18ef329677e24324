"""Builds the tree of a row's types for the compiled loops that read and write UnsafeRows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.errors import UnsupportedTypeError

# The layout of a type in a slot: cext/common/unsafe_layout.pxd explains the letters. Any other type is "s".
_KINDS: dict[type[t.DataType], str] = {
    t.NullType: "0",
    t.BooleanType: "?",
    t.ByteType: "1",
    t.ShortType: "2",
    t.IntegerType: "4",
    t.FloatType: "4",
    t.DateType: "4",
    t.LongType: "8",
    t.DoubleType: "8",
    t.TimestampType: "8",
    t.TimestampNTZType: "8",
    t.TimeType: "8",
    t.DayTimeIntervalType: "8",
    t.YearMonthIntervalType: "m",
    t.CalendarIntervalType: "i",
}


@dataclass(frozen=True)
class Node:
    """One type of the tree, with what the compiled loops need of it and of its children."""

    type: t.DataType
    arrow: Any  # A pa.DataType; Any, because members of its subclasses are used.
    path: str
    kind: str
    digits: int
    children: tuple[Node, ...] = ()
    kinds: bytes = field(init=False)
    all_digits: bytes = field(init=False)
    paths: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", "".join(c.kind for c in self.children).encode())
        object.__setattr__(self, "all_digits", bytes(c.digits for c in self.children))
        object.__setattr__(self, "paths", [c.path for c in self.children])


def plan(type_: t.DataType, path: str) -> Node:
    arrow = to_arrow_type(type_)
    while isinstance(type_, t.UserDefinedType):
        type_ = type_.sql_type
    children: tuple[Node, ...] = ()
    digits = 0
    match type_:
        case t.UnknownType(json):
            raise UnsupportedTypeError(
                f"field {path!r} has the type {json}, which this release does not know",
                remedy="Keys, values and stores without that type can still be read",
            )
        case t.DecimalType(digits, _):
            kind = "d" if digits <= 18 else "D"
        case t.StructType(fields):
            kind = "s"
            children = tuple(plan(f.type, f"{path}.{f.name}" if path else f.name) for f in fields)
        case t.ArrayType(element):
            kind = "s"
            children = (plan(element, f"{path}[]"),)
        case t.MapType(key, value):
            kind = "s"
            children = (plan(key, f"{path}.key"), plan(value, f"{path}.value"))
        case _:
            kind = _KINDS.get(type(type_), "s")
    return Node(type_, arrow, path, kind, digits, children)
