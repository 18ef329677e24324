"""Rows by key."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from hdfsstore._cext.key_groups import group_rows
from hdfsstore.spark.worker.key_groups import KeyGroups, group


def by_hand(keys: list[bytes]) -> dict[bytes, list[int]]:
    groups: dict[bytes, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return groups


def as_lists(groups: KeyGroups, num_rows: int) -> list[list[int]]:
    rows = pa.array(range(num_rows), pa.int64())
    starts = groups.starts.tolist()
    return [groups.rows(rows, starts[i], starts[i + 1]).to_pylist() for i in range(len(groups))]


@pytest.mark.parametrize("num_keys", [1, 2, 700, 5_000])
@pytest.mark.parametrize("binary", [pa.binary(), pa.large_binary()])
def test_groups_are_those_of_a_dict(num_keys: int, binary: pa.DataType) -> None:
    chance = random.Random(num_keys)
    keys = [chance.randrange(num_keys).to_bytes(2 + chance.randrange(3), "big") for _ in range(6_000)]
    array = pa.array([b"before", *keys], binary).slice(1)
    groups = group(array, is_sorted=False)
    expected = by_hand(keys)
    assert as_lists(groups, len(keys)) == list(expected.values())
    assert groups.first.tolist() == [rows[0] for rows in expected.values()]


def test_adjacent_keys_need_no_order() -> None:
    keys = pa.array([b"a", b"a", b"b", b"c", b"c", b"c"], pa.binary())
    for is_sorted in (False, True):
        groups = group(keys, is_sorted=is_sorted)
        assert groups.order is None
        assert groups.starts.tolist() == [0, 2, 3, 6]
        assert groups.first.tolist() == [0, 2, 3]
    assert as_lists(group(keys.take(pa.array([0, 2, 1])), is_sorted=False), 3) == [[0, 2], [1]]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_no_rows_and_empty_keys(is_sorted: bool) -> None:
    none = group(pa.array([], pa.binary()), is_sorted=is_sorted)
    assert (len(none), none.starts.tolist(), list(none.chunks(5))) == (0, [0], [])
    one = group(pa.array([b"", b"", b""], pa.binary()), is_sorted=is_sorted)
    assert (len(one), one.order, one.starts.tolist()) == (1, None, [0, 3])


def test_keys_that_collide_are_told_apart() -> None:
    # The table has 32 bits of a hash: among so many keys some have the same ones.
    num_keys = 200_000
    keys = np.repeat(np.random.default_rng(1).permutation(num_keys), 2)
    array = pa.array(keys).cast(pa.int64())
    array = pa.Array.from_buffers(pa.binary(8), len(array), [None, array.buffers()[1]]).cast(pa.binary())
    groups = group(array, is_sorted=False)
    assert len(groups) == num_keys
    assert groups.order is None


def test_slices_hold_whole_keys() -> None:
    counts = [3, 3, 3, 50, 1, 9, 10, 11]
    keys = pa.array([bytes([i]) for i, count in enumerate(counts) for _ in range(count)], pa.binary())
    chunks = list(group(keys, is_sorted=True).chunks(10))
    assert chunks == [(0, 3), (3, 4), (4, 6), (6, 7), (7, 8)]


def test_a_null_key_is_refused() -> None:
    with pytest.raises(ValueError, match="null"):
        group_rows(pa.array([b"a", None], pa.binary()), False)


def test_one_key_with_many_rows_takes_no_memory_of_pythons() -> None:
    keys = pa.array([b"one"] * 1_000, pa.binary()).take(pa.array(np.zeros(1_000_000, np.int32)))
    tracemalloc.start()
    try:
        groups = group(keys, is_sorted=False)
        assert groups.starts.tolist() == [0, 1_000_000]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
