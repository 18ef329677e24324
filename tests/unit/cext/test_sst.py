"""Merges of SST files made by hand, and of overlays: which entries count."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore import (
    CorruptFileError,
)
from hdfsstore._cext.sst import Merge, footer_checksum
from hdfsstore.codecs.sst_blocks import decompress
from hdfsstore.codecs.sst_table import KeyRange, open_table
from tests.support.sst_files import (
    DELETION,
    MERGE,
    PUT,
    RANGE_DELETION,
    File,
    block_of,
    internal,
    sst_of,
    varint,
)
from tests.support.sst_merges import ALL_KEYS, PATH, Record, merged, overlay_of, rows, table


@pytest.mark.parametrize(("kind", "digest"), [(2, 0xE8E3E705), (3, 0x65B89B9B), (4, 0xE16CE425)])
def test_hashes_of_all_sizes(kind: int, digest: int) -> None:
    """The digests are of the hashes that the package xxhash computes of the same bytes."""
    data = bytes((i * 131 + (i >> 8) * 7) & 255 for i in range(2200))
    # XXH3 takes the byte of the compression apart; 0 changes nothing.
    hashes = [footer_checksum(data[:n] + b"\0" * (kind == 4), kind, 0, 0) for n in range(1, 2200)]
    assert zlib.crc32(b"".join(found.to_bytes(4, "little") for found in hashes)) == digest


def test_the_newest_entry_counts() -> None:
    old = sst_of([(internal(b"a", 1), b"old"), (internal(b"b", 2), b"old"), (internal(b"c", 3), b"old")])
    new = sst_of([(internal(b"a", 5), b"new"), (internal(b"b", 6, DELETION), b""), (internal(b"d", 7), b"new")])
    assert merged(old, new) == merged(new, old) == [(b"a", b"new"), (b"c", b"old"), (b"d", b"new")]


@pytest.mark.parametrize("delimiter", [b",", b""])
def test_operands_are_joined_over_all_files_down_to_a_value(delimiter: bytes) -> None:
    base = sst_of([(internal(b"a", 2), b"0"), (internal(b"b", 1), b"never"), (internal(b"c", 3, MERGE), b"x")])
    middle = sst_of(
        [(internal(b"a", 5, MERGE), b"2"), (internal(b"a", 4, MERGE), b"1"), (internal(b"b", 6, DELETION), b"")]
    )
    overlay = overlay_of([(MERGE, b"a", b"3"), (MERGE, b"b", b"only"), (MERGE, b"b", b"these")])
    assert merged(middle, base, overlay=overlay, delimiter=delimiter) == [
        (b"a", delimiter.join((b"0", b"1", b"2", b"3"))),
        (b"b", delimiter.join((b"only", b"these"))),
        (b"c", b"x"),
    ]


def test_a_range_deletion_holds_within_its_file() -> None:
    """What the compaction has written to the next file may have lost its sequence numbers."""
    deletion = [(internal(b"a", 5, RANGE_DELETION), b"z")]
    first = table(
        sst_of([(internal(b"b", 9), b"newer"), (internal(b"c", 3), b"gone")], deletion),
        KeyRange(internal(b"a", 5, RANGE_DELETION), internal(b"m", 4)),
    )
    others = sst_of([(internal(b"m", 3), b"out"), (internal(b"n", 0), b"out")])
    below = sst_of([(internal(b"b", 1), b"gone"), (internal(b"l", 2), b"gone")])
    assert rows(Merge([[first, table(others)], [table(below)]], delimiter=b",")) == [
        (b"b", b"newer"), (b"m", b"out"), (b"n", b"out"),
    ]  # fmt: skip


KEYS = st.sampled_from([b"", b"a", b"ab", b"ab\0", b"b", b"\0" * 9, b"\0" * 9 + b"\1", b"long" * 20, b"\xff"])
RECORDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([PUT, MERGE, DELETION, 7]), KEYS, st.binary(max_size=40)),
        st.tuples(st.just(RANGE_DELETION), KEYS, KEYS),
    ),
    max_size=60,
)


def model(records: Sequence[Record], delimiter: bytes) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for kind, key, value in records:
        if kind == PUT:
            state[key] = value
        elif kind == MERGE:
            state[key] = state[key] + delimiter + value if key in state else value
        elif kind == RANGE_DELETION:
            state = {k: v for k, v in state.items() if not key <= k < value}
        else:
            state.pop(key, None)
    return state


@given(RECORDS, st.integers(0, 60), st.sampled_from([b",", b""]), st.tuples(st.none() | KEYS, st.none() | KEYS))
def test_overlays_and_files_agree_with_a_model(
    records: list[Record], cut: int, delimiter: bytes, bounds: tuple[bytes | None, bytes | None]
) -> None:
    """The first records are in a file, the others in the overlay."""
    numbered = [(key, sequence, kind, value) for sequence, (kind, key, value) in enumerate(records[:cut], 1)]
    points = sorted((r for r in numbered if r[2] != RANGE_DELETION), key=lambda r: (r[0], -r[1]))
    ranges = sorted((r for r in numbered if r[2] == RANGE_DELETION), key=lambda r: (r[0], -r[1]))
    content = sst_of(*([(internal(key, s, kind), value) for key, s, kind, value in part] for part in (points, ranges)))
    first, end = bounds
    merge = Merge(
        [[table(content)]], overlay_of(records[cut:]), delimiter=delimiter, first=first, end=end, chunk_bytes=1
    )
    expected = sorted(model(records, delimiter).items())
    assert rows(merge) == [
        row for row in expected if (first is None or row[0] >= first) and (end is None or row[0] < end)
    ]


@pytest.mark.parametrize(
    "keys",
    [
        [b"user-%d" % (i * 48271 % 65537) for i in range(2000)],
        [b"\0" * (i % 70) + b"\1" * (i % 3) for i in range(2000)],
        [b"x" * i for i in range(400)],
        [b"y" * 100 + b"%d" % (i % 900) for i in range(2000)],
        [b"one"] * 100 + [b""] * 100,
        [b"user-%07d" % (i * 48271 % 65537) for i in range(5000)],
        [random.Random(i).randbytes(8) for i in range(5000)],
        [(1 << i % 64).to_bytes(8, "big") for i in range(5000)],
    ],
    ids=[
        "numbers",
        "zeros at the end",
        "each begins the next",
        "a long common start",
        "few keys, often",
        "many numbers",
        "many that share nothing",
        "many of one bit",
    ],
)
def test_overlays_of_many_records_are_sorted_whatever_their_keys_share(keys: list[bytes]) -> None:
    random.Random(1).shuffle(keys)
    records = [(MERGE if i % 3 else PUT, key, b"%d" % i) for i, key in enumerate(keys)]
    expected = sorted(model(records, b",").items())
    assert rows(Merge((), overlay_of(records), delimiter=b",")) == expected


@pytest.mark.parametrize(
    "key_of",
    [
        lambda i: b"a row of several words, user-%d" % i,
        lambda i: b"%d" % i,
        lambda i: b"%d" % i + b"\0" * (i % 12),
        lambda i: b"x" * (i % 120) + b"%d" % (i % 97),
        lambda i: b"%d, and more bytes than a head has" % (i // 3) + b"%d" % (i % 3),
        lambda i: b"%c\0\0\0\0\0\0\0user-%d" % (len(str(i)), i),
    ],
    ids=["a common start", "numbers", "zeros at the end", "of many sizes", "differ at the end", "their sizes first"],
)
@pytest.mark.parametrize(("chunk_bytes", "per_block"), [(1, 100), (20_000, 7)])
def test_many_rows_of_several_files_and_an_overlay(
    key_of: Callable[[int], bytes], chunk_bytes: int, per_block: int
) -> None:
    """Most rows take the short way of a merge; merges, deletions, large values and older entries do not."""
    random_of = random.Random(7)
    kinds = [PUT] * 20 + [MERGE, DELETION]
    records = [
        (random_of.choice(kinds), key_of(random_of.randrange(3000)), b"v%d" % i * random_of.choice([0, 1, 1, 1, 40]))
        for i in range(8000)
    ]
    runs = []
    for part in (range(4000, 6000), range(2000, 4000), range(2000)):
        entries = [(records[i][1], -i, records[i][0], records[i][2]) for i in part]
        internals = [(internal(key, -at, kind), value) for key, at, kind, value in sorted(entries)]
        runs.append([table(sst_of(internals, per_block=per_block, restart_every=4))])
    merge = Merge(runs, overlay_of(records[6000:]), delimiter=b",", chunk_bytes=chunk_bytes)
    assert rows(merge) == sorted(model(records, b",").items())


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("overlaid", [0, 1, 500])
@pytest.mark.parametrize(
    "key_of",
    [
        lambda i: b"user-%07d" % i,
        lambda i: b"\xff" * 12 + b"%04d" % i,
        lambda i: b"\xff" * (i % 30) + b"%04d" % (i % 50),
        lambda i: i.to_bytes(2, "big") * 40,
    ],
    ids=["numbers", "the largest heads", "more and more of the largest bytes", "long ones"],
)
@pytest.mark.parametrize("chunk_bytes", [4096, 2 << 20])
def test_values_of_any_number_of_runs(
    runs: int, overlaid: int, key_of: Callable[[int], bytes], chunk_bytes: int
) -> None:
    """Runs are drawn at random, as no processor can guess them; one key in ten is in several runs."""
    random_of = random.Random(runs)
    entries: list[dict[bytes, tuple[int, bytes]]] = [{} for _ in range(runs)]
    expected = {}
    for i in range(3000):
        for again in range(2 if i % 10 == 0 else 1):
            number = random_of.randrange(runs)
            sequence = 1 + (runs - number) * 10_000 + i * 2 + again
            entries[number][key_of(i)] = (sequence, b"%d of %d" % (i, number))
    for run in reversed(entries):
        expected.update({key: value for key, (_, value) in run.items()})
    records = [(PUT, key_of(i), b"newer") for i in random_of.sample(range(3000), overlaid)]
    expected.update({key: value for _, key, value in records})
    files = [
        sst_of([(internal(key, at), value) for key, (at, value) in sorted(run.items())], per_block=50, restart_every=16)
        for run in entries
        if run
    ]
    merge = Merge([[table(file)] for file in files], overlay_of(records), delimiter=b",", chunk_bytes=chunk_bytes)
    assert rows(merge) == sorted(expected.items())


@pytest.mark.parametrize("versions", [1, 2], ids=["a key once in the file", "a key twice in the file"])
@pytest.mark.parametrize("chunk_bytes", [64, 4096, 2 << 20])
def test_changelogs_over_one_file(versions: int, chunk_bytes: int) -> None:
    """A record takes the entry that it replaces with it, and the older records of its key; a made row comes as well."""
    random_of = random.Random(chunk_bytes)
    entries = [(internal(b"%05d" % (i // versions), 9_000 - i % versions), b"old %d" % i) for i in range(4000)]
    records = [
        (random_of.choice([PUT, PUT, PUT, DELETION, MERGE]), b"%05d" % random_of.choice(range(0, 4100, 3)), b"n%d" % i)
        for i in range(3000)
    ]
    records += [(PUT, b"%05d%s" % (i, b"\0" * (i % 3)), b"longer") for i in range(0, 4000, 70)]
    newest = [(PUT, key[:-8], value) for key, value in reversed(entries)]
    merge = Merge(
        [[table(sst_of(entries, per_block=30, restart_every=8))]],
        overlay_of(records),
        delimiter=b",",
        chunk_bytes=chunk_bytes,
    )
    assert rows(merge) == sorted(model(newest + records, b",").items())


def test_a_record_may_be_larger_than_a_chunk() -> None:
    large = [(internal(b"%d" % i), b"%d" % i * 50_000) for i in range(5)]
    overlay = overlay_of([(MERGE, b"2", b"x" * 70_000)])
    found = rows(Merge([[table(sst_of(large))]], overlay, delimiter=b",", chunk_bytes=4096))
    assert [(key, len(value)) for key, value in found] == [
        (b"0", 50_000), (b"1", 50_000), (b"2", 120_001), (b"3", 50_000), (b"4", 50_000),
    ]  # fmt: skip


def test_only_the_blocks_between_the_bounds_are_read() -> None:
    content = sst_of([(internal(b"%05d" % i), b"v") for i in range(3000)])
    asked = []

    def window(at: int, size: int) -> bytes:
        asked.append(at)
        return content[at : at + size]

    opened = open_table(PATH, len(content), lambda at, size: content[at : at + size], window, 0, ALL_KEYS)
    merge = Merge([[opened]], delimiter=b",", first=b"01500", end=b"01501")
    assert rows(merge) == [(b"01500", b"v")]
    assert len(asked) == 1


def test_a_file_whose_index_ends_behind_the_bound_is_not_the_last_one() -> None:
    """An index may end with any key that is not before those of the file, so also behind those of the next file."""
    tables = []
    for first, last in ((b"a", b"z"), (b"b", b"b"), (b"d", b"d")):
        file = File()
        handle = file.add(block_of([(internal(first), b"v")]))
        tables.append(table(file.finish(block_of([(last, handle)]))))
    assert rows(Merge([tables], delimiter=b",", end=b"c")) == [(b"a", b"v"), (b"b", b"v")]
    assert rows(Merge([tables], delimiter=b",", first=b"b", end=b"e")) == [(b"b", b"v"), (b"d", b"v")]


def test_blocks_of_zeros_are_read_however_well_they_compress() -> None:
    zeros = bytes(32 << 20)
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = compress.compress(zeros) + compress.flush()
    assert decompress(2, varint(len(zeros)) + deflated) == zeros
    assert decompress(7, varint(len(zeros)) + pa.compress(zeros, "zstd", asbytes=True)) == zeros
    assert decompress(1, pa.compress(zeros, "snappy", asbytes=True)) == zeros


def test_blocks_that_rocksdb_never_compresses() -> None:
    file = File()
    plain = block_of([(internal(b"a", 1, RANGE_DELETION), bytes(4096))])
    handle = file.add(varint(len(plain)) + pa.compress(plain, "zstd", asbytes=True), 7)
    with pytest.raises(CorruptFileError, match="declares") as caught:
        table(file.finish(block_of([]), more=[(b"rocksdb.range_del", handle)]))
    assert (caught.value.path, caught.value.offset) == (PATH, 0)


def test_values_without_operands_are_read_whatever_would_merge_them() -> None:
    file = File()
    handle = file.add(block_of([(internal(b"a"), b"v")]))
    properties = [(b"rocksdb.index.key.is.user.key", b"\1"), (b"rocksdb.merge.operator", b"UInt64AddOperator")]
    assert merged(file.finish(block_of([(b"a", handle)]), properties=properties)) == [(b"a", b"v")]


@pytest.mark.parametrize("restart_every", [1, 2, 16])
def test_an_index_whose_entries_share_bytes_and_tell_what_sizes_add(restart_every: int) -> None:
    entries = [(internal(b"%03d" % i), b"v" * (i * 7 % 40)) for i in range(200)]
    content = sst_of(entries, per_block=3, restart_every=restart_every, delta_index=True)
    assert merged(content) == [(key[:-8], value) for key, value in entries]
    found = rows(Merge([[table(content)]], delimiter=b",", first=b"150", end=b"153"))
    assert [key for key, _ in found] == [b"150", b"151", b"152"]


@pytest.mark.parametrize("start", [(1 << 31) - 40, (1 << 32) - 40])
@pytest.mark.parametrize("damaged", [False, True])
def test_blocks_behind_two_and_four_gigabytes(start: int, damaged: bool) -> None:
    file = File(start=start)
    blocks = [[(internal(b"%02d" % i), b"v%d" % i) for i in range(at, at + 4)] for at in range(0, 40, 4)]
    handles = [(part[-1][0][:-8], file.add(block_of(part))) for part in blocks]
    content = file.finish(block_of(handles))
    at_last = content.index(b"v39")
    if damaged:
        content = content[:at_last] + b"V" + content[at_last + 1 :]

    def read(offset: int, size: int) -> bytes:
        zeros = bytes(max(start - offset, 0))
        return zeros + content[max(offset - start, 0) : offset - start + size]

    opened = open_table(PATH, start + len(content), read, read, 0, ALL_KEYS)
    assert rows(Merge([[opened]], delimiter=b",", first=b"17", end=b"19")) == [(b"17", b"v17"), (b"18", b"v18")]
    if damaged:
        with pytest.raises(CorruptFileError, match="checksum") as caught:
            rows(Merge([[opened]], delimiter=b","))
        assert start + at_last - 80 < (caught.value.offset or 0) < start + at_last
    else:
        assert len(rows(Merge([[opened]], delimiter=b","))) == 40


def test_a_merge_takes_one_call_at_a_time() -> None:
    content = sst_of([(internal(b"a"), b"v")])
    refused = []

    def window(at: int, size: int) -> bytes:
        with ThreadPoolExecutor(1) as other:
            refused.append(other.submit(merge.read).exception())
        return content[at : at + size]

    opened = open_table(PATH, len(content), lambda at, size: content[at : at + size], window, 0, ALL_KEYS)
    merge = Merge([[opened]], delimiter=b",")
    assert rows(merge) == [(b"a", b"v")]
    assert [(type(error), str(error)) for error in refused] == [
        (RuntimeError, "the object is in use by another thread"),
    ]


@pytest.mark.thorough
def test_many_range_deletions() -> None:
    """Each but the last of a key is older than the key: they stay until they have ended."""
    count = 200_000
    records: list[Record] = []
    for i in range(count):
        records.append((RANGE_DELETION, b"%08d" % i, b"%08d" % (i + 1)))
    records += [(PUT, b"%08d" % i, b"") for i in range(count)]
    assert len(rows(Merge([], overlay_of(records), delimiter=b","))) == count
