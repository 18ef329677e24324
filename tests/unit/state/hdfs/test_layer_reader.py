"""Loading a version into memory: the snapshot as an image, the deltas as layers."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.records import encode_records
from hdfsstore._cext.versioned_map import VersionedMap
from hdfsstore.codecs import records
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.lineage import LineageItem
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.hdfs.layer_reader import Loaded, StoreReader
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import StateFiles, VersionId
from tests.support.chains import Changes, State, Watched, row, write
from tests.support.chains import records as hand_made

LOCAL = LocalFileManager()
FORMAT = RecordFormat()


def version_id(version: int, with_ids: bool) -> VersionId:
    return version, f"id-{version}" if with_ids else None


def changes_of(version: int) -> Changes:
    removed: Changes = {row(version - 2): None} if version > 2 else {}
    return {row(version): row(0), row(1000): row(version), **removed}


def state_at(version: int) -> State:
    state: State = {}
    for v in range(1, version + 1):
        for key, value in changes_of(v).items():
            state.pop(key, None)
            if value is not None:
                state[key] = value
    return state


def write_versions(folder: Path, last: int, snapshots: tuple[int, ...], with_ids: bool) -> None:
    for version in range(1, last + 1):
        lineage = [LineageItem(v, f"id-{v}") for v in range(1, version)] if with_ids else None
        write(folder, version_id(version, with_ids), "delta", changes_of(version), lineage)
        if version in snapshots:
            write(folder, version_id(version, with_ids), "snapshot", state_at(version))


def rows(loaded: Loaded) -> State:
    versions = VersionedMap(loaded.image)
    layer = 0
    for delta in loaded.deltas:
        layer = versions.add(layer, delta.layer)
    found = [
        pair
        for keys, values in versions.transaction(layer).scan()
        for pair in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    ]
    assert len(dict(found)) == len(found) == versions.num_keys(layer)
    return dict(found)


def load(folder: Path, version: int, with_ids: bool) -> Loaded:
    return StoreReader(LOCAL, str(folder), FORMAT).version(version_id(version, with_ids))


def digest_of(path: Path) -> FileDigest:
    content = path.read_bytes()
    kind = "delta" if path.suffix == ".delta" else "snapshot"
    return FileDigest(kind, len(content), crc32c(content), path.stat().st_mtime_ns)


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("snapshots", [(), (1,), (2, 5)])
def test_every_version(tmp_path: Path, snapshots: tuple[int, ...], with_ids: bool) -> None:
    write_versions(tmp_path, 6, snapshots, with_ids)
    for version in range(1, 7):
        loaded = load(tmp_path, version, with_ids)
        assert rows(loaded) == state_at(version)
        # Its lineage begins at version 1, and so only a version's own snapshot is found, or the first.
        usable = [v for v in snapshots if v <= version and (not with_ids or v in (1, version))]
        base = max(usable, default=0)
        assert loaded.image_id == (version_id(base, with_ids) if base else (0, None))
        assert [delta.id for delta in loaded.deltas] == [version_id(v, with_ids) for v in range(base + 1, version + 1)]


def test_lineages_begin_at_the_snapshot_that_was_loaded(tmp_path: Path) -> None:
    write_versions(tmp_path, 4, (1,), True)
    loaded = load(tmp_path, 4, True)
    ids = [version_id(v, True) for v in range(1, 5)]
    assert [delta.lineage for delta in loaded.deltas] == [(ids[0],), (ids[0], ids[1]), (ids[0], ids[1], ids[2])]
    (tmp_path / "1_id-1.snapshot").unlink()
    assert [delta.lineage for delta in load(tmp_path, 2, True).deltas] == [(), (ids[0],)]


def test_without_ids_there_are_digests(tmp_path: Path) -> None:
    write_versions(tmp_path, 3, (2,), False)
    behind = random.Random(1).randbytes(3_000_000)  # after the end mark, so not read for its records
    (tmp_path / "3.delta").write_bytes(compress("lz4", hand_made(changes_of(3)) + behind))
    loaded = load(tmp_path, 3, False)
    assert loaded.digest == digest_of(tmp_path / "2.snapshot")
    assert [(delta.digest, delta.lineage) for delta in loaded.deltas] == [
        (digest_of(tmp_path / "3.delta"), ((2, None),))
    ]


def test_with_ids_there_are_no_digests(tmp_path: Path) -> None:
    write_versions(tmp_path, 3, (1,), True)
    loaded = load(tmp_path, 3, True)
    assert [loaded.digest, *(delta.digest for delta in loaded.deltas)] == [None] * 3


def test_a_named_version_is_loaded_without_listing(tmp_path: Path) -> None:
    write_versions(tmp_path, 3, (1,), True)
    watched = Watched(tmp_path)
    loaded = StoreReader(watched.filesystem, ".", FORMAT).version(version_id(3, True))
    assert rows(loaded) == state_at(3)
    assert sorted(watched.opened) == ["1_id-1.snapshot", "2_id-2.delta", "3_id-3.delta"]


@pytest.mark.parametrize("with_ids", [False, True])
def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, with_ids: bool, caplog: pytest.LogCaptureFixture) -> None:
    write_versions(tmp_path, 5, (1, 5), with_ids)
    path = Path(StateFiles.path_of(str(tmp_path), version_id(5, with_ids), "snapshot"))
    path.write_bytes(path.read_bytes()[:-30])
    with caplog.at_level(logging.WARNING):
        loaded = load(tmp_path, 5, with_ids)
    assert rows(loaded) == state_at(5)
    assert loaded.image_id == version_id(1, with_ids)
    assert path.name in caplog.text


def test_snapshots_that_are_damaged_in_their_records(tmp_path: Path) -> None:
    write_versions(tmp_path, 3, (), False)
    write(tmp_path, (3, None), "snapshot", {row(1): None})  # a tombstone
    assert rows(load(tmp_path, 3, False)) == state_at(3)


@pytest.mark.parametrize("with_ids", [False, True])
def test_damaged_and_missing_deltas(tmp_path: Path, with_ids: bool) -> None:
    write_versions(tmp_path, 4, (), with_ids)
    path = Path(StateFiles.path_of(str(tmp_path), version_id(3, with_ids), "delta"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptFileError, match=path.name):
        load(tmp_path, 4, with_ids)
    path.unlink()
    with pytest.raises(MissingFileError, match=path.name):
        load(tmp_path, 4, with_ids)
    with pytest.raises(BatchNotAvailableError):
        load(tmp_path, 9, with_ids)
    with pytest.raises(BatchNotAvailableError):
        load(tmp_path / "nowhere", 1, with_ids)


def test_files_that_vanish_after_the_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_versions(tmp_path, 4, (2, 3), False)
    listings = iter([StateFiles.list(LOCAL, str(tmp_path))])
    (tmp_path / "3.snapshot").unlink()
    fresh = StateFiles.list
    monkeypatch.setattr(StateFiles, "list", lambda *args: next(listings, None) or fresh(*args))
    loaded = load(tmp_path, 4, False)
    assert loaded.image_id == (2, None)
    assert rows(loaded) == state_at(4)


@pytest.mark.parametrize("chunk_bytes", [1, 60])
def test_files_of_many_chunks(tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write_versions(tmp_path, 4, (1, 3), True)
    monkeypatch.setattr(records, "CHUNK_BYTES", chunk_bytes)
    for version in range(1, 5):
        assert rows(load(tmp_path, version, True)) == state_at(version)


def test_row_checksums(tmp_path: Path) -> None:
    keys, values = pa.array([row(1), row(2)], pa.binary()), pa.array([row(3), row(4)], pa.binary())
    content = encode_records(keys, values, row_checksums=True).to_pybytes()
    for name in ("1.snapshot", "2.delta"):
        (tmp_path / name).write_bytes(compress("zstd", content))
    reader = StoreReader(LOCAL, str(tmp_path), RecordFormat("zstd", row_checksums=True))
    loaded = reader.version((2, None))
    assert rows(loaded) == {row(1): row(3), row(2): row(4)}
    assert loaded.image.records.to_pybytes() == loaded.deltas[0].layer.records.to_pybytes() == content
    (tmp_path / "2.delta").write_bytes(compress("zstd", content[:-6] + b"x" + content[-5:]))
    with pytest.raises(CorruptFileError, match="checksum"):
        reader.version((2, None))


def test_one_delta(tmp_path: Path) -> None:
    write_versions(tmp_path, 3, (), True)
    write_versions(tmp_path, 3, (), False)
    reader = StoreReader(LOCAL, str(tmp_path), FORMAT)
    plain, named = (reader.delta(version_id(3, with_ids)) for with_ids in (False, True))
    assert plain.layer.records.to_pybytes() == named.layer.records.to_pybytes()
    assert plain.layer.num_records == len(changes_of(3))
    assert (plain.lineage, plain.digest) == ((), digest_of(tmp_path / "3.delta"))
    assert (named.lineage, named.digest) == (((1, "id-1"), (2, "id-2")), None)
    for missing in ((4, None), (3, "id-4")):
        with pytest.raises(FileNotFoundError):
            reader.delta(missing)
    (tmp_path / "5_id-5.delta").write_bytes((tmp_path / "3.delta").read_bytes())
    with pytest.raises(CorruptFileError, match="'v3'"):
        reader.delta((5, "id-5"))
