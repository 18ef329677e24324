"""What a commit writes: lineages, full snapshots at a switch of the format, and requests to an object store."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem

from hdfsstore.codecs.lineage import LineageItem, fits
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.errors import StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.state.hdfs.cached_versions import HdfsVersions
from hdfsstore.state.hdfs.committer import HdfsCommitter
from hdfsstore.state.hdfs.layer_reader import StoreReader
from hdfsstore.state.hdfs.loader import HdfsLoader
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.indexes import no_indexes
from hdfsstore.state.local.image_cache import ImageCache
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.versions.files import VersionId
from tests.support.chains import write
from tests.support.partition import EMPTY, Partition, read, ref
from tests.unit.state.hdfs.executors import chain, commit, lineage_of, path_of, rows_at


def test_the_lineage_is_all_versions_where_there_is_no_snapshot(executors: Partition) -> None:
    versions = chain(executors.open(), 4)
    assert [lineage_of(executors, version) for version in versions[1:]] == [versions[1:i] for i in range(1, 5)]


def test_the_lineage_begins_at_the_snapshot_that_was_uploaded(executors: Partition) -> None:
    provider = executors.open(min_deltas_for_snapshot=2)
    versions = chain(provider, 3)
    provider.do_maintenance()
    versions += chain(provider, 2, versions[3])[1:]
    assert executors.names("*.snapshot") == [path_of(executors, versions[3], "snapshot").name]
    assert [lineage_of(executors, version) for version in versions[3:]] == [versions[1:3], versions[3:4], versions[3:5]]


def test_the_lineage_begins_at_the_snapshot_that_was_loaded(executors: Partition) -> None:
    provider = executors.open(min_deltas_for_snapshot=2)
    versions = chain(provider, 3)
    provider.do_maintenance()
    elsewhere = executors.open("elsewhere")
    versions += chain(elsewhere, 2, versions[3])[1:]
    assert [lineage_of(executors, version) for version in versions[4:]] == [versions[3:4], versions[3:5]]


def test_each_attempt_has_the_lineage_of_its_own(executors: Partition) -> None:
    one, two = executors.open("one"), executors.open("two")
    versions = chain(one, 2)
    other = commit(two, versions[1], {b"other": b"2"})
    assert lineage_of(executors, commit(one, versions[2])) == versions[1:3]
    assert lineage_of(executors, commit(two, other)) == [versions[1], other]
    assert lineage_of(executors, commit(one, other)) == [versions[1], other]


def long_chain(executors: Partition, count: int) -> list[VersionId]:
    """So many versions without a snapshot; the lineage of each is only the one before."""
    executors.folder.mkdir(parents=True)
    versions: list[VersionId] = [EMPTY]
    for number in range(1, count + 1):
        lineage = [LineageItem(version, str(unique_id)) for version, unique_id in versions[-1:] if version]
        versions.append((number, str(uuid.uuid4())))
        write(executors.folder, versions[-1], "delta", {b"k": b"%d" % number, b"%d" % number: b""}, lineage)
    return versions


def test_a_lineage_that_no_header_can_hold_is_cut(executors: Partition) -> None:
    versions = long_chain(executors, 840)
    provider = executors.open()
    for _ in range(25):
        versions.append(commit(provider, versions[-1]))
    lineages = [lineage_of(executors, version) for version in versions[841:]]
    assert all(lineage == versions[lineage[0].version : 841 + i] for i, lineage in enumerate(lineages))
    assert lineages[0] == versions[1:841]
    assert 0 < lineages[-1][0].version < 20
    assert fits(lineages[-1])
    assert not fits([*lineages[-1], lineages[-1][-1]])
    assert len(read(executors.open("elsewhere"), versions[-1])) == 866


def test_it_is_cut_where_a_snapshot_was_tried(executors: Partition) -> None:
    versions = long_chain(executors, 840)
    provider = executors.open()
    provider.versions.lineages.note_attempt(versions[500])
    for _ in range(25):
        versions.append(commit(provider, versions[-1]))
    assert lineage_of(executors, versions[-1]) == versions[500:-1]
    assert len(read(executors.open("elsewhere"), versions[-1])) == 866


@pytest.mark.parametrize("formats", [(1, 2), (2, 1)])
def test_the_first_version_after_a_switch_is_a_full_snapshot(tmp_path: Path, formats: tuple[int, int]) -> None:
    executors = Partition(tmp_path, checkpoint_format_version=formats[0])
    versions = chain(executors.open(), 3)
    before = executors.names()
    provider = executors.open("switched", checkpoint_format_version=formats[1])
    versions += chain(provider, 1, versions[3])[1:]
    assert executors.names() == [*before, path_of(executors, versions[4], "snapshot").name]
    assert provider.metrics["forceSnapshotCount"] == 1
    for name in before:
        (executors.folder / name).unlink()
    versions += chain(provider, 2, versions[4])[1:]
    elsewhere = executors.open("elsewhere", checkpoint_format_version=formats[1])
    assert [read(elsewhere, version) for version in versions[4:]] == [rows_at(version) for version in (4, 5, 6)]
    if formats[1] == 2:
        assert [lineage_of(executors, version) for version in versions[5:]] == [versions[4:5], versions[4:6]]
    executors.close()


def test_back_and_forth(tmp_path: Path) -> None:
    executors = Partition(tmp_path)
    versions = [EMPTY]
    for number in (2, 2, 1, 1, 1, 2, 1, 2, 2):
        provider = executors.open(f"host {len(versions)}", checkpoint_format_version=number)
        versions.append(commit(provider, versions[-1]))
        assert read(provider, versions[-1]) == rows_at(len(versions) - 1)
    cold = executors.open("elsewhere")
    assert [read(cold, version) for version in versions] == [rows_at(number) for number in range(10)]
    executors.close()


def test_what_an_abandoned_run_left_is_not_mixed_in(tmp_path: Path) -> None:
    """Batch 3 was run in version 1 of the format, then again from a version that has an id."""
    executors = Partition(tmp_path, checkpoint_format_version=1)
    old = chain(executors.open("old"), 4)
    with_ids = executors.open("with ids", checkpoint_format_version=2)
    two = commit(with_ids, old[1], {b"other": b"2"})
    provider = executors.open("new")
    three = commit(provider, two, {b"other": b"3"})
    assert executors.names("3.*") == ["3.snapshot"]
    four = commit(provider, three, {b"other": b"4"})
    assert read(executors.open("elsewhere"), four) == {**rows_at(1), b"other": b"4"}
    executors.close()


def test_a_failed_switch_leaves_what_was_there(tmp_path: Path) -> None:
    executors = Partition(tmp_path, checkpoint_format_version=1)
    versions = chain(executors.open(), 3)
    provider = executors.open(checkpoint_format_version=2)
    store = provider.get_store(*versions[3])
    away = executors.folder.with_name("away")
    executors.folder.rename(away)
    executors.folder.write_bytes(b"in the way")
    with pytest.raises(StateStoreError, match=str(executors.folder)):
        store.commit()
    executors.folder.unlink()
    away.rename(executors.folder)
    assert executors.names("*.snapshot") == []
    assert read(provider, commit(provider, versions[3])) == rows_at(4)
    executors.close()


def test_versions_of_the_two_formats_are_never_mixed(executors: Partition) -> None:
    """A version of an id is not taken for the one without, whatever lies beside it."""
    versions = chain(executors.open(), 2)
    provider = executors.open("elsewhere", checkpoint_format_version=1)
    with pytest.raises(StateStoreError):
        provider.get_store(2)
    commit(provider, versions[1], {b"other": b"2"})
    assert read(provider, (2, None)) == {**rows_at(1), b"other": b"2"}
    assert read(provider, versions[2]) == rows_at(2)


class ObjectStore:
    """An object store by fsspec's methods, on a local folder, that counts what it is asked for."""

    protocol = "s3"
    storage_options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: Counter[str] = Counter()

    @property
    def filesystem(self) -> FileManager:
        return ArrowFileManager(PyFileSystem(FSSpecHandler(self)))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it is asked for {name}")

    def isfile(self, path: str) -> bool:
        return (self.root / path).is_file()

    def open(self, path: str, mode: str) -> object:
        if mode == "rb":
            self.asked["GET"] += 1
            return (self.root / path).open(mode)
        self.asked["PUT"] += 1
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return (self.root / path).open(mode)


def test_an_object_store_sees_one_put_a_commit_and_no_list(tmp_path: Path) -> None:
    objects = ObjectStore(tmp_path / "bucket")

    def process(host: str) -> tuple[HdfsCommitter, HdfsLoader]:
        versions, counts = HdfsVersions(2), Counter[str]()
        reader = StoreReader(objects.filesystem, "state/0/0", RecordFormat())
        store_images = ImageCache(str(tmp_path / host), 1 << 30).store(StateStoreId("s3://bucket/state", 0, 0))
        images = VersionImages(store_images, reader, lambda: None, counts)
        committer = HdfsCommitter(reader, 2, versions, no_indexes(), counts)
        return committer, HdfsLoader(reader, versions, images, counts, shared_across_workers=False)

    committer, loader = process("one")
    version: VersionId = EMPTY
    for number in range(5):
        cached = loader.load(version)
        transaction = cached.tree.map.transaction(cached.layer)
        transaction.put(b"k", b"%d" % number)
        version = committer.commit(cached, transaction.seal())
    assert objects.asked == {"PUT": 5}
    objects.asked.clear()
    cached = process("two")[1].load(version)
    assert cached.tree.map.transaction(cached.layer).get(b"k") == b"4"
    # Two snapshots are looked for, which are not there, and each delta is read once.
    assert objects.asked == {"GET": 5}


def test_an_id_that_names_no_file_asks_for_no_other(executors: Partition) -> None:
    provider = executors.open()
    versions = chain(provider, 2)
    store = provider.get_store(*versions[1])
    store.put(b"other", b"2")
    other = ref(store.commit())
    path_of(executors, other).unlink()
    with pytest.raises(StateStoreError):
        executors.open("elsewhere").get_store(*other)
    with pytest.raises(StateStoreError):
        executors.open("elsewhere").get_store(2, str(uuid.uuid4()))
