"""Loading versions from a partition that a real Spark wrote: two snapshots and the deltas around them."""

from __future__ import annotations

import logging
import random
import shutil
import weakref
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore._cext.key_set import KeySet
from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore.codecs import records
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.lineage import encode_header
from hdfsstore.codecs.records import RecordChunk, RecordFormat
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.reading import Input
from hdfsstore.state.base import key_part
from hdfsstore.state.hdfs import newest_records, partition_reader
from hdfsstore.state.hdfs.partition_reader import HdfsPartitionReader
from hdfsstore.state.versions.files import StateFiles
from tests.support.chains import State, pairs, row
from tests.support.chains import records as encoded
from tests.support.maps import binary
from tests.support.remote_files import RemoteFiles

SOURCE = Path(__file__).parents[3] / "data/spark-4.3.0/snapshots/checkpoint/state/0/0"
LAST = max(int(path.stem) for path in SOURCE.glob("*.delta"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCE, tmp_path / "0"))


@pytest.fixture
def snapshots(folder: Path) -> list[int]:
    versions = sorted(int(path.stem) for path in folder.glob("*.snapshot"))
    assert len(versions) >= 2
    assert versions[-1] <= LAST
    return versions


def loader(folder: Path) -> HdfsPartitionReader:
    return HdfsPartitionReader(LocalFileManager(), str(folder), RecordFormat())


def state(folder: Path, version: int) -> State:
    rows = [pair for chunk in loader(folder).load(version, pairs) for pair in chunk]
    streamed = [pair for chunk in loader(folder).stream(version, pairs) for pair in chunk]
    assert sorted(rows) == sorted(streamed)
    assert len(dict(rows)) == len(rows)
    return dict(rows)  # type: ignore[arg-type]


def test_deltas_that_do_not_fit_into_the_memory_are_read_in_parts(
    folder: Path, snapshots: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "_SAMPLE", 1)
    monkeypatch.setattr(key_part, "LEAST_MEMORY", 1)
    for version in (snapshots[-1], snapshots[-1] - 1, LAST):
        for there in (loader(folder), HdfsPartitionReader(RemoteFiles(), str(folder), RecordFormat())):
            rows = [pair for chunk in there.stream(version, pairs, memory=200) for pair in chunk]
            assert sorted(rows) == sorted(state(folder, version).items())
    path = folder / f"{LAST}.delta"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFileError, match=path.name):
        next(loader(folder).stream(LAST, pairs, memory=200))


def test_a_stream_from_a_remote_storage_asks_for_each_file_once(folder: Path, snapshots: list[int]) -> None:
    for version in (snapshots[-1], LAST):
        expected = sorted(state(folder, version).items())
        asked = []
        for read in (HdfsPartitionReader.load, HdfsPartitionReader.stream):
            files = RemoteFiles()
            reader = HdfsPartitionReader(files, str(folder), RecordFormat())
            rows = [pair for chunk in read(reader, version, pairs) for pair in chunk]
            assert sorted(rows) == expected
            asked.append(files.requests.snapshot().requests)
        assert asked[0] == asked[1]


def replayed(folder: Path, version: int) -> State:
    """The state by applying every delta from the first on."""
    result: State = {}
    chunks = loader(folder).changes(range(1, version + 1), lambda _, chunk: pairs(chunk))
    for key, value in (pair for chunk in chunks for pair in chunk):
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def cut(path: Path) -> None:
    """Cuts the file and takes its checksum file away, so that the cut itself has to be found."""
    path.with_name(f".{path.name}.crc").unlink()
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    """Changes a byte and leaves the checksum file, which knows better."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_every_version_is_what_its_deltas_add_up_to(folder: Path, snapshots: list[int]) -> None:
    assert snapshots
    for version in range(LAST + 1):
        assert state(folder, version) == replayed(folder, version)


def test_files_of_a_remote_storage_are_opened_side_by_side(folder: Path, snapshots: list[int]) -> None:
    remote = RemoteFiles()
    reader = HdfsPartitionReader(remote, str(folder), RecordFormat())
    version = snapshots[0] + 3
    names = rf"^({snapshots[0]}\.snapshot|({version - 2}|{version - 1}|{version})\.delta)$"
    with remote.opened_together(names, 4):
        assert sorted(chain.from_iterable(reader.load(version, pairs))) == sorted(state(folder, version).items())
    with remote.opened_together(r"^[1-4]\.delta$", 4):
        changes = reader.changes(range(1, 5), lambda version, _: version)
    assert sorted(set(changes)) == changes[:: len(changes) // 4] == [1, 2, 3, 4]


@pytest.mark.parametrize("deltas", [1, 3])
def test_a_snapshot_is_on_its_way_while_the_last_of_the_deltas_is_read(
    folder: Path, snapshots: list[int], deltas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    begin = Input.fetch_ahead

    def begins(source: Input) -> None:
        order.append(Path(source.path).name)
        begin(source)

    def convert(chunk: RecordChunk) -> list[tuple[bytes, bytes | None]]:
        order.append("rows")
        return pairs(chunk)

    monkeypatch.setattr(Input, "fetch_ahead", begins)
    version = snapshots[0] + deltas
    rows = loader(folder).load(version, convert)
    # The rows of the last one may all be older than others.
    assert order[:deltas] == ["rows"] * (deltas - 1) + [f"{snapshots[0]}.snapshot"]
    assert sorted(chain.from_iterable(rows)) == sorted(state(folder, version).items())


@pytest.mark.parametrize("chunk_bytes", [1, 64, 500])
def test_files_of_many_chunks(
    folder: Path, snapshots: list[int], chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {version: state(folder, version) for version in (snapshots[0] - 1, LAST)}
    monkeypatch.setattr(records, "CHUNK_BYTES", chunk_bytes)
    for version, rows in expected.items():
        assert state(folder, version) == rows


def test_what_was_converted_is_freed_before_a_delta_is_converted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second record's key comes again in the last chunk, so that none of the first two records' work is kept."""

    class Converted:
        pass

    monkeypatch.setattr(records, "CHUNK_BYTES", 1)
    keys = binary([row(1), row(2), row(3), row(2)])
    content = encode_records(keys, binary([row(0)] * 4), row_checksums=False)
    (tmp_path / "1.delta").write_bytes(compress("lz4", content))
    alive: weakref.WeakSet[Converted] = weakref.WeakSet()
    most: list[int] = []

    def convert(_: RecordChunk) -> Converted:
        most.append(len(alive))
        alive.add(made := Converted())
        return made

    assert len(loader(tmp_path).load(1, convert)) == 3
    assert most == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_snapshot_is_passed_over_with_a_warning(
    folder: Path, snapshots: list[int], damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    expected = state(folder, LAST)
    damage(folder / f"{snapshots[-1]}.snapshot")
    with caplog.at_level(logging.WARNING):
        assert state(folder, LAST) == expected
    assert f"{snapshots[-1]}.snapshot" in caplog.text
    assert f"going on from snapshot {snapshots[-2]} and the deltas" in caplog.text


def test_all_snapshots_damaged_leaves_the_deltas(folder: Path, snapshots: list[int]) -> None:
    expected = state(folder, LAST)
    for version in snapshots:
        cut(folder / f"{version}.snapshot")
    assert state(folder, LAST) == expected


def test_a_damaged_snapshot_without_a_way_around_is_an_error(folder: Path, snapshots: list[int]) -> None:
    for version in snapshots:
        cut(folder / f"{version}.snapshot")
    (folder / "1.delta").unlink()
    with pytest.raises(CorruptFileError, match=rf"/{snapshots[0]}\.snapshot"):
        state(folder, LAST)


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_delta_is_an_error(folder: Path, damage: Callable[[Path], None]) -> None:
    version = max(int(path.stem) for path in folder.glob("*.delta"))
    for snapshot in folder.glob("*.snapshot"):
        snapshot.unlink()
    damage(folder / f"{version}.delta")
    with pytest.raises(CorruptFileError, match=rf"/{version}\.delta"):
        state(folder, version)


def test_bytes_behind_the_end_mark_are_covered_by_the_checksum_file(folder: Path) -> None:
    path = folder / "1.delta"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptFileError, match=r"/1\.delta"):
        loader(folder).load(1, pairs)
    with pytest.raises(CorruptFileError, match=r"/1\.delta"):
        loader(folder).changes(range(1, 2), lambda _, chunk: pairs(chunk))


def test_a_missing_delta_is_an_error(folder: Path, snapshots: list[int]) -> None:
    (folder / f"{snapshots[0] - 1}.delta").unlink()
    with pytest.raises(MissingFileError, match=rf"/{snapshots[0] - 1}\.delta"):
        state(folder, snapshots[0] - 1)
    assert state(folder, LAST)  # A later snapshot does not need it.


def test_files_that_vanish_after_the_listing_are_listed_anew(
    folder: Path, snapshots: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = state(folder, LAST)
    stale = StateFiles.list(LocalFileManager(), str(folder))
    (folder / f"{snapshots[-1]}.snapshot").unlink()
    listings = iter([stale, stale])
    fresh = StateFiles.list
    monkeypatch.setattr(StateFiles, "list", lambda *args: next(listings, None) or fresh(*args))
    rows = [pair for chunk in loader(folder).load(LAST, pairs) for pair in chunk]
    assert dict(rows) == expected


def test_files_that_go_on_vanishing_end_with_a_word_on_retention(
    folder: Path, snapshots: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = StateFiles.list(LocalFileManager(), str(folder))
    (folder / f"{snapshots[-1]}.snapshot").unlink()
    listings = []
    monkeypatch.setattr(StateFiles, "list", lambda *_: listings.append(1) or stale)
    with pytest.raises(BatchNotAvailableError, match="retention passed it"):
        loader(folder).load(LAST, pairs)
    assert len(listings) == 3


def test_changes_of_a_version_without_a_delta(folder: Path, snapshots: list[int]) -> None:
    (folder / f"{snapshots[-1]}.delta").unlink()
    with pytest.raises(BatchNotAvailableError, match="no delta of version"):
        loader(folder).changes(range(snapshots[-1], snapshots[-1] + 1), lambda _, chunk: pairs(chunk))


@pytest.mark.parametrize(
    "side",
    [(".{}.crc", b"crc\0\0\0\2\0cut"), ("{}.crc", b"{}"), ("{}.crc", b"[" * 100_000)],
    ids=["hadoop", "spark", "spark, nested"],
)
def test_a_snapshot_with_a_damaged_checksum_file_is_passed_over(
    folder: Path, snapshots: list[int], side: tuple[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    expected = state(folder, LAST)
    (folder / side[0].format(f"{snapshots[-1]}.snapshot")).write_bytes(side[1])
    with caplog.at_level(logging.WARNING):
        assert state(folder, LAST) == expected
    assert f"going on from snapshot {snapshots[-2]} and the deltas" in caplog.text


def test_bytes_behind_the_end_mark_do_not_overwrite_a_delta_of_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CHUNK_BYTES", 3 * 24)
    keys, values = ([bytes([n]) * 8 for n in range(start, start + 3)] for start in (1, 11))
    delta = encode_records(pa.array(keys), pa.array(values)).to_pybytes()
    assert len(delta) == 3 * 24 + 4  # the end mark starts a chunk of its own
    (tmp_path / "1.delta").write_bytes(compress("lz4", delta + b"\x55" * 60))
    assert state(tmp_path, 1) == dict(zip(keys, values, strict=True))


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_deltas_that_put_a_key_again_and_remove_it(
    tmp_path: Path, seed: int, with_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CHUNK_BYTES", 20 * 24)
    drawn = random.Random(seed)
    expected: State = {}
    lineage: list[tuple[int, str]] = []
    for version in range(1, 5):
        again = version % 2  # so that a key comes again in its delta often, or almost never
        changes = [
            (
                row(drawn.randrange(300 if again else 10**6)),
                None if drawn.random() < 0.3 else row(drawn.randrange(10**6)),
            )
            for _ in range(200)
        ]
        for key, value in changes:
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        lineage.append((version, f"id-{version}"))
        header = encode_header(lineage[:-1]) if with_ids else b""
        content = header + b"".join(encoded({key: value})[:-4] for key, value in changes) + b"\xff" * 4
        name = f"{version}_id-{version}.delta" if with_ids else f"{version}.delta"
        (tmp_path / name).write_bytes(compress("lz4", content))
    ids = dict(lineage) if with_ids else {}
    there = HdfsPartitionReader(LocalFileManager(), str(tmp_path), RecordFormat(), ids)
    loaded = [pair for chunk in there.load(4, pairs) for pair in chunk]
    streamed = [pair for chunk in there.stream(4, pairs) for pair in chunk]
    assert len(loaded) == len(streamed) == len(expected)
    assert dict(loaded) == dict(streamed) == expected
    held: list[KeySet] = []

    class Noted(KeySet):
        def __init__(self) -> None:
            held.append(self)

    monkeypatch.setattr(newest_records, "KeySet", Noted)
    monkeypatch.setattr(partition_reader, "_SAMPLE", 1)
    monkeypatch.setattr(key_part, "LEAST_MEMORY", 1)
    in_parts = [pair for chunk in there.stream(4, pairs, memory=8_000) for pair in chunk]
    assert len(in_parts) == len(expected)
    assert dict(in_parts) == expected
    all_keys = sum(map(len, held))
    assert len(held) == -(-all_keys * (8 + 72) // 8_000) > 2  # keys of 8 bytes
    assert max(map(len, held)) < 2 * all_keys / len(held)


@pytest.mark.parametrize(("last", "times"), [(row(1000), 1), (row(0), 2)], ids=["each once", "a key again"])
def test_a_large_delta_is_read_again_only_where_it_has_a_key_again(
    tmp_path: Path, last: bytes, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CHUNK_BYTES", 20 * 24)
    changes = [row(number) for number in range(100)] + [last]
    delta = encode_records(pa.array(changes), pa.array([row(number) for number in range(101)])).to_pybytes()
    (tmp_path / "1.delta").write_bytes(compress("lz4", delta))
    read: list[int] = []

    class Counted(RecordParser):
        def parse(self, chunk: memoryview, size: int) -> int:
            read.append(super().parse(chunk, size))
            return read[-1]

    monkeypatch.setattr(records, "RecordParser", Counted)
    loaded = [pair for chunk in loader(tmp_path).load(1, pairs) for pair in chunk]
    assert sum(read) == times * len(changes)
    assert dict(loaded)[last] == row(100)
    assert len(loaded) == len(set(changes))


def test_small_files_of_a_chain_are_not_kept_open(tmp_path: Path) -> None:
    for version in range(1, 4):
        delta = encode_records(pa.array([bytes([version]) * 8]), pa.array([b"v" * 8]))
        (tmp_path / f"{version}.delta").write_bytes(compress("lz4", delta))
    streamed = loader(tmp_path).stream(3, pairs)
    rows = next(streamed)
    for version in range(1, 4):
        (tmp_path / f"{version}.delta").write_bytes(b"")
    rows += [pair for chunk in streamed for pair in chunk]
    assert dict(rows) == {bytes([version]) * 8: b"v" * 8 for version in range(1, 4)}
