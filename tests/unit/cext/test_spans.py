"""Records and digests of rows that lie in other bytes."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.records import digest_spans, encode_records, encode_spans

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
