"""Records and digests of rows that lie in other bytes."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.records import digest_spans, encode_records, encode_spans, spans_of_part

END = 4
Rows = list[tuple[bytes, bytes]]
ROWS = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=20)


def spans_of(rows: Rows) -> tuple[bytes, bytes, bytes]:
    data, keys, values = b"", b"", b""
    for key, value in rows:
        keys += struct.pack("2i", len(data), len(key))
        values += struct.pack("2i", len(data) + len(key), len(value))
        data += key + value
    return data, keys, values


@given(ROWS, st.booleans())
def test_records_are_those_of_arrays(rows: Rows, row_checksums: bool) -> None:
    keys, values = (pa.array([row[part] for row in rows], pa.binary()) for part in (0, 1))
    expected = encode_records(keys, values, row_checksums=row_checksums).to_pybytes()
    assert encode_spans(*spans_of(rows), row_checksums=row_checksums).to_pybytes() == expected[:-END]


@given(ROWS, st.randoms())
def test_a_digest_tells_rows_and_not_their_order(rows: Rows, random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert digest_spans(*spans_of(shuffled)) == digest_spans(*spans_of(rows))
    if rows:
        key, value = rows[0]
        assert digest_spans(*spans_of([(key, value + b"x"), *rows[1:]])) != digest_spans(*spans_of(rows))
        assert digest_spans(*spans_of([*rows, rows[0]])) != digest_spans(*spans_of(rows))


@pytest.mark.parametrize("span", [(-1, 1), (0, 9), (8, 1), (0, -1), (2**31 - 1, 2**31 - 1)])
def test_spans_outside_of_the_data_are_refused(span: tuple[int, int]) -> None:
    good, bad = struct.pack("2i", 0, 8), struct.pack("2i", *span)
    for keys, values in ((bad, good), (good, bad), (good, b""), (good[:4], good[:4])):
        for function in (encode_spans, digest_spans):
            with pytest.raises(ValueError, match=r"row|spans"):
                function(bytes(8), keys, values)
    with pytest.raises(ValueError, match=r"row|spans"):
        spans_of_part(bytes(8), bad, None, 0, 2)


@given(ROWS, st.integers(1, 5), st.booleans())
def test_each_record_is_in_one_part_and_a_deletion_of_a_range_in_all(rows: Rows, parts: int, typed: bool) -> None:
    data, keys, _ = spans_of(rows)
    kinds = [(0, 1, 2, 15)[i % 4] for i in range(len(rows))] if typed else None
    given_kinds = None if kinds is None else bytes(kinds)
    found = [
        memoryview(spans_of_part(data, keys, given_kinds, part, parts)).cast("q").tolist() for part in range(parts)
    ]
    for places in found:
        assert places == sorted(places)
    for row, (key, _) in enumerate(rows):
        there = {part for part, places in enumerate(found) if row in places}
        of_range = kinds is not None and kinds[row] == 15
        assert len(there) == (parts if of_range else 1)
        # All records of a key are in one part.
        if not of_range:
            same = [i for i, other in enumerate(rows) if other[0] == key]
            assert set(same) <= set(found[there.pop()])


def test_parts_are_about_equal() -> None:
    data, keys, _ = spans_of([(b"key %d" % i, b"") for i in range(10_000)])
    sizes = [spans_of_part(data, keys, None, part, 7).size // 8 for part in range(7)]
    assert sum(sizes) == 10_000
    assert max(sizes) < 1.2 * min(sizes)


@pytest.mark.parametrize(("part", "parts"), [(-1, 2), (2, 2), (0, 0), (0, -1)])
def test_a_part_that_there_is_not_is_refused(part: int, parts: int) -> None:
    data, keys, _ = spans_of([(b"k", b"v")])
    with pytest.raises(ValueError, match="no part"):
        spans_of_part(data, keys, None, part, parts)


def test_kinds_of_other_records_are_refused() -> None:
    data, keys, _ = spans_of([(b"k", b"v")])
    with pytest.raises(ValueError, match="2 kinds of 1 records"):
        spans_of_part(data, keys, bytes(2), 0, 1)
