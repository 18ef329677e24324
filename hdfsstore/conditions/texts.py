"""Writes Arrow values as text, by one rule for each type and all outputs.

| type                         | text                                      | in JSON                      |
|------------------------------|-------------------------------------------|------------------------------|
| boolean, integers, floats    | true, 42, 0.5                             | bare                         |
| NaN and the infinities       | NaN, Infinity, -Infinity                  | a string                     |
| decimal                      | all its digits: 12.340                    | a string, so that it is exact |
| string                       | itself                                    | a string                     |
| string in a field of JSON    | itself                                    | itself                       |
| binary                       | base64                                    | a string                     |
| date, time, timestamp        | ISO 8601: 2026-03-02T09:00:00.500Z; no Z  | a string                     |
|                              | where there is no zone                    |                              |
| intervals                    | ISO 8601: P1Y2M, P3DT4H5M6.500S           | a string                     |
| struct; map with string keys | JSON                                      | an object                    |
| array; any other map         | JSON                                      | an array; [key, value] pairs |

Python's and Arrow's own texts do not do: Python's dates end with the year 9999, and Arrow casts no struct to text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from json.encoder import encode_basestring as quote

import pyarrow as pa
import pyarrow.compute as pc

# Arrow's metadata of fields whose strings are JSON already.
IS_JSON = {b"hdfsstore.json": b"true"}

_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # The Gregorian calendar repeats after these.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_texts(array: pa.Array) -> list[str]:
    """Each value as JSON; null is `null`."""
    kind = array.type
    if pa.types.is_nested(kind):
        return ["null" if text is None else text for text in texts(array)]
    if pa.types.is_floating(kind):
        return ["null" if text is None else quote(text) if text[-1] in "Ny" else text for text in texts(array)]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return ["null" if text is None else text for text in texts(array)]
    return ["null" if text is None else quote(text) for text in texts(array)]


def texts(array: pa.Array) -> list[str | None]:
    """Each value as text for a person, nested values as JSON; null is None."""
    for fits, write in _WRITERS:
        if fits(array.type):
            return write(array)
    return [None if value is None else str(value) for value in array.to_pylist()]


def time_text(milliseconds: int) -> str | None:
    """Milliseconds since 1970 as text; None for 0, which Spark writes for no time yet."""
    return texts(pa.array([milliseconds], pa.timestamp("ms", "UTC")))[0] if milliseconds else None


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type is aligned right."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _each(write: Callable[..., str]) -> Callable[[pa.Array], list[str | None]]:
    return lambda array: [None if value is None else write(value) for value in array.to_pylist()]


def _cast(array: pa.Array) -> list[str | None]:
    return list(pc.cast(array, pa.string()).to_pylist())


def _float(array: pa.Array) -> list[str | None]:
    return [text if text is None else _NOT_FINITE.get(text, text) for text in _cast(array)]


def _string(array: pa.Array) -> list[str | None]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:  # Spark does not check that strings are UTF-8.
        values = array.cast(pa.string()).cast(pa.binary()).to_pylist()
        return [None if value is None else value.decode(errors="replace") for value in values]


def _date(days: int) -> str:
    """Any date of Spark's. Python's dates end with the year 9999."""
    cycles, rest = divmod(days + _EPOCH - 1, _CYCLE_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + cycles * _CYCLE_YEARS
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{day.month:02}-{day.day:02}"


def _clock(units: int, per_second: int) -> str:
    seconds, fraction = divmod(units, per_second)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + _fraction(fraction, per_second)


def _fraction(fraction: int, per_second: int) -> str:
    """Three, six or nine digits, so that most times align; none for a whole second."""
    digits = str(fraction + per_second)[1:]
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits and f".{digits}"


def _dates(array: pa.Array) -> list[str | None]:
    return _each(_date)(array.cast(pa.date32()).view(pa.int32()))


def _timestamps(array: pa.Array) -> list[str | None]:
    per_second = _UNITS_PER_SECOND[array.type.unit]
    zone = "" if array.type.tz is None else "Z"

    def write(units: int) -> str:
        days, rest = divmod(units, 86_400 * per_second)
        return f"{_date(days)}T{_clock(rest, per_second)}{zone}"

    return _each(write)(array.view(pa.int64()))


def _times(array: pa.Array) -> list[str | None]:
    per_second = _UNITS_PER_SECOND[array.type.unit]
    units = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return _each(lambda value: _clock(value, per_second))(units)


def _duration(days: int, units: int, per_second: int) -> str:
    """The text after the P of an ISO 8601 duration; "" for 0."""
    sign = "-" if units < 0 else ""
    seconds, fraction = divmod(abs(units), per_second)
    parts = [f"{sign}{seconds // 3600}H"] if seconds >= 3600 else []
    if minutes := seconds // 60 % 60:
        parts.append(f"{sign}{minutes}M")
    if seconds % 60 or fraction:
        parts.append(f"{sign}{seconds % 60}{_fraction(fraction, per_second)}S")
    return (f"{days}D" if days else "") + ("T" + "".join(parts) if parts else "")


def _durations(array: pa.Array) -> list[str | None]:
    per_second = _UNITS_PER_SECOND[array.type.unit]

    def write(units: int) -> str:
        days = abs(units) // (86_400 * per_second) * (1 if units > 0 else -1)
        return "P" + (_duration(days, units - days * 86_400 * per_second, per_second) or "T0S")

    return _each(write)(array.view(pa.int64()))


def _interval(value: pa.MonthDayNano) -> str:
    years = abs(value.months) // 12 * (1 if value.months > 0 else -1)
    months = value.months - 12 * years
    text = (f"{years}Y" if years else "") + (f"{months}M" if months else "")
    return "P" + (text + _duration(value.days, value.nanoseconds, _UNITS_PER_SECOND["ns"]) or "T0S")


def _hide_nulls(array: pa.Array, written: list[str]) -> list[str | None]:
    if not array.null_count:
        return list(written)
    return [text if valid else None for text, valid in zip(written, array.is_valid().to_pylist(), strict=True)]


def _structs(array: pa.Array) -> list[str | None]:
    names = [quote(array.type.field(i).name) for i in range(array.type.num_fields)]
    if not names:
        return _hide_nulls(array, ["{}"] * len(array))
    form = "{" + ",".join(name.replace("%", "%%") + ":%s" for name in names) + "}"
    columns = [_json_of_field(array.field(i), array.type.field(i)) for i in range(len(names))]
    return _hide_nulls(array, [form % row for row in zip(*columns, strict=True)])


def _json_of_field(array: pa.Array, field: pa.Field) -> list[str]:
    if IS_JSON.items() <= (field.metadata or {}).items():
        return ["null" if text is None else text for text in texts(array)]
    return json_texts(array)


def _sequences(array: pa.Array, items: list[str], brackets: str) -> list[str | None]:
    """Each list as text. `items` are all that the array's offsets point to, as texts."""
    ends = array.offsets.to_pylist()
    first = ends[0]
    written = [
        brackets[0] + ",".join(items[start - first : end - first]) + brackets[1] for start, end in pairwise(ends)
    ]
    return _hide_nulls(array, written)


def _pointed_to(array: pa.Array, children: pa.Array) -> list[str]:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return json_texts(children.slice(first, last - first))


def _lists(array: pa.Array) -> list[str | None]:
    return _sequences(array, _pointed_to(array, array.values), "[]")


def _maps(array: pa.Array) -> list[str | None]:
    pairs = zip(_pointed_to(array, array.keys), _pointed_to(array, array.items), strict=True)
    if pa.types.is_string(array.type.key_type):
        return _sequences(array, [f"{key}:{item}" for key, item in pairs], "{}")
    return _sequences(array, [f"[{key},{item}]" for key, item in pairs], "[]")


_Fits = Callable[[pa.DataType], bool]
_Write = Callable[[pa.Array], "list[str | None]"]
_WRITERS: list[tuple[_Fits, _Write]] = [
    (pa.types.is_boolean, _cast),
    (pa.types.is_integer, _cast),
    (pa.types.is_floating, _float),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), _string),
    (pa.types.is_decimal, _each(lambda value: format(value, "f"))),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
        _each(lambda value: base64.b64encode(value).decode()),
    ),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_time, _times),
    (pa.types.is_duration, _durations),
    (lambda kind: kind == pa.month_day_nano_interval(), _each(_interval)),
    (pa.types.is_struct, _structs),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _lists),
    (pa.types.is_map, _maps),
]
