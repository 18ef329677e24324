"""Loading versions with unique ids: the files that their lineages name, and no other."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import pytest

from hdfsstore.codecs import records
from hdfsstore.codecs.lineage import LineageItem, Reader, read_header
from hdfsstore.codecs.records import RecordFormat, Start
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError, StateStoreError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.hdfs.partition_reader import HdfsPartitionReader
from hdfsstore.state.versions.chain import LineageFiles, VersionFiles, read_version
from hdfsstore.state.versions.files import Chain, VersionId
from tests.support.chains import Changes, State, Watched, pairs, row, write

LOCAL = LocalFileManager()
FORMAT = RecordFormat()


def unique_id(version: int, attempt: str = "a") -> str:
    return f"{attempt}{version:08d}"


def items(*versions: int, attempt: str = "a") -> list[LineageItem]:
    return [LineageItem(version, unique_id(version, attempt)) for version in versions]


def changes_of(version: int) -> Changes:
    """A key of its own, one that all change, and one that every third version removes."""
    return {row(version): row(0), row(1000): row(version), row(2000): row(version) if version % 3 else None}


def state_at(version: int) -> State:
    state: State = {}
    for v in range(1, version + 1):
        for key, value in changes_of(v).items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


def write_deltas(folder: Path, last: int, snapshots: tuple[int, ...] = (), presumed: tuple[int, ...] = ()) -> None:
    """Deltas 1 to `last`, whose lineages begin at the newest version of `presumed`; and snapshots."""
    for version in range(1, last + 1):
        first = max((v for v in presumed if v < version), default=1)
        write(folder, (version, unique_id(version)), "delta", changes_of(version), items(*range(first, version)))
    for version in snapshots:
        write(folder, (version, unique_id(version)), "snapshot", state_at(version))


def chain(fs: object, folder: Path | str, version: int, below: int | None = None) -> Chain:
    files = LineageFiles(fs, str(folder), FORMAT, (version, unique_id(version)))  # type: ignore[arg-type]
    try:
        return files.chain(below)
    finally:
        files.close()


def expected(snapshot: int | None, *deltas: int) -> Chain:
    return Chain(
        None if snapshot is None else (snapshot, unique_id(snapshot)), tuple((v, unique_id(v)) for v in deltas)
    )


def load(folder: Path, version: int, attempt: str = "a") -> State:
    loader = HdfsPartitionReader(LOCAL, str(folder), FORMAT, {version: unique_id(version, attempt)})
    rows = [pair for chunk in loader.load(version, pairs) for pair in chunk]
    streamed = [pair for chunk in loader.stream(version, pairs) for pair in chunk]
    assert sorted(rows) == sorted(streamed)
    assert len(dict(rows)) == len(rows)
    return dict(rows)  # type: ignore[arg-type]


def missing(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The versions of the snapshots that warnings call missing."""
    found = [re.search(r"(\d+)_[^/]*\.snapshot is missing", record.getMessage()) for record in caplog.records]
    return [int(match[1]) for match in found if match]


def test_deltas_from_the_first_on(tmp_path: Path) -> None:
    write_deltas(tmp_path, 5)
    for version in range(1, 6):
        assert chain(LOCAL, tmp_path, version) == expected(None, *range(1, version + 1))
        assert load(tmp_path, version) == state_at(version)


def test_a_snapshot_and_the_deltas_after_it(tmp_path: Path) -> None:
    write_deltas(tmp_path, 9, snapshots=(3, 6), presumed=(3, 6))
    assert chain(LOCAL, tmp_path, 9) == expected(6, 7, 8, 9)
    assert chain(LOCAL, tmp_path, 6) == expected(6)
    assert chain(LOCAL, tmp_path, 5) == expected(3, 4, 5)
    assert chain(LOCAL, tmp_path, 9, below=6) == expected(3, 4, 5, 6, 7, 8, 9)
    assert chain(LOCAL, tmp_path, 9, below=3) == expected(None, *range(1, 10))
    for version in range(1, 10):
        assert load(tmp_path, version) == state_at(version)


def test_only_files_that_are_named_are_opened_and_each_once(tmp_path: Path) -> None:
    write_deltas(tmp_path, 9, snapshots=(3, 6), presumed=(3, 6))
    watched = Watched(tmp_path)
    loader = HdfsPartitionReader(watched.filesystem, ".", FORMAT, {9: unique_id(9)})
    assert dict(pair for chunk in loader.load(9, pairs) for pair in chunk) == state_at(9)
    names = [f"{v}_{unique_id(v)}" for v in range(10)]
    assert sorted(watched.opened) == [f"{names[6]}.snapshot", *(f"{names[v]}.delta" for v in (7, 8, 9))]
    assert set(watched.missed) == {f"{names[9]}.snapshot"}


def test_presumed_snapshots_missing_several_times_in_a_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_deltas(tmp_path, 9, snapshots=(2,), presumed=(2, 4, 5, 8))
    assert chain(LOCAL, tmp_path, 9) == expected(2, *range(3, 10))
    assert missing(caplog) == [8, 5, 4]
    assert load(tmp_path, 9) == state_at(9)
    (tmp_path / f"2_{unique_id(2)}.snapshot").unlink()
    caplog.clear()
    assert chain(LOCAL, tmp_path, 9) == expected(None, *range(1, 10))
    assert missing(caplog) == [8, 5, 4, 2]
    assert load(tmp_path, 9) == state_at(9)


def test_no_snapshot_is_missed_before_there_is_one_or_below_a_damaged_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_deltas(tmp_path, 9, snapshots=(3, 6), presumed=(3, 6))
    assert chain(LOCAL, tmp_path, 2) == expected(None, 1, 2)
    assert chain(LOCAL, tmp_path, 9, below=6) == expected(3, 4, 5, 6, 7, 8, 9)
    assert missing(caplog) == []


def test_a_snapshot_that_shows_up_late(tmp_path: Path) -> None:
    write_deltas(tmp_path, 9, presumed=(8,))
    assert chain(LOCAL, tmp_path, 9) == expected(None, *range(1, 10))
    write(tmp_path, (8, unique_id(8)), "snapshot", state_at(8))
    assert chain(LOCAL, tmp_path, 9) == expected(8, 9)
    assert load(tmp_path, 9) == state_at(9)


def test_retention_has_passed_where_a_lineage_begins(tmp_path: Path) -> None:
    """Versions 5 to 9 were written before their writer knew of the snapshots 5 and 7; 1 to 4 are not needed since."""
    write_deltas(tmp_path, 9, snapshots=(5, 7))
    for version in range(1, 5):
        (tmp_path / f"{version}_{unique_id(version)}.delta").unlink()
    watched = Watched(tmp_path)
    assert chain(watched.filesystem, Path(), 9) == expected(7, 8, 9)  # and nothing is listed
    assert chain(LOCAL, tmp_path, 9, below=7) == expected(5, 6, 7, 8, 9)
    assert chain(LOCAL, tmp_path, 6) == expected(5, 6)
    for version in range(5, 10):
        assert load(tmp_path, version) == state_at(version)
    with pytest.raises(BatchNotAvailableError, match="retention has removed"):
        chain(LOCAL, tmp_path, 9, below=5)


def test_retention_passes_while_a_version_is_read(tmp_path: Path) -> None:
    """It was to be read from snapshot 2 and the deltas after it, which are deleted just then: there is snapshot 5."""
    write_deltas(tmp_path, 9, snapshots=(2, 5), presumed=(2,))
    reads = []

    def read(files: VersionFiles, found: Chain) -> list[str]:
        reads.append(found)
        if len(reads) == 1:
            for version in range(1, 5):
                for file in tmp_path.glob(f"{version}_*"):
                    file.unlink()
        for version_id in found.deltas:
            files.open(version_id, "delta").close()
        return [str(version_id[0]) for version_id in found.deltas]

    assert read_version(LOCAL, str(tmp_path), FORMAT, (9, unique_id(9)), read) == ["6", "7", "8", "9"]
    assert reads == [expected(2, *range(3, 10)), expected(5, 6, 7, 8, 9)]


def test_files_of_other_attempts_are_never_used(tmp_path: Path) -> None:
    write_deltas(tmp_path, 4, snapshots=(2,))
    wrong = {row(9): row(9)}
    for version in (2, 3, 4):
        write(tmp_path, (version, unique_id(version, "b")), "snapshot", wrong)
        write(tmp_path, (version, unique_id(version, "b")), "delta", wrong, items(*range(1, version)))
        write(tmp_path, (version, None), "snapshot", wrong)
        write(tmp_path, (version, None), "delta", wrong)
    assert load(tmp_path, 4) == state_at(4)
    (tmp_path / f"2_{unique_id(2)}.delta").unlink()
    (tmp_path / f"2_{unique_id(2)}.snapshot").unlink()
    with pytest.raises(MissingFileError, match=rf"/2_{unique_id(2)}\.delta"):
        load(tmp_path, 4)


def test_a_listing_takes_no_file_with_an_id(tmp_path: Path) -> None:
    write_deltas(tmp_path, 3, snapshots=(2,))
    loader = HdfsPartitionReader(LOCAL, str(tmp_path), FORMAT)
    for version in range(1, 4):
        with pytest.raises(BatchNotAvailableError):
            loader.load(version, pairs)
    write(tmp_path, (1, None), "delta", {row(5): row(6)})
    assert loader.load(1, pairs) == [[(row(5), row(6))]]
    with pytest.raises(BatchNotAvailableError, match="the newest is 1"):
        loader.load(2, pairs)


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_deltas(tmp_path, 9, snapshots=(3, 6), presumed=(3, 6))
    damage(tmp_path / f"6_{unique_id(6)}.snapshot")
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path, 9) == state_at(9)
    assert f"going on from snapshot 3 ({unique_id(3)})" in caplog.text
    damage(tmp_path / f"3_{unique_id(3)}.snapshot")
    assert load(tmp_path, 9) == state_at(9)
    (tmp_path / f"1_{unique_id(1)}.delta").unlink()
    with pytest.raises(CorruptFileError, match=rf"/3_{unique_id(3)}\.snapshot"):
        load(tmp_path, 9)


@pytest.mark.parametrize("version", [4, 7, 9])
def test_a_damaged_delta_is_an_error(tmp_path: Path, version: int) -> None:
    write_deltas(tmp_path, 9, presumed=(3, 6))
    damage(tmp_path / f"{version}_{unique_id(version)}.delta")
    with pytest.raises(CorruptFileError, match=rf"/{version}_{unique_id(version)}\.delta"):
        load(tmp_path, 9)


def test_missing_files(tmp_path: Path) -> None:
    write_deltas(tmp_path, 9, snapshots=(2,), presumed=(2, 5))
    with pytest.raises(BatchNotAvailableError, match=rf"no state of version 9 \({unique_id(9, 'b')}\)"):
        load(tmp_path, 9, "b")
    with pytest.raises(BatchNotAvailableError, match="no state of version 10"):
        load(tmp_path, 10)
    for version, needed_by in ((7, 9), (4, 6)):
        (tmp_path / f"{version}_{unique_id(version)}.delta").unlink()
        with pytest.raises(MissingFileError, match=rf"/{version}_{unique_id(version)}\.delta"):
            load(tmp_path, needed_by)
    for version in (1, 2, 3):
        (tmp_path / f"{version}_{unique_id(version)}.delta").unlink()
    (tmp_path / f"2_{unique_id(2)}.snapshot").unlink()
    with pytest.raises(MissingFileError, match=rf"/2_{unique_id(2)}\.delta"):  # no snapshot above: not retention
        load(tmp_path, 6)
    write(tmp_path, (8, unique_id(8)), "snapshot", state_at(8))
    with pytest.raises(BatchNotAvailableError, match="retention has removed"):
        load(tmp_path, 6)


@pytest.mark.parametrize("with_ids", [False, True])
def test_the_newest_delta_is_named_where_it_is_gone(tmp_path: Path, with_ids: bool) -> None:
    name = f"9_{unique_id(9)}" if with_ids else "9"
    write_deltas(tmp_path, 9)
    for version in range(1, 10):
        write(tmp_path, (version, None), "delta", changes_of(version))
    (tmp_path / f"{name}.delta").unlink()
    loader = HdfsPartitionReader(LOCAL, str(tmp_path), FORMAT, {9: unique_id(9)} if with_ids else {})
    with pytest.raises(BatchNotAvailableError, match=rf"/{name}\.delta.*this file is missing"):
        loader.load(9, pairs)


def test_only_below_a_snapshot_can_retention_have_removed_a_delta(tmp_path: Path) -> None:
    for version in range(2, 6):
        write(tmp_path, (version, None), "delta", changes_of(version))
    loader = HdfsPartitionReader(LOCAL, str(tmp_path), FORMAT)
    with pytest.raises(MissingFileError, match=r"/1\.delta"):
        loader.load(3, pairs)
    write(tmp_path, (5, None), "snapshot", state_at(5))
    with pytest.raises(BatchNotAvailableError, match=r"retention has removed .* is 5: read a later batch"):
        loader.load(3, pairs)


@pytest.mark.parametrize(
    "lineage", [items(1, 3), items(2, 1), items(2, 3), items(1, 2, 3), items(2, 2), items(1)], ids=str
)
def test_a_lineage_that_contradicts_itself(tmp_path: Path, lineage: list[LineageItem]) -> None:
    write_deltas(tmp_path, 4)
    write(tmp_path, (3, unique_id(3)), "delta", changes_of(3), lineage)
    with pytest.raises(CorruptFileError, match=rf"/3_{unique_id(3)}\.delta.*lineage of version 3 names"):
        load(tmp_path, 3)
    with pytest.raises(CorruptFileError, match=rf"/3_{unique_id(3)}\.delta"):
        load(tmp_path, 4)


@pytest.mark.parametrize("lineage", [items(1, 2, attempt="b"), [*items(1), *items(2, attempt="b")], []])
def test_deltas_whose_lineages_contradict_each_other(tmp_path: Path, lineage: list[LineageItem]) -> None:
    write_deltas(tmp_path, 5)
    write(tmp_path, (3, unique_id(3)), "delta", changes_of(3), lineage)
    with pytest.raises(CorruptFileError, match=rf"/3_{unique_id(3)}\.delta.* built on "):
        load(tmp_path, 5)


def test_the_first_version_after_one_without_an_id_needs_its_snapshot(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write(tmp_path, (version, None), "delta", changes_of(version))
    write(tmp_path, (4, unique_id(4)), "delta", changes_of(4), [])
    write(tmp_path, (4, unique_id(4)), "snapshot", state_at(4))
    write(tmp_path, (5, unique_id(5)), "delta", changes_of(5), items(4))
    assert load(tmp_path, 5) == state_at(5)
    assert load(tmp_path, 4) == state_at(4)
    (tmp_path / f"4_{unique_id(4)}.snapshot").unlink()
    for version in (4, 5):
        with pytest.raises(MissingFileError, match=rf"/4_{unique_id(4)}\.snapshot"):
            load(tmp_path, version)


def test_version_0_is_empty() -> None:
    assert read_version(LOCAL, "/nowhere", FORMAT, (0, None), lambda _, chain: chain) == Chain(None, ())


@pytest.mark.parametrize("version_id", [(2, None), (2, unique_id(2))])
def test_a_store_does_not_take_a_missing_version_for_the_empty_one(tmp_path: Path, version_id: VersionId) -> None:
    with pytest.raises(BatchNotAvailableError, match="no state of version 2"):
        read_version(LOCAL, str(tmp_path), FORMAT, version_id, lambda _, chain: chain)


@pytest.mark.parametrize("chunk_bytes", [1, 50, 70])
def test_files_of_many_chunks(tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltas(tmp_path, 9, snapshots=(3,), presumed=(3, 6))
    monkeypatch.setattr(records, "CHUNK_BYTES", chunk_bytes)
    for version in range(1, 10):
        assert load(tmp_path, version) == state_at(version)


def test_offsets_count_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, (2, unique_id(2)), "delta", {b"not a row": b"x"}, items(1))
    loader = HdfsPartitionReader(LOCAL, str(tmp_path), RecordFormat(max_record_bytes=8), {2: unique_id(2)})
    with pytest.raises(StateStoreError, match="decompressed") as caught:
        loader.changes([2], lambda _, chunk: pairs(chunk))
    assert caught.value.path == str(path)
    assert caught.value.offset is not None
    assert caught.value.offset >= len('vX[{"version":1,"checkpointUniqueId":"a00000001"}]') + 4


def test_changes(tmp_path: Path) -> None:
    for version in (1, 2):
        write(tmp_path, (version, None), "delta", changes_of(version))
    write(tmp_path, (3, unique_id(3)), "snapshot", state_at(3))
    for version in (4, 5):
        write(tmp_path, (version, unique_id(version)), "delta", changes_of(version), items(*range(3, version)))
    loader = HdfsPartitionReader(LOCAL, str(tmp_path), FORMAT, {v: unique_id(v) for v in (3, 4, 5)})

    def changed(*versions: int) -> list[tuple[int, dict[bytes, bytes | None]]]:
        return loader.changes(versions, lambda version, chunk: (version, dict(pairs(chunk))))

    assert changed(1, 2) == [(v, changes_of(v)) for v in (1, 2)]
    assert changed(4, 5) == [(v, changes_of(v)) for v in (4, 5)]
    assert changed() == []
    with pytest.raises(BatchNotAvailableError, match=r"no delta of version 3 .*only a snapshot"):
        changed(2, 3, 4)


def test_a_long_chain_needs_few_file_descriptors(tmp_path: Path) -> None:
    write_deltas(tmp_path, 300, presumed=tuple(range(1, 300, 3)))
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Other tests leave some open, with free numbers between them: those are taken, so that 80 are left.
    taken = [os.open(os.devnull, os.O_RDONLY)]
    highest = max(int(path.name) for path in Path("/dev/fd").iterdir())
    while taken[-1] < highest:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 81, hard))
    try:
        assert load(tmp_path, 300) == state_at(300)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def test_a_read_that_was_given_up_takes_no_file_in_which_a_chain_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a damaged snapshot a delta of the former chain may still be read beside the search for an older one."""
    write_deltas(tmp_path, 4)
    files = LineageFiles(LOCAL, str(tmp_path), FORMAT, (4, unique_id(4)))

    def beside(reader: Reader, path: str, version: int, **options: bool) -> tuple[list[LineageItem], Start]:
        given_up = files.open((4, unique_id(4)), "delta")
        given_up.readinto(bytearray(1 << 16))
        given_up.close()
        return read_header(reader, path, version, **options)

    monkeypatch.setattr("hdfsstore.state.versions.chain.read_header", beside)
    assert [version for version, _ in files.chain().deltas] == [1, 2, 3, 4]
    files.close()
