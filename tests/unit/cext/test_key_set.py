"""The key set against a model: which records of a chain hold."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.key_set import KeySet
from tests.support.records import Record, spans_of

KEYS = st.binary(max_size=3) | st.binary(min_size=7, max_size=9)
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=4)), max_size=40)


def spans(records: list[Record]) -> tuple[bytes, pa.Buffer, pa.Buffer]:
    """One data buffer with keys and values, and spans that may be written to."""
    data, both = spans_of([part for record in records for part in record])
    pairs = struct.unpack(f"={both.size // 4}i", both)
    keys = [x for i in range(0, len(pairs), 4) for x in pairs[i : i + 2]]
    values = [x for i in range(2, len(pairs), 4) for x in pairs[i : i + 2]]
    return data, *(pa.py_buffer(bytearray(struct.pack(f"={len(s)}i", *s))) for s in (keys, values))


def records_at(data: bytes, keys: pa.Buffer, values: pa.Buffer, count: int) -> list[Record]:
    k = struct.unpack(f"={2 * count}i", keys.slice(0, 8 * count))
    v = struct.unpack(f"={2 * count}i", values.slice(0, 8 * count))
    return [
        (data[k[i] : k[i] + k[i + 1]], None if v[i + 1] < 0 else data[v[i] : v[i] + v[i + 1]])
        for i in range(0, 2 * count, 2)
    ]


@given(
    st.lists(RECORDS, max_size=4),
    st.dictionaries(KEYS, st.binary(max_size=4), max_size=40),
    st.integers(1, 50),
)
def test_a_chain_read_backwards_gives_the_map_read_forwards(
    deltas: list[list[Record]], snapshot: dict[bytes, bytes], chunk: int
) -> None:
    expected = dict(snapshot)
    for delta in deltas:
        for key, value in delta:
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value

    newest, got = KeySet(), []
    for delta in reversed(deltas):
        chunks = [delta[i : i + chunk] for i in range(0, len(delta), chunk)]
        for part in chunks:
            newest.note(*spans(part))
        for i, part in enumerate(chunks):
            data, keys, values = spans(part)
            got += records_at(data, keys, values, newest.keep_noted(keys, values, i * chunk))
        newest.settle()
    data, keys, values = spans(list(snapshot.items()))
    got += records_at(data, keys, values, newest.keep_absent(data, keys, values))
    assert dict(got) == expected
    assert len(got) == len(expected)
    assert len(newest) == len({key for delta in deltas for key, _ in delta})


@given(st.lists(KEYS, unique=True, max_size=3000), st.lists(KEYS, max_size=50))
def test_positions(members: list[bytes], asked: list[bytes]) -> None:
    known = KeySet()
    for start in range(0, len(members), 1000):
        data, keys = spans_of(members[start : start + 1000])
        known.add(data, keys)
    place = {key: i for i, key in enumerate(members)}
    array = pa.array([b"left out", *asked], pa.binary()).slice(1)
    assert known.positions(array).to_pylist() == [place.get(key) for key in asked]


def test_adding_a_key_twice_is_refused() -> None:
    known = KeySet()
    data, keys = spans_of([b"a", b"b", b"a"])
    with pytest.raises(ValueError, match="key 2"):
        known.add(data, keys)


def test_many_keys_grow_the_table() -> None:
    members = [struct.pack("<q", i) for i in range(20_000)]
    data, keys = spans_of(members)
    known = KeySet()
    known.add(data, keys)
    assert known.positions(pa.array(members)).to_pylist() == list(range(20_000))


def test_keys_that_are_noted_later_are_no_longer_absent() -> None:
    snapshot = [(struct.pack("<q", i), b"v") for i in range(4000)]
    known = KeySet()
    for end in (1, 40, 3000):
        known.note(*spans(snapshot[:end]))
        known.settle()
        data, keys, values = spans(snapshot)
        assert records_at(data, keys, values, known.keep_absent(data, keys, values)) == snapshot[end:]


def test_keys_that_are_noted_again_and_let_the_table_grow_are_still_there() -> None:
    """Room is made for a group before it is known that none of its keys is new."""
    noted = [(struct.pack("<q", i), b"v") for i in range(500)]
    known = KeySet()
    for _ in range(2):
        known.note(*spans(noted))
        known.settle()
        assert known.keep_absent(*spans(noted)) == 0
    assert len(known) == len(noted)


def test_records_that_were_not_noted_are_refused() -> None:
    _, keys, values = noted = spans([(b"a", b"1"), (b"b", b"2")])
    known = KeySet()
    known.note(*noted)
    for first in (-1, 1):
        with pytest.raises(ValueError, match="not noted"):
            known.keep_noted(keys, values, first)


def test_a_key_that_comes_again_is_told_from_the_next_chunk_on() -> None:
    known = KeySet()
    known.note(*spans([(b"a", b"1"), (b"a", b"2")]))
    assert not known.superseded
    known.note(*spans([(b"a", b"3")]))
    assert known.superseded
    known.settle()
    known.note(*spans([(b"b", b"1")]))
    known.note(*spans([(b"a", b"0")]))
    assert not known.superseded
