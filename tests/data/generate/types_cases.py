"""The cases that hold every type of Spark SQL in state."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .case import ALL, LAST, SINCE_40, SINCE_41, Inputs, Query, case

ROWS = 6  # row 5 is null in every column

# A column's values in rows 0 to 4, as SQL; rows beyond the list are null.
HASHABLE = {
    "t_boolean": ["true", "false"],
    "t_byte": ["0Y", "127Y", "-128Y", "1Y"],
    "t_short": ["0S", "32767S", "-32768S", "1S"],
    "t_int": ["0", "2147483647", "int('-2147483648')", "-1"],
    "t_long": ["0L", "9223372036854775807L", "bigint('-9223372036854775808')", "-1L"],
    "t_float": ["float('0')", "float('NaN')", "float('-Infinity')", "float('1.5')", "float('1.4E-45')"],
    "t_double": ["0D", "double('NaN')", "double('-Infinity')", "3.141592653589793D", "double('4.9E-324')"],
    "t_decimal_18": [f"CAST('{n}' AS DECIMAL(18,4))" for n in ("0", "99999999999999.9999", "-0.0001", "12.5")],
    "t_decimal_5": [f"CAST('{n}' AS DECIMAL(5,0))" for n in ("0", "99999", "-99999")],
    "t_decimal_38": [
        f"CAST('{n}' AS DECIMAL(38,10))"
        for n in ("0", "9999999999999999999999999999.9999999999", "-0.0000000001", "-1", "12345678901234567890.5")
    ],
    "t_string": ["''", "'a'", "'eightbyt'", "'Zürich 日本語 🙂'", "repeat('x', 33)"],
    "t_binary": ["X''", "X'00'", "X'0001FF80AABBCCDD'", "X'DEADBEEF000102030405'"],
    "t_date": ["DATE'1970-01-01'", "DATE'9999-12-31'", "DATE'0001-01-01'", "DATE'1582-10-15'", "DATE'2024-02-29'"],
    "t_timestamp": [
        f"TIMESTAMP'{t}Z'"
        for t in ("1970-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1969-12-31 23:59:59.5")
    ],
    "t_timestamp_ntz": [
        f"TIMESTAMP_NTZ'{t}'"
        for t in ("1970-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1969-12-31 23:59:59.5")
    ],
    "t_day_time": [
        "INTERVAL '0 00:00:00' DAY TO SECOND",
        "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
        "INTERVAL '-1 02:03:04.000005' DAY TO SECOND",
    ],
    "t_struct": ["named_struct('a', 1, 'b', 'x')", "named_struct('a', int(null), 'b', string(null))"],
    "t_deep_struct": [
        "named_struct('p', named_struct('q', 1Y, 'r', named_struct('s', 'deep', 't', array(1D, null))), 'u', X'01')",
        "named_struct('p', named_struct('q', tinyint(null), 'r', null), 'u', null)",
    ],
    "t_array_int": ["array(1, 2, 3)", "array()", "array(null, -1)"],
    "t_array_boolean": ["array(true, null, false)", "array()", "array(true)"],
    "t_array_short": ["array(1S, 2S, null, 4S, 5S)", "array()"],
    "t_array_string": ["array('a', null, '', 'longer than eight')", "array()", "array(string(null))"],
    "t_array_decimal": ["array(CAST(1 AS DECIMAL(20,2)), null, CAST(-2.5 AS DECIMAL(20,2)))", "array()"],
    "t_array_array": ["array(array(1L), array(), null, array(null, 2L))", "array()"],
    "t_array_struct": ["array(named_struct('x', 1, 'y', 'one'), null, named_struct('x', null, 'y', null))"],
    "t_void_like": [],
}
MAPS = {
    "t_map": ["map('a', 1, 'b', null)", "map()", "map('', 0)"],
    "t_map_deep": [
        "map(1, array(map('k', CAST(1.5 AS DECIMAL(20,2))), null), 2, null)",
        "map(-1, array(map('z', null)))",
    ],
    "t_map_struct_key": ["map(named_struct('a', 1, 'b', DATE'2024-01-01'), array(X'01', null))"],
    "t_struct_of_map": ["named_struct('m', map(1L, named_struct('f', 1.5D)), 'n', null)"],
}
INTERVALS = {
    "t_year_month": [
        "INTERVAL '0-0' YEAR TO MONTH",
        "INTERVAL '178956970-7' YEAR TO MONTH",
        "INTERVAL '-1-2' YEAR TO MONTH",
    ],
    "t_calendar": [
        "make_interval(0, 0, 0, 0, 0, 0, 0)",
        "make_interval(1, 2, 3, 4, 5, 6, 7.008009)",
        "make_interval(-1, 0, 0, -40, 0, 0, -0.000001)",
    ],
    "t_array_year_month": ["array(INTERVAL '1-1' YEAR TO MONTH, null)", "array()"],
    "t_array_calendar": ["array(make_interval(0, 1, 0, 2, 0, 0, 3), null)", "array()"],
    "t_struct_calendar": [
        "named_struct('c', make_interval(0, 13, 0, 2, 0, 0, 3), 'z', 1)",
        "named_struct('c', null, 'z', 2)",
    ],
}
VARIANTS = {
    "t_variant": ['parse_json(\'{"a":[1,2.5,"x",null,true]}\')', "parse_json('null')", "parse_json('123456789012')"],
    "t_array_variant": ["array(parse_json('1'), null, parse_json('\"s\"'))", "array()"],
    "t_struct_variant": ["named_struct('v', parse_json('[]'), 'w', 'after')", "named_struct('v', null, 'w', null)"],
    "t_map_variant": ["map('a', parse_json('{}'))"],
}
COLLATED = {
    "t_lcase": ["'Abc' COLLATE UTF8_LCASE", "'' COLLATE UTF8_LCASE"],
    "t_unicode_ci": ["'ÀÉ' COLLATE UNICODE_CI", "'x' COLLATE UNICODE_CI"],
    "t_array_collated": ["array('B' COLLATE UNICODE, null)", "array()"],
}
TIMES = {
    "t_time": ["TIME'00:00:00'", "TIME'23:59:59.999999'", "TIME'12:34:56.5'"],
    "t_time_3": ["CAST(TIME'12:34:56.789' AS TIME(3))", "CAST(TIME'00:00:00.001' AS TIME(3))"],
    "t_array_time": ["array(TIME'01:02:03', null)", "array()"],
}


def columns(types: dict[str, list[str]]) -> list[str]:
    """One CASE expression a column, so that nothing is folded into a constant."""
    chosen = []
    for name, values in types.items():
        whens = "".join(f" WHEN {i} THEN {value}" for i, value in enumerate(values))
        chosen.append(f"CASE i{whens} END AS {name}" if values else f"IF(i < 0, 1, NULL) AS {name}")
    return chosen


def typed_stream(inputs: Inputs, types: dict[str, list[str]], name: str = "input") -> DataFrame:
    batches = [[{"i": i} for i in range(start, start + 2)] for start in range(0, ROWS, 2)]
    return inputs.stream(name, "i INT", batches).selectExpr("i", *columns(types))


def firsts(inputs: Inputs, types: dict[str, list[str]]) -> Query:
    """One row a key, so that the value keeps the row as it came."""
    return Query(typed_stream(inputs, types).groupBy("i").agg(*[F.first(name).alias(name) for name in types]))


def joined(inputs: Inputs, types: dict[str, list[str]]) -> Query:
    left = typed_stream(inputs, types, "left")
    right = inputs.stream("right", "j INT, w STRING", [[{"j": 1, "w": "one"}], [{"j": 3}], [{"j": 9, "w": "nine"}]])
    return Query(left.join(right, F.col("i") == F.col("j")), "append")


@case("3.5", "4.3")
def types_join(inputs: Inputs) -> Query:
    """All common types, nested and null, in the complete rows that a stream-stream join keeps."""
    return joined(inputs, {**HASHABLE, **MAPS})


@case(*ALL)
def types_keys(inputs: Inputs) -> Query:
    """All types that can be a key, as the key of dropDuplicates: for Murmur3."""
    stream = typed_stream(inputs, HASHABLE).drop("i")
    return Query(stream.dropDuplicates(stream.columns), "append")


@case(*LAST)
def types_intervals(inputs: Inputs) -> Query:
    """Year-month and calendar intervals as buffers of first()."""
    return firsts(inputs, INTERVALS)


@case(*LAST)
def types_year_month_key(inputs: Inputs) -> Query:
    """A year-month interval as key and in the value of an aggregation."""
    stream = typed_stream(inputs, {"t_year_month": INTERVALS["t_year_month"]})
    return Query(stream.groupBy("t_year_month").agg(F.max("t_year_month"), F.count("*")))


@case(*SINCE_40)
def types_variant(inputs: Inputs) -> Query:
    """Variants, alone and nested, as buffers of first()."""
    return firsts(inputs, VARIANTS)


@case(*SINCE_40)
def types_collated(inputs: Inputs) -> Query:
    """Collated strings as buffers of first()."""
    return firsts(inputs, COLLATED)


@case(*SINCE_41, confs={"spark.sql.timeType.enabled": "true"})
def types_time(inputs: Inputs) -> Query:
    """TIME of two precisions as buffers of first()."""
    return firsts(inputs, TIMES)


@case(*LAST)
def types_first(inputs: Inputs) -> Query:
    """All common types as buffers of first() and max_by(): an aggregation's value."""
    stream = typed_stream(inputs, {**HASHABLE, **MAPS})
    firsts = [F.first(name).alias(name) for name in stream.columns if name != "i"]
    return Query(stream.groupBy((F.col("i") % 3).alias("k")).agg(*firsts, F.max_by("t_string", "i")))
