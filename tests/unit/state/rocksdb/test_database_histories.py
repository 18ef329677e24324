"""Random histories that RocksDB has written under random options: our rows are those that RocksDB itself reads."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import BlockBasedOptions, CompactOptions, IngestExternalFileOptions, Options, Rdict, SstFileWriter

from tests.support.databases import CHECKSUMS, COMPRESSIONS, archive_of, opened, options, rows_of

KEYS = st.builds(
    lambda number, kind: (b"%03d" % number, b"\0" * 9 + bytes((number,)), b"key" * 30 + bytes((number,)))[kind],
    st.integers(0, 60),
    st.integers(0, 2),
)
VALUES = st.binary(max_size=60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("delete"), KEYS, st.none()),
        st.tuples(st.just("delete range"), KEYS, KEYS),
        st.tuples(st.just("ingest"), st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), st.none()),
        st.tuples(st.just("flush"), st.none(), st.none()),
        st.tuples(st.just("compact"), st.none(), st.none()),
    ),
    max_size=80,
)


def play(database: Rdict, steps: list[tuple[str, object, object]], how: Options, folder: Path) -> None:
    for number, (step, first, second) in enumerate(steps):
        if step == "put":
            database[first] = second
        elif step == "delete":
            database.delete(first)
        elif step == "delete range" and first < second:  # type: ignore[operator]
            database.delete_range(first, second)
        elif step == "ingest":
            path = str(folder / f"{number}.sst")
            writer = SstFileWriter(how)
            writer.open(path)
            for key, value in sorted(first.items()):  # type: ignore[attr-defined]
                writer[key] = value
            writer.finish()
            database.ingest_external_file([path], IngestExternalFileOptions())
        elif step == "flush":
            database.flush()
        elif step == "compact":
            database.compact_range(None, None, CompactOptions())


@settings(max_examples=60)
@given(
    steps=STEPS,
    format_version=st.integers(2, 6),
    compression=st.sampled_from(COMPRESSIONS),
    checksum=st.sampled_from(CHECKSUMS),
    block_size=st.sampled_from([64, 300, 4096]),
    index_restarts=st.sampled_from([1, 2, 16]),
    bounds=st.tuples(st.none() | KEYS, st.none() | KEYS),
)
def test_histories(
    steps: list[tuple[str, object, object]],
    format_version: int,
    compression: str,
    checksum: str,
    block_size: int,
    index_restarts: int,
    bounds: tuple[bytes | None, bytes | None],
) -> None:
    def small_files(found: Options, _: BlockBasedOptions) -> None:
        found.set_target_file_size_base(600)  # a compaction writes several files, which share range deletions
        found.set_max_bytes_for_level_base(2000)

    how = options(
        format_version=format_version,
        compression=compression,
        checksum=checksum,
        block_size=block_size,
        index_restarts=index_restarts,
        change=small_files,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        database = Rdict(str(folder / "db"), how)
        play(database, steps, how, folder)
        database.flush()
        rows = list(database.items())
        database.close()
        ours = opened(archive_of(folder / "db", folder), folder)
        assert rows_of(ours.chunks()) == rows
        first, end = bounds
        assert rows_of(ours.chunks(first=first, end=end)) == [
            row for row in rows if (first is None or row[0] >= first) and (end is None or row[0] < end)
        ]
